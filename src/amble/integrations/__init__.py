"""The limiter inside the HTTP clients people already use; one file for each, which alone imports that client.

    httpx      client = httpx.AsyncClient(transport=AsyncLimitedTransport(limiter))
    aiohttp    session = aiohttp.ClientSession(middlewares=[limited(limiter)])
    requests   session.mount("https://", LimitedAdapter(limiter))
    Scrapy     DOWNLOADER_MIDDLEWARES = {"amble.integrations.scrapy.LimiterMiddleware": 990}

Every hop of a redirect waits its own turn, and so does every try of requests' `max_retries`. A refusal is learned from
as soon as its headers are there; otherwise a request counts as under way until its body has been read or dropped.

With httpx gaps lie between sends, for it tells when it writes a request. The others do not: there they lie between
permits, and requests that connect side by side may leave closer together. Where you know, call `sent` on a permit.
"""
