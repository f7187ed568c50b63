"""The one thing that talks to the network: libcurl on asyncio, names and the address guard, bodies read with a cap."""

from amble.core.outcome import Phase
from amble.fetcher.fetcher import Fetcher
from amble.fetcher.request import FetchRequest, KeepBody
from amble.fetcher.resolver import DnsError, RememberingResolver, Resolution, Resolver, ThreadedResolver
from amble.fetcher.result import FetchResult
from amble.fetcher.settings import FetcherSettings, proxy_from_environment

__all__ = [
    "DnsError",
    "FetchRequest",
    "FetchResult",
    "Fetcher",
    "FetcherSettings",
    "KeepBody",
    "Phase",
    "RememberingResolver",
    "Resolution",
    "Resolver",
    "ThreadedResolver",
    "proxy_from_environment",
]
