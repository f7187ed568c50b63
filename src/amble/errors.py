"""What can go wrong by our own or the caller's mistake. A server's faults are values, never exceptions.

AmbleError
├── SettingsError      a setting is unknown, out of range, or contradicts another
├── BadDomain          text that names no domain
├── BadUrl             text that is no http(s) URL
├── BadHeader          a header that must not be sent
├── StatementError     a CRAWL statement is not written as it must be
├── BadSelector        a CSS selector, accessor or path that cannot be read
├── FetcherClosed      a fetcher was asked after it was closed
├── WorkersDied        processes that fetch for a crawl die again and again
├── AddressRefused     a private address that nobody typed here
├── StoreError         the store cannot be used, or not so
│   ├── StoreLocked    another process holds the file
│   ├── StoreDamaged   the file is not what it was written as
│   ├── UntrustedClause SQL that a file brought along, and that is more than an expression
│   └── QueryRefused   SQL that is not one harmless SELECT
├── PermitError        a permit was used in a way it cannot be
│   └── AlreadySettled a permit was settled twice
└── Denied             a permit was asked for and will not be given
    ├── CircuitOpen    the domain fails; it will not be asked for a while
    └── TooLate        the turn would come only after the caller's deadline
"""

from __future__ import annotations


class AmbleError(Exception):
    """Base of every error amble raises. `hint` says what to do now."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message


def first_line(error: BaseException) -> str:
    """What an error says, in a line: DuckDB goes on with where it stands."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


class SettingsError(AmbleError, ValueError):
    """A setting is unknown, out of range, or contradicts another."""


class BadDomain(AmbleError, ValueError):
    """Text that names no domain."""


class BadUrl(AmbleError, ValueError):
    """Text that is no http(s) URL."""


class BadHeader(AmbleError, ValueError):
    """A header that must not be sent."""


class BadSelector(AmbleError, ValueError):
    """A CSS selector, accessor or path that cannot be read."""


class StatementError(AmbleError, ValueError):
    """A CRAWL statement is not written as it must be."""


class FetcherClosed(AmbleError, RuntimeError):
    """A fetcher was asked after it was closed."""


class WorkersDied(AmbleError):
    """Processes that fetch for a crawl die again and again. The job can be taken up."""


class AddressRefused(AmbleError):
    """A job leads to private addresses that nobody typed here. `places` are as `allow_private` names them."""

    def __init__(self, message: str, *, places: tuple[str, ...]) -> None:
        super().__init__(message, hint=f"where you mean it: allow_private = {','.join(places)} (none: without them)")
        self.places = places


class StoreError(AmbleError):
    """The store cannot be used, or not so."""


class StoreLocked(StoreError):
    """Another process holds the file."""


class StoreDamaged(StoreError):
    """The file is not what it was written as."""


class QueryRefused(StoreError):
    """SQL that is not one harmless SELECT."""


class UntrustedClause(StoreError):
    """SQL that a file brought along, and that is more than an expression over a page."""


class PermitError(AmbleError, RuntimeError):
    """A permit was used in a way it cannot be."""


class AlreadySettled(PermitError):
    """A permit was settled twice."""


class Denied(AmbleError):
    """A permit was asked for and will not be given."""

    def __init__(self, message: str, *, domain: str, wait_s: float, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.domain = domain
        self.wait_s = wait_s


class CircuitOpen(Denied):
    """The domain fails; it will not be asked for `wait_s` more seconds."""


class TooLate(Denied):
    """The turn would come only after the caller's deadline."""
