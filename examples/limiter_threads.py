"""The same from plain threads, with nothing but the standard library.

    python examples/limiter_threads.py https://example.com/ https://example.com/about https://example.org/

`urlopen` raises an answer of 400 and above as an error. The permit sees it leave the block and learns from it what it
would have learned from the answer: the status, and how long the server wants to be left alone.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import amble

THREADS = 8


def fetch(limiter: amble.Limiter, url: str) -> str:
    try:
        with limiter.permit_sync(url, deadline_s=60) as permit, urlopen(url, timeout=30) as response:
            body = response.read()
            permit.settle(status=response.status, headers=response.headers)
    except amble.Denied as refused:  # the circuit is open, or the turn would come too late
        return f"--- {url}: {refused.message}"
    except HTTPError as answer:
        answer.close()
        return f"{answer.code} {url}"
    except URLError as error:
        return f"--- {url}: {error.reason}"
    return f"{response.status} {url}: {len(body)} bytes after {permit.waited_s:.2f} s"


def main(urls: list[str]) -> None:
    limiter = amble.Limiter()
    with ThreadPoolExecutor(THREADS) as pool:
        for line in pool.map(lambda url: fetch(limiter, url), urls):
            print(line)
    snapshot = limiter.snapshot()
    print(f"{snapshot.requests} requests, {snapshot.limited} refused, {snapshot.failures} failed")


if __name__ == "__main__":
    main(sys.argv[1:])
