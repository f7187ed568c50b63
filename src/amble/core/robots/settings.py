"""Every setting about robots.txt: its range, its default and why; contradictions are refused with a hint. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from amble.core.checked import CheckedModel

HOURS_24_S = 86_400.0

Seconds = Annotated[float, Field(ge=0, le=31_536_000, allow_inf_nan=False)]


class RobotsSettings(CheckedModel):
    """How robots.txt files are obeyed and remembered."""

    respect_robots_txt: bool = Field(
        default=True,
        description="false: heed none, and ask for one only to see whether anybody answers; for one's own sites only",
    )
    purpose: Literal["search", "ai-train", "ai-input"] | None = Field(
        default=None, description="what the pages are for: makes Content-Signal and Content-Usage lines binding"
    )
    max_crawl_delay: Seconds = Field(default=60.0, description="a longer Crawl-delay is kept, and reported")
    honour_crawl_delay_up_to: Seconds = Field(
        default=600.0, description="URLs of a site that asks for more end as crawl_delay_too_long"
    )
    robots_max_age: Annotated[float, Field(gt=0, le=HOURS_24_S, allow_inf_nan=False)] = Field(
        default=HOURS_24_S, description="how long a robots.txt is trusted (RFC 9309 2.4: at most 24 hours)"
    )
    robots_unreachable: Literal["defer", "allow"] = Field(
        default="defer", description="while robots.txt cannot be had: wait for it, or fetch at the default pace"
    )
    robots_stale_age: Seconds = Field(
        default=30 * HOURS_24_S, description="how old a copy may be used while robots.txt cannot be had"
    )
    robots_retries: Annotated[int, Field(ge=0, le=100)] = Field(
        default=5, description="tries after the first before the site's URLs end as robots_unreachable"
    )
    robots_retry_delay: Annotated[float, Field(gt=0, le=3_600, allow_inf_nan=False)] = Field(
        default=15.0, description="first wait between tries; it doubles"
    )
    robots_retry_delay_max: Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)] = Field(
        default=600.0, description="longest wait between tries"
    )
    robots_give_up_for: Seconds = Field(
        default=3_600.0, description="how long a site whose robots.txt was given up is not asked again"
    )
    robots_memory_mb: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=128, description="memory for rules, roughly; the least recently used go first"
    )

    def contradictions(self) -> Iterable[tuple[bool, str]]:
        return (
            (self.honour_crawl_delay_up_to < self.max_crawl_delay, "honour_crawl_delay_up_to is below max_crawl_delay"),
            (self.robots_retry_delay > self.robots_retry_delay_max, "robots_retry_delay is above its maximum"),
        )
