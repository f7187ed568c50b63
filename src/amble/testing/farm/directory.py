"""Which site answers to which name."""

from __future__ import annotations

from collections.abc import Iterable

from amble.fetcher.resolver import DnsError, Resolution
from amble.testing.farm.site import Site


class Directory:
    """The sites by name; those with subdomains answer to every name below theirs."""

    def __init__(self, sites: Iterable[Site]) -> None:
        self._by_name: dict[str, Site] = {}
        self.replace(*sites)

    def replace(self, *sites: Site) -> None:
        """Put these in the place of the sites of the same names."""
        self._by_name |= {site.name: site for site in sites}

    def find(self, host: str) -> Site | None:
        site = self._by_name.get(host)
        above = host
        while site is None and above:
            above = above.partition(".")[2]
            candidate = self._by_name.get(above)
            site = candidate if candidate is not None and candidate.subdomains else None
        return site

    def all(self) -> list[Site]:
        return list(self._by_name.values())

    @property
    def addresses(self) -> list[str]:
        """Where to listen."""
        return list(dict.fromkeys(site.address for site in self._by_name.values())) or ["127.0.0.1"]


class FarmResolver:
    """Resolves the farm's names to loopback, and no others."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    async def resolve(self, host: str) -> Resolution:
        site = self._directory.find(host.rstrip("."))
        if site is None:
            return Resolution(error=DnsError.NO_SUCH_NAME, detail="not a site of the farm")
        return Resolution((site.address,))

    def close(self) -> None:
        """Nothing is held."""
