"""Every setting of pacing: its range, its default and why; contradictions are refused with a hint. Pure.

Durations are seconds, rates are requests per second. Names follow the options of `CRAWL ... WITH (...)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from amble.core.checked import CheckedModel, Refused
from amble.core.pacing.patterns import read_pattern
from amble.errors import SettingsError

Seconds = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=100_000, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=100_000)]

_SETTLED_WITHIN_S = 30.0  # from the end of a request, on a machine that is busy

StrategyName = Literal["gauge", "linear", "aimd", "fibonacci", "fixed"]


def _unlimited_is_none(value: Any) -> Any:
    return None if value == "unlimited" else value


def _adaptive_is_gauge(value: Any) -> Any:
    return "gauge" if value == "adaptive" else value


# The strategies that a setting is for, where it is not for all.
_OWNERS: dict[str, tuple[StrategyName, ...]] = {
    "refusal_price": ("gauge",),
    "delay_step": ("linear",),
    "success_probe_threshold": ("linear",),
    "initial_rps": ("aimd",),
    "min_rps": ("aimd",),
    "max_rps": ("aimd",),
    "token_bucket_capacity": ("aimd",),
    "aimd_increase": ("aimd",),
    "aimd_decrease": ("aimd",),
    "latency_target": ("aimd",),
    "latency_degrade_factor": ("aimd", "fibonacci"),
    "fixed_delay": ("fixed",),
}

MaxRate = Annotated[Rate | None, BeforeValidator(_unlimited_is_none)]
Pacing = Annotated[StrategyName, BeforeValidator(_adaptive_is_gauge)]


class Rule(CheckedModel):
    """What holds for the domains that match one pattern, in place of the general settings."""

    delay: Seconds | None = Field(default=None, description="shortest gap between requests")
    parallel: Count | None = Field(default=None, description="most requests under way at once")
    random_delay: Seconds | None = Field(default=None, description="random part added to each gap")
    max_rate: MaxRate = Field(default=None, description="highest rate, however fast the site seems")
    pacing: Pacing | None = Field(default=None, description="strategy")


class PacingSettings(CheckedModel):
    """How fast domains are asked."""

    # -- the shell: common to every strategy, a strategy can only be slower
    enabled: bool = Field(
        default=True,
        description="false: no pace of our own, neither learned nor by default; gaps, rates, requests at once and "
        "rules that are set hold, as do a crawl delay, Retry-After and open circuits",
    )
    pacing: Pacing = Field(
        default="gauge", description="strategy that learns the pace; `adaptive` is another name of gauge"
    )
    max_rate: MaxRate = Field(default=8.0, description="highest rate per domain; `unlimited` lifts it")
    default_crawl_delay: Seconds = Field(
        default=0.0, description="gap where robots.txt states no Crawl-delay or cannot be had"
    )
    min_crawl_delay: Seconds = Field(default=0.0, description="gap never undercut, whatever a site allows")
    random_delay: Seconds = Field(default=0.0, description="random part added to each gap")
    max_parallel_per_domain: Count = Field(default=8, description="most requests under way at one domain")
    max_parallel_per_address: Count | None = Field(
        default=None, description="most requests under way at one IP address, over all its domains; none: no limit"
    )
    min_address_delay: Seconds = Field(
        default=0.0, description="gap between requests to one IP address, over all its domains"
    )
    max_retry_after: Annotated[float, Field(gt=0, le=31_536_000, allow_inf_nan=False)] = Field(
        default=86_400.0,
        description="longest Retry-After that is kept; a domain that asks for more hands its URLs back as deferred",
    )
    share_pace: Literal["machine", "process"] = Field(
        default="machine",
        description="who keeps to one pace of a domain: every process of this user on this machine, or each its own",
    )
    rules: dict[str, Rule] = Field(default_factory=dict, description="pattern such as `*.shop.example` -> rule")
    permit_timeout: Annotated[float, Field(ge=1, le=86_400, allow_inf_nan=False)] = Field(
        default=120.0,
        description="a permit not settled by then is lost and its slot free again; in a crawl not before its request "
        "has run out of time",
    )

    # -- breaker
    error_rate_threshold: Share = Field(
        default=0.5, description="share of failures in the window that opens the circuit"
    )
    min_samples_to_trip: Count = Field(default=10, description="fewest answers in the window that say anything")
    consecutive_fail_threshold: Count = Field(
        default=5,
        description="failures in a row that open the circuit; overdue answers count while they are awaited",
    )
    open_state_duration: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = Field(
        default=15.0, description="how long an open circuit stays shut at first; doubles each time it reopens"
    )
    open_state_duration_max: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = Field(
        default=300.0, description="longest that it stays shut"
    )
    half_open_probes: Annotated[int, Field(ge=1, le=100)] = Field(
        default=1, description="trial requests of a half-open circuit; as many successes close it"
    )
    stats_window: Annotated[float, Field(ge=1, le=3_600, allow_inf_nan=False)] = Field(
        default=30.0, description="length of the sliding window of failures"
    )
    stats_bucket: Annotated[float, Field(ge=0.1, le=600, allow_inf_nan=False)] = Field(
        default=2.0, description="its resolution"
    )

    # -- concurrency
    concurrency_step: Annotated[float, Field(gt=0, le=3_600, allow_inf_nan=False)] = Field(
        default=5.0, description="each time the delay grows by this much, one request fewer at a time"
    )

    # -- gauge
    refusal_price: Annotated[float, Field(ge=0, le=1_000, allow_inf_nan=False)] = Field(
        default=2.0,
        description="what a refusal is taken to cost beside its pause, in pages: the higher, the longer an estimate is "
        "kept before a higher rate is tried (gauge)",
    )

    # -- linear
    base_delay: Seconds = Field(
        default=0.5, description="delay of an unknown domain (linear); baseline of the concurrency rule"
    )
    max_adaptive_delay: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = Field(
        default=60.0, description="longest delay that is learned, by any strategy"
    )
    delay_step: Annotated[float, Field(gt=0, le=3_600, allow_inf_nan=False)] = Field(
        default=1.0, description="added on a limit, taken off by a probe (linear)"
    )
    success_probe_threshold: Count = Field(
        default=20, description="successes in a row before a shorter delay is tried (linear)"
    )

    # -- aimd
    initial_rps: Rate = Field(default=2.0, description="rate of an unknown domain (aimd)")
    min_rps: Rate = Field(default=0.25, description="lowest rate (aimd)")
    max_rps: Rate = Field(default=8.0, description="highest rate (aimd); max_rate still holds")
    token_bucket_capacity: Annotated[float, Field(ge=1, le=1_000, allow_inf_nan=False)] = Field(
        default=4.0, description="burst allowance (aimd); 1 where a crawl delay exists"
    )
    aimd_increase: Rate = Field(default=0.25, description="added to the rate per fast success (aimd)")
    aimd_decrease: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = Field(
        default=0.5, description="the rate is multiplied by this on a limit (aimd)"
    )
    latency_target: Annotated[float, Field(gt=0, le=600, allow_inf_nan=False)] = Field(
        default=1.0, description="response time expected at first (aimd)"
    )
    latency_degrade_factor: Annotated[float, Field(gt=1, le=100, allow_inf_nan=False)] = Field(
        default=2.0,
        description="a response this many times slower than the target (aimd) or than the domain's own average "
        "(fibonacci) counts as slow",
    )

    # -- fixed
    fixed_delay: Seconds = Field(default=1.0, description="the constant delay (fixed)")

    # -- retries of one URL
    max_retries: Annotated[int, Field(ge=0, le=100)] = Field(
        default=5,
        description="tries after the first; asking whether a site is back that has just gone down may add as many",
    )
    retry_backoff: Literal["fibonacci", "exponential"] = Field(
        default="fibonacci", description="how waits between tries grow"
    )
    retry_base_delay: Annotated[float, Field(gt=0, le=3_600, allow_inf_nan=False)] = Field(
        default=0.2, description="first wait (exponential)"
    )
    max_retry_backoff_seconds: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = Field(
        default=600.0, description="longest wait; also the longest block of the fibonacci strategy"
    )

    # -- memory of domains
    domain_state_ttl: Annotated[float, Field(ge=1, le=31_536_000, allow_inf_nan=False)] = Field(
        default=1_800.0, description="an idle domain is forgotten after this long, its learning kept"
    )
    max_domains: Annotated[int, Field(ge=1, le=100_000_000)] = Field(
        default=200_000, description="most domains kept in memory; the least recently used idle ones go first"
    )
    shards: Annotated[int, Field(ge=1, le=4_096)] = Field(
        default=16, description="locks that share the domains; a power of two"
    )
    learned_half_trust_after: Annotated[float, Field(gt=0, le=3_650, allow_inf_nan=False)] = Field(
        default=7.0, description="days after which a learned pace is half trusted"
    )
    learned_forget_after: Annotated[float, Field(gt=0, le=3_650, allow_inf_nan=False)] = Field(
        default=30.0, description="days after which it is forgotten"
    )
    save_debounce: Seconds = Field(default=30.0, description="least time between two writes of one domain's learning")

    def idle(self) -> list[tuple[str, str]]:
        """(name, why) of what was set and does nothing: it is for a strategy that no domain has."""
        chosen = {rule.pacing for rule in self.rules.values()} | ({self.pacing} if self.enabled else set())
        meant = {name: owners for name, owners in _OWNERS.items() if not chosen.intersection(owners)}
        if not self.enabled:
            meant |= {"pacing": ()}
        why = f"the strategy is {self.pacing}" if self.enabled else "enabled is false"
        return [
            (name, f"it is for {' and '.join(meant[name])}, and {why}" if meant[name] else why)
            for name in type(self).model_fields if name in meant and name in self.model_fields_set
        ]  # fmt: skip

    @property
    def limits_addresses(self) -> bool:
        """Whether domains that share an address share a second budget."""
        return self.max_parallel_per_address is not None or self.min_address_delay > 0

    def outlasting(self, request_s: float) -> PacingSettings:
        """The same where requests may take so long: no permit counts as lost while its request may still run."""
        permit_timeout = max(self.permit_timeout, request_s + _SETTLED_WITHIN_S)
        return self.model_copy(update={"permit_timeout": permit_timeout})

    def contradictions(self) -> Iterable[tuple[bool, str]]:
        return (
            (self.min_rps > self.max_rps, "min_rps is above max_rps"),
            (not self.min_rps <= self.initial_rps <= self.max_rps, "initial_rps lies outside min_rps..max_rps"),
            (self.base_delay > self.max_adaptive_delay, "base_delay is above max_adaptive_delay"),
            (self.stats_bucket > self.stats_window, "stats_bucket is longer than stats_window"),
            (self.stats_window / self.stats_bucket > 256, "stats_window holds more than 256 buckets of stats_bucket"),
            (self.open_state_duration > self.open_state_duration_max, "open_state_duration is above its maximum"),
            (self.retry_base_delay > self.max_retry_backoff_seconds, "retry_base_delay is above its maximum"),
            (
                self.learned_half_trust_after > self.learned_forget_after,
                "learning would be forgotten before it is half trusted",
            ),
            (self.shards & (self.shards - 1) != 0, "shards is not a power of two"),
            (
                self.max_rate is not None
                and self.min_crawl_delay > 0
                and self.pacing == "fixed"
                and self.fixed_delay < self.min_crawl_delay
                and "fixed_delay" in self.model_fields_set,
                "fixed_delay is below min_crawl_delay, which always holds",
            ),
        )

    @model_validator(mode="after")
    def _refuse_bad_patterns(self) -> Self:
        for pattern in self.rules:
            try:
                read_pattern(pattern)
            except SettingsError as refused:
                raise Refused(f"rules: {refused.message}", refused.hint or "") from None
        return self
