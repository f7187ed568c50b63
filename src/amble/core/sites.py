"""Which site a domain belongs to: the name somebody registered, by the public suffix list. Pure.

The list travels with its package and is read once, at the first question; nothing is ever downloaded.
"""

from __future__ import annotations

from functools import cache, lru_cache

from publicsuffixlist import PublicSuffixList


@cache
def _suffixes() -> PublicSuffixList:
    return PublicSuffixList()


@lru_cache(maxsize=8192)
def registrable_domain(domain: str) -> str | None:
    """The registered name of a domain, without port; None for addresses and for names that are themselves suffixes."""
    host = _host(domain)
    if host.startswith("[") or host.rpartition(".")[2].isdigit():
        return None  # an address belongs to nobody's zone, whatever its last number looks like
    registered: str | None = _suffixes().privatesuffix(host)
    return registered


def site_of(domain: str) -> str:
    """The site of a domain: its registered name, else its host. Ports do not tell sites apart."""
    return registrable_domain(domain) or _host(domain)


def _host(domain: str) -> str:
    return domain[: domain.rindex("]") + 1] if domain.startswith("[") else domain.partition(":")[0]
