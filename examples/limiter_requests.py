"""The limiter inside a session of requests: code that uses the session need not know.

    python examples/limiter_requests.py https://example.com/ https://example.com/about

httpx (`LimitedTransport`), aiohttp (`limited`) and Scrapy (`LimiterMiddleware`) are served in the same way.
"""

import sys

import requests

import amble
from amble.integrations.requests import LimitedAdapter


def main(urls: list[str]) -> None:
    limiter = amble.Limiter()
    with requests.Session() as session:
        for scheme in ("https://", "http://"):
            session.mount(scheme, LimitedAdapter(limiter))
        for url in urls:
            print(session.get(url, timeout=30).status_code, url)  # waits its turn
    snapshot = limiter.snapshot()
    print(f"{snapshot.requests} requests, {snapshot.limited} refused, {snapshot.waited_s:.1f} s waited")


if __name__ == "__main__":
    main(sys.argv[1:])
