"""Keep what was learned of each site, so that the next run does not have to learn it again at the site's expense.

    python examples/learned_state.py learned.json https://example.com/ https://example.com/about

Rows are plain: a JSON file here, a table elsewhere. A pace older than a week is half trusted, after a month forgotten;
a site that asked to be left alone for hours is left alone by the next run too.
"""

import json
import sys
from pathlib import Path

import httpx

import amble


def read(state: Path) -> list[dict[str, object]]:
    return json.loads(state.read_text()) if state.exists() else []


def write(state: Path, rows: list[dict[str, object]]) -> None:
    """All or nothing: a crash in the middle leaves the old file."""
    fresh = state.with_suffix(".tmp")
    fresh.write_text(json.dumps(rows, indent=1))
    fresh.replace(state)


def crawl(limiter: amble.Limiter, urls: list[str]) -> None:
    with httpx.Client(timeout=30) as client:
        for url in urls:
            with limiter.permit_sync(url) as permit:
                response = client.get(url)
                permit.settle(status=response.status_code, headers=response.headers)
            print(f"{response.status_code} {url} after {permit.waited_s:.2f} s")


def main(state: Path, urls: list[str]) -> None:
    limiter = amble.Limiter()
    rows = read(state)
    limiter.load(rows)
    print(f"{len(rows)} sites known from earlier runs")
    try:
        crawl(limiter, urls)
    finally:
        # A long run would also write `limiter.changed()` from time to time: each row at most every half minute.
        write(state, limiter.save())
        print(f"{len(limiter.save())} sites known now")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
