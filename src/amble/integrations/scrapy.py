"""A downloader middleware for Scrapy that waits for the limiter before each request, and tells it of each answer.

DOWNLOADER_MIDDLEWARES = {"amble.integrations.scrapy.LimiterMiddleware": 990}  # nearest to the downloader
AMBLE_PACING = {"max_rate": 2.0}  # settings of the limiter, by name
CONCURRENT_REQUESTS = 100         # requests that wait here count for Scrapy as under way
"""

from __future__ import annotations

from typing import Any, Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.misc import load_object
from scrapy.utils.reactor import is_asyncio_reactor_installed
from twisted.internet.threads import deferToThread

from amble.core.answer import Headers
from amble.limiter import IssuedPermit, Limiter

PERMIT = "amble_permit"  # in a request's meta, while it is under way


class LimiterMiddleware:
    """One limiter for each crawler; for several to share one, set `AMBLE_LIMITER = "myproject.pacing.limiter"`."""

    def __init__(self, limiter: Limiter) -> None:
        self.limiter = limiter

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        where = settings.get("AMBLE_LIMITER")  # by its place: Scrapy copies its settings, and a limiter has no copies
        return cls(load_object(where) if where else Limiter(**settings.getdict("AMBLE_PACING")))

    async def process_request(self, request: Request, spider: Any = None) -> None:
        attempt = 1 + request.meta.get("retry_times", 0)  # as Scrapy's own middleware counts them
        if is_asyncio_reactor_installed():
            permit = await self.limiter.permit(request.url, wait_if_open=True, attempt=attempt)
        else:
            turn = deferToThread(self.limiter.permit_sync, request.url, wait_if_open=True, attempt=attempt)
            permit = await maybe_deferred_to_future(turn)
        request.meta[PERMIT] = permit

    def process_response(self, request: Request, response: Response, spider: Any = None) -> Response:
        permit: IssuedPermit | None = request.meta.pop(PERMIT, None)
        if permit is not None:
            permit.settle(status=response.status, headers=_headers(response))
        return response

    def process_exception(self, request: Request, exception: Exception, spider: Any = None) -> None:
        permit: IssuedPermit | None = request.meta.pop(PERMIT, None)
        if permit is None:
            return
        if isinstance(exception, IgnoreRequest):
            permit.cancel()  # nothing was sent
        else:
            permit.settle(error=exception)


def _headers(response: Response) -> Headers:
    return {name.decode("latin-1"): value.decode("latin-1") for name, (value, *_) in response.headers.items()}
