"""What holds for a domain whatever its strategy learns: settings and the most specific rule, resolved once. Pure."""

from __future__ import annotations

from collections.abc import Callable

from amble.core.pacing.permit import Source
from amble.core.pacing.settings import PacingSettings, Rule
from amble.errors import SettingsError

Random = Callable[[], float]  # uniform in [0, 1); passed in, never taken from the module


class Bounds:
    """Shared by all domains that the same rule covers."""

    __slots__ = ("gap_s", "parallel", "random", "random_delay_s", "settings", "source", "strategy")

    def __init__(self, settings: PacingSettings, rule: Rule | None, random: Random) -> None:
        rule = rule or Rule()
        minimum_s = settings.min_crawl_delay if rule.delay is None else max(rule.delay, settings.min_crawl_delay)
        max_rate = settings.max_rate if rule.max_rate is None else rule.max_rate
        rate_gap_s = 0.0 if max_rate is None else 1.0 / max_rate
        self.settings = settings
        self.random = random
        self.gap_s = max(minimum_s, rate_gap_s)
        self.source = Source.MINIMUM if minimum_s >= rate_gap_s else Source.MAX_RATE
        if self.gap_s == 0.0:
            self.source = Source.NONE
        self.random_delay_s = settings.random_delay if rule.random_delay is None else rule.random_delay
        self.parallel = settings.max_parallel_per_domain if rule.parallel is None else rule.parallel
        self.strategy = settings.pacing if rule.pacing is None else rule.pacing


class Rulebook:
    """Finds the bounds of a domain: an exact name first, then the longest pattern, then the general settings."""

    def __init__(self, settings: PacingSettings, random: Random) -> None:
        self._general = Bounds(settings, None, random)
        self._exact: dict[str, Bounds] = {}
        self._suffixes: dict[str, Bounds] = {}
        for pattern, rule in settings.rules.items():
            self._add(pattern, Bounds(settings, rule, random))

    def bounds(self, domain: str) -> Bounds:
        if not self._exact and not self._suffixes:
            return self._general
        exact = self._exact.get(domain)
        if exact is not None:
            return exact
        suffix = domain
        while suffix:
            _, _, suffix = suffix.partition(".")
            found = self._suffixes.get(suffix)  # "" is the pattern `*`
            if found is not None:
                return found
        return self._general

    def _add(self, pattern: str, bounds: Bounds) -> None:
        name = pattern.strip().lower().rstrip(".")
        if name == "*":
            self._suffixes[""] = bounds
        elif name.startswith("*.") and name[2:] and "*" not in name[2:]:
            self._suffixes[name[2:]] = bounds
        elif name and "*" not in name and "/" not in name:
            self._exact[name] = bounds
        else:
            raise SettingsError(
                f"rule pattern {pattern!r} is not understood",
                hint="write a domain (shop.example), all its subdomains (*.shop.example), or * for every domain",
            )
