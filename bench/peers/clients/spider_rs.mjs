// spider-rs through its binding for node: a website for each host, 32 at once, robots.txt respected, nothing stored.
// Websites are large and live outside of the heap that node watches, hence the calls of gc (node --expose-gc).
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const AT_ONCE = 32
const GC_EVERY = 100
const { Website } = createRequire(`${process.argv[2]}/`)('@spider-rs/spider-rs')
const roots = readFileSync(0, 'utf8').split('\n').filter(Boolean)
let next = 0

async function work() {
  while (next < roots.length) {
    const website = new Website(roots[next++]).withRespectRobotsTxt(true).withUserAgent('spider-rs').build()
    await website.crawl()
    website.clear()
    if (next % GC_EVERY === 0) globalThis.gc()
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, work))
