"""Pages of any number of sites with httpx, each site asked as fast as it can bear.

    python examples/limiter_httpx.py https://example.com/ https://example.com/about https://example.org/

All tasks ask one limiter for their turn. Every answer teaches it; a 429 is taken to heart and the page asked for again.
"""

import asyncio
import sys

import httpx

import amble

TRIES = 5


async def fetch(client: httpx.AsyncClient, limiter: amble.Limiter, url: str) -> str:
    for attempt in range(1, TRIES + 1):
        try:
            async with limiter.permit(url, attempt=attempt) as permit:  # waits its turn
                response = await client.get(url)
                permit.settle(status=response.status_code, headers=response.headers)
        except amble.CircuitOpen as refused:
            return f"--- {url}: {refused.message}"
        except httpx.HTTPError as error:  # leaving the block has told the limiter
            answer = f"--- {url}: {error!r}"
        else:
            answer = f"{response.status_code} {url} after {permit.waited_s:.2f} s"
            if response.status_code not in (429, 503):
                break
    return answer


async def main(urls: list[str]) -> None:
    limiter = amble.Limiter(listeners=[lambda event: print(f"    {event}")])
    async with httpx.AsyncClient(timeout=30) as client:
        for answer in asyncio.as_completed([fetch(client, limiter, url) for url in urls]):
            print(await answer)
    snapshot = limiter.snapshot()
    print(f"{snapshot.requests} requests, {snapshot.limited} refused, {snapshot.waited_s:.1f} s waited in all")
    for domain in snapshot.domains:
        print(f"{domain.domain}: one request per {domain.delay_s:.2f} s ({domain.source}: {domain.reason})")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
