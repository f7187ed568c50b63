"""A site into a DuckDB file, asked in SQL while it fills and afterwards.

    python examples/crawl_site.py https://example.com/ site.duckdb

Run it again: pages that the file holds are not fetched a second time.
"""

import sys

import amble


def main(seed: str, into: str) -> None:
    job = amble.crawl(seed, into=into, follow_links=True, wait=False)  # runs on while we look
    print(f"crawling: {job.counts['pages']} pages so far")
    job.wait()
    print(f"{job.status.value}: {job.counts['pages']} pages, {job.counts['failed']} failed")
    for title, url in job.sql("SELECT title, url FROM pages WHERE http_status = 200 ORDER BY url LIMIT 5").fetchall():
        print(f"  {title} <{url}>")
    if job.counts["requests"]:
        print(job.why(seed).as_text().splitlines()[0])
    job.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
