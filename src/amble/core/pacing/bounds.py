"""What holds for a domain whatever its strategy learns: settings, the most specific rule, the crawl delay. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from amble.core.pacing.patterns import read_pattern
from amble.core.pacing.permit import Source
from amble.core.pacing.settings import PacingSettings, Rule

Random = Callable[[], float]  # uniform in [0, 1); passed in, never taken from the module


FAMILY_MAX = 1_000  # crawl delays that differ; sites that each ask for another one pay for their own


# What `enabled = false` means where nobody said otherwise. A crawl delay, Retry-After and an open circuit still hold.
UNPACED = {
    "pacing": "fixed",
    "fixed_delay": 0.0,
    "max_rate": None,
    "min_crawl_delay": 0.0,
    "default_crawl_delay": 0.0,
    "random_delay": 0.0,
    "max_parallel_per_domain": 100_000,
}


_STRATEGY = {"pacing", "fixed_delay"}

# Of two crawls of one domain, what is stricter about a setting of theirs. The others are the first one's.
_STRICTER: dict[str, Callable[..., Any]] = {
    "default_crawl_delay": max,
    "min_crawl_delay": max,
    "permit_timeout": max,
    "error_rate_threshold": min,
    "min_samples_to_trip": min,
    "consecutive_fail_threshold": min,
    "open_state_duration": max,
    "open_state_duration_max": max,
    "half_open_probes": min,
    "concurrency_step": min,
}


class Bounds:
    """Shared by all domains with the same rule and crawl delay, so that a domain pays only for one reference."""

    __slots__ = (
        "_family",
        "_rule",
        "asked_s",
        "baseline_s",
        "crawl_delay_s",
        "crowded_from_s",
        "gap_s",
        "parallel",
        "random",
        "random_delay_s",
        "settings",
        "source",
        "strategy",
    )

    def __init__(
        self,
        settings: PacingSettings,
        rule: Rule | None,
        random: Random,
        crawl_delay_s: float | None = None,
        family: dict[float | None, Bounds] | None = None,
    ) -> None:
        if not settings.enabled:
            said = settings.model_fields_set - _STRATEGY
            settings = settings.model_copy(update={name: UNPACED[name] for name in UNPACED.keys() - said})
        self.settings = settings
        self.random = random
        self._rule = rule = rule or Rule()
        self._family = {} if family is None else family
        self._family[crawl_delay_s] = self
        self.asked_s = crawl_delay_s  # by robots.txt; None where it asks for nothing
        self.crawl_delay_s = (settings.default_crawl_delay if crawl_delay_s is None else crawl_delay_s) or None
        self.gap_s, self.source = self._longest_gap(rule)
        self.random_delay_s = settings.random_delay if rule.random_delay is None else rule.random_delay
        self.parallel = settings.max_parallel_per_domain if rule.parallel is None else rule.parallel
        self.strategy = settings.pacing if rule.pacing is None else rule.pacing
        # Over the baseline by one step, a delay costs a slot.
        self.baseline_s = max(settings.base_delay, self.crawl_delay_s or 0.0)
        self.crowded_from_s = self.baseline_s + settings.concurrency_step

    def under(self, crawl_delay_s: float | None) -> Bounds:
        """The same bounds with what robots.txt asks for; None where it asks for nothing and the default holds."""
        known = self._family.get(crawl_delay_s)
        family = self._family if len(self._family) < FAMILY_MAX else None
        return known or Bounds(self.settings, self._rule, self.random, crawl_delay_s, family)

    def same(self, other: Bounds) -> bool:
        """Whether both say the same, leaving aside what robots.txt asks for."""
        if self.settings is other.settings and self._rule is other._rule:
            return True
        return (self.settings, self._rule, self._max_rate) == (other.settings, other._rule, other._max_rate)

    def stricter(self, other: Bounds) -> Bounds:
        """What keeps to both: nothing is sent that either of them would not let go. The strategy is our own."""
        if self.same(other):
            return self
        settings = {name: pick(getattr(self.settings, name), getattr(other.settings, name))
                    for name, pick in _STRICTER.items()}  # fmt: skip
        rates = [rate for rate in (self._max_rate, other._max_rate) if rate is not None]
        rule = Rule(
            delay=max(self._shortest_s, other._shortest_s),
            parallel=min(self.parallel, other.parallel),
            random_delay=max(self.random_delay_s, other.random_delay_s),
            max_rate=min(rates, default=None),
            pacing=self.strategy,
        )
        settings |= {"enabled": True, "rules": {}}  # what is not enabled is already written into the settings
        return Bounds(self.settings.model_copy(update=settings), rule, self.random)

    @property
    def _max_rate(self) -> float | None:
        # A rule may say `unlimited`, which is not the same as saying nothing.
        return self._rule.max_rate if "max_rate" in self._rule.model_fields_set else self.settings.max_rate

    @property
    def _shortest_s(self) -> float:
        """The gap that neither the rule nor the strategy would ever undercut."""
        settings = self.settings
        own_s = {"fixed": settings.fixed_delay, "linear": settings.base_delay, "aimd": 1 / settings.max_rps}
        return max(self._rule.delay or 0.0, settings.min_crawl_delay, own_s.get(self.strategy, 0.0))

    def _longest_gap(self, rule: Rule) -> tuple[float, Source]:
        settings, max_rate = self.settings, self._max_rate
        gaps = (
            (0.0 if max_rate is None else 1.0 / max_rate, Source.MAX_RATE),
            (max(rule.delay or 0.0, settings.min_crawl_delay), Source.MINIMUM),
            (self.crawl_delay_s or 0.0, Source.CRAWL_DELAY),
        )
        longest_s, source = 0.0, Source.NONE
        for gap_s, named in gaps:
            if gap_s > 0 and gap_s >= longest_s:
                longest_s, source = gap_s, named
        return longest_s, source


def _for_addresses(settings: PacingSettings) -> PacingSettings:
    """An address has a constant gap and a number of slots, and learns nothing."""
    slots = settings.max_parallel_per_address or UNPACED["max_parallel_per_domain"]
    own = {"min_crawl_delay": settings.min_address_delay, "max_parallel_per_domain": slots, "rules": {}}
    return settings.model_copy(update={**UNPACED, **own, "enabled": True})


class Rulebook:
    """Finds the bounds of a domain: an exact name first, then the longest pattern, then the general settings."""

    def __init__(self, settings: PacingSettings, random: Random) -> None:
        self._general = Bounds(settings, None, random)
        self.address_bounds = Bounds(_for_addresses(settings), None, random)
        self._exact: dict[str, Bounds] = {}
        self._suffixes: dict[str, Bounds] = {}
        for pattern, rule in settings.rules.items():
            self._add(pattern, Bounds(settings, rule, random))

    def bounds(self, domain: str) -> Bounds:
        if not self._exact and not self._suffixes:
            return self._general
        # A rule without a port is for the host at all its ports, unless there is one for this very port.
        names = [domain]
        host, colon, port = domain.rpartition(":")
        if colon and port.isdigit():
            names.append(host)
        for name in names:
            if name in self._exact:
                return self._exact[name]
        return self._by_suffix(names)

    def _by_suffix(self, names: list[str]) -> Bounds:
        suffixes = names
        while suffixes[-1]:
            suffixes = [suffix.partition(".")[2] for suffix in suffixes]
            for suffix in suffixes:
                found = self._suffixes.get(suffix)  # "" is the pattern `*`
                if found is not None:
                    return found
        return self._general

    def _add(self, pattern: str, bounds: Bounds) -> None:
        name, is_suffix = read_pattern(pattern)
        (self._suffixes if is_suffix else self._exact)[name] = bounds
