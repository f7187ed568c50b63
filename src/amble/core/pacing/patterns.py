"""For which domains a rule holds: an exact name, all subdomains of one, or every domain. Pure."""

from __future__ import annotations

from amble.core.urls import domain_of
from amble.errors import BadDomain, SettingsError

EVERY = "*"
_HINT = "write a domain (shop.example), all its subdomains (*.shop.example), or * for every domain"


def read_pattern(pattern: str) -> tuple[str, bool]:
    """The domain that is meant, as domains are written, and whether it is its subdomains. Raises SettingsError."""
    name = pattern.strip()
    if name == EVERY:
        return "", True
    domain = name.removeprefix("*.")
    try:
        if "*" in domain or "/" in domain:
            raise BadDomain(domain)
        return domain_of(domain), domain != name
    except BadDomain:
        raise SettingsError(f"rule pattern {pattern!r} is not understood", hint=_HINT) from None
