"""A polite web crawler that learns the pace each site can bear.

    job = amble.crawl("https://example.com/", into="site.duckdb")
    job.sql("SELECT url, title FROM pages")

The limiter on its own, for any HTTP code:

    limiter = amble.Limiter()
    async with limiter.permit("https://example.com/a") as permit:  # waits its turn
        response = await client.get("https://example.com/a")
        permit.settle(status=response.status_code, headers=response.headers)

Names are imported when they are first used, so that `import amble` costs next to nothing.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amble.core.outcome import Failure as Failure
    from amble.core.outcome import Outcome as Outcome
    from amble.core.pacing.settings import PacingSettings as PacingSettings
    from amble.core.pacing.settings import Rule as Rule
    from amble.core.urls import domain_of as domain_of
    from amble.errors import AlreadySettled as AlreadySettled
    from amble.errors import AmbleError as AmbleError
    from amble.errors import BadDomain as BadDomain
    from amble.errors import BadUrl as BadUrl
    from amble.errors import CircuitOpen as CircuitOpen
    from amble.errors import Denied as Denied
    from amble.errors import PermitError as PermitError
    from amble.errors import SettingsError as SettingsError
    from amble.errors import StatementError as StatementError
    from amble.errors import StoreError as StoreError
    from amble.errors import TooLate as TooLate
    from amble.face import CrawlJob as CrawlJob
    from amble.face import crawl as crawl
    from amble.face import crawl_async as crawl_async
    from amble.face import resume as resume
    from amble.face import resume_async as resume_async
    from amble.limiter import Limiter as Limiter
    from amble.sql.connection import Connection as Connection
    from amble.sql.connection import connect as connect

    __version__: str

_HOMES = {
    "amble.core.outcome": ("Failure", "Outcome"),
    "amble.core.pacing.settings": ("PacingSettings", "Rule"),
    "amble.core.urls": ("domain_of",),
    "amble.errors": (
        "AlreadySettled", "AmbleError", "BadDomain", "BadUrl", "CircuitOpen", "Denied", "PermitError", "SettingsError",
        "StatementError", "StoreError", "TooLate",
    ),
    "amble.face": ("CrawlJob", "crawl", "crawl_async", "resume", "resume_async"),
    "amble.limiter": ("Limiter",),
    "amble.sql.connection": ("Connection", "connect"),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted([*_HOME_OF, "__version__"])

if not TYPE_CHECKING:  # else the checker would believe in every name

    def __getattr__(name: str) -> Any:
        home = _HOME_OF.get(name)
        if home is not None:
            from amble.collecting import seldom

            with seldom():
                value = getattr(import_module(home), name)
        elif name == "__version__":
            from importlib.metadata import version

            value = version("amble")
        else:
            raise AttributeError(f"module 'amble' has no attribute {name!r}")
        globals()[name] = value
        return value

    class _Package(ModuleType):
        """`amble.crawl` is the function, though importing the module of that name would put the module in its place."""

        @property
        def crawl(self) -> Any:
            return import_module("amble.face").crawl

        @crawl.setter
        def crawl(self, module: ModuleType) -> None:
            pass

    sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
