"""Several sites at once from a coroutine. One limiter holds for all of them: a domain has one budget in a process.

python examples/crawl_in_coroutine.py https://example.com/ https://example.org/
"""

import asyncio
import sys

import amble


async def main(seeds: list[str]) -> None:
    jobs = await asyncio.gather(*(amble.crawl_async(seed, into=":memory:", max_crawl_pages=50) for seed in seeds))
    for seed, job in zip(seeds, jobs, strict=True):
        print(f"{seed}: {job.status.value}, {job.counts['pages']} pages, {job.counts['requests']} requests")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
