"""No setting is accepted and ignored: for each there is something that comes out differently when it is changed.

The settings model is the list: a new setting without a row here fails the test.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import certifi
import pytest

from amble.settings import SYNONYMS, Settings, fields
from tests.effects import crawling, fetching, pacing, robots

Observe = Callable[[Settings], Any]


class Row(NamedTuple):
    """Observe with `base`, then with `changed` on top of it: the two must differ."""

    observe: Observe
    changed: Any
    base: dict[str, Any] = {}


LINEAR = {"pacing": "linear"}
AIMD = {"pacing": "aimd"}
FAST = {"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited"}
BREAKER = {**FAST, "consecutive_fail_threshold": 1_000}
EXPONENTIAL = {"retry_backoff": "exponential"}
PROXY = {**crawling.BASE, "http_proxy": "http://127.0.0.1:1"}

crawl_once = crawling.once
crawl_failing = partial(crawling.once, failing=True)
crawl_with_sitemap = partial(crawling.once, sitemap=True)
CRAWL = crawling.BASE

EFFECTS: dict[str, Row] = {
    # -- what is visited and kept
    "follow_links": Row(crawl_with_sitemap, True, CRAWL),
    "discover": Row(crawling.of_a_page, True, CRAWL),
    "sitemap_paths": Row(crawl_once, ["/map.txt"], CRAWL),
    "allow_subdomains": Row(crawl_once, True, CRAWL),
    "max_crawl_depth": Row(crawl_once, 1, CRAWL),
    "max_crawl_pages": Row(crawl_once, 3, CRAWL),
    "max_pages_per_domain": Row(crawl_once, 3, CRAWL),
    "max_redirects": Row(crawl_once, 1, CRAWL),
    "max_links_per_page": Row(crawl_once, 2, CRAWL),
    "respect_nofollow": Row(crawl_once, False, CRAWL),
    "follow_canonical": Row(crawl_once, True, CRAWL),
    "noindex": Row(crawl_once, "keep", CRAWL),
    "store_body": Row(crawl_once, False, CRAWL),
    "log_skipped": Row(crawl_once, False, CRAWL),
    "accept_content_types": Row(crawl_once, ["text/*"], CRAWL),
    "reject_content_types": Row(crawl_once, ["application/*"], CRAWL),
    "batch_size": Row(crawling.stored_early, 10),
    "update_stale": Row(crawling.twice, True, CRAWL),
    "sitemap_cache_hours": Row(crawling.twice, 0, CRAWL),
    "retry_statuses": Row(crawl_once, [418], {**CRAWL, "max_retries": 1}),
    "job_failure_threshold": Row(crawl_failing, 2, {**CRAWL, "max_total_connections": 1}),
    "domain_stall_timeout": Row(crawling.of_a_page_that_is_refused, 0.5, {**CRAWL, "max_retries": 1}),
    "max_tail": Row(
        crawling.of_a_page_that_never_comes,
        0.1,
        {**CRAWL, "max_retries": 1, "retry_base_delay": 2, "http_keep_alive": False},  # none that breaks is made good
    ),
    "cancel_on_limit_streak": Row(
        crawling.of_a_page_that_is_refused, 1, {"pacing": "linear", "max_adaptive_delay": 0.5, "max_rate": "unlimited"}
    ),
    # -- how fast domains are asked
    "enabled": Row(pacing.story, False),
    "pacing": Row(pacing.story, "linear"),
    "max_rate": Row(pacing.story, 1, FAST),
    "default_crawl_delay": Row(pacing.story, 3),
    "min_crawl_delay": Row(pacing.story, 3),
    "max_retry_after": Row(pacing.told_to_come_back, 60),
    "share_pace": Row(pacing.beside_another, "process", {"min_crawl_delay": 60}),
    "random_delay": Row(pacing.story, 1),
    "max_parallel_per_domain": Row(pacing.story, 2, FAST),
    "max_parallel_per_address": Row(pacing.neighbours, 1, FAST),
    "min_address_delay": Row(pacing.neighbours, 5, FAST),
    "rules": Row(pacing.story, {"a.test": {"delay": 3}}),
    "refusal_price": Row(pacing.story, 20),
    "permit_timeout": Row(pacing.story, 5, {**FAST, "max_parallel_per_domain": 2}),
    "error_rate_threshold": Row(pacing.breaker, 0.99, BREAKER),
    "min_samples_to_trip": Row(pacing.breaker, 1_000, BREAKER),
    "consecutive_fail_threshold": Row(pacing.story, 2, FAST),
    "open_state_duration": Row(pacing.story, 40, FAST),
    "open_state_duration_max": Row(pacing.outage, 16, FAST),
    "half_open_probes": Row(pacing.story, 3, FAST),
    "stats_window": Row(pacing.breaker, 2, BREAKER),
    "stats_bucket": Row(pacing.breaker, 7, BREAKER),
    "concurrency_step": Row(pacing.story, 0.5, LINEAR),
    "base_delay": Row(pacing.story, 2, LINEAR),
    "max_adaptive_delay": Row(pacing.story, 2, LINEAR),
    "delay_step": Row(pacing.story, 3, LINEAR),
    "success_probe_threshold": Row(pacing.story, 3, LINEAR),
    "initial_rps": Row(pacing.story, 4, AIMD),
    "min_rps": Row(pacing.story, 1.5, AIMD),
    "max_rps": Row(pacing.story, 3, AIMD),
    "token_bucket_capacity": Row(pacing.story, 1, AIMD),
    "aimd_increase": Row(pacing.story, 1, AIMD),
    "aimd_decrease": Row(pacing.story, 0.9, AIMD),
    "latency_target": Row(pacing.story, 100, AIMD),
    "latency_degrade_factor": Row(pacing.story, 50, AIMD),
    "fixed_delay": Row(pacing.story, 2, {"pacing": "fixed"}),
    "max_retries": Row(pacing.waits, 2),
    "retry_backoff": Row(pacing.waits, "exponential"),
    "retry_base_delay": Row(pacing.waits, 1, EXPONENTIAL),
    "max_retry_backoff_seconds": Row(pacing.waits, 3, {"max_retries": 20}),
    "domain_state_ttl": Row(pacing.idle, 60),
    "max_domains": Row(pacing.crowd, 5),
    "shards": Row(pacing.shards, 4),
    "learned_half_trust_after": Row(pacing.remembered, 20, LINEAR),
    "learned_forget_after": Row(pacing.remembered, 8, LINEAR),
    "save_debounce": Row(pacing.saved, 0, LINEAR),
    # -- robots.txt
    "respect_robots_txt": Row(robots.at_first, False),
    "purpose": Row(robots.with_usage, "ai-train"),
    "max_crawl_delay": Row(robots.with_a_plan, 100),
    "honour_crawl_delay_up_to": Row(robots.with_file, 80),
    "robots_max_age": Row(robots.an_hour_later, 60),
    "robots_unreachable": Row(robots.without_answer, "allow"),
    "robots_stale_age": Row(robots.with_an_old_copy, 60),
    "robots_retries": Row(robots.without_answer, 1),
    "robots_retry_delay": Row(robots.without_answer, 100),
    "robots_retry_delay_max": Row(robots.without_answer, 30),
    "robots_give_up_for": Row(robots.without_answer, 100),
    "robots_memory_mb": Row(robots.remembered, 1),
    # -- how a request is made
    "user_agent": Row(crawl_once, "other/1.0", CRAWL),
    "contact": Row(crawl_once, "https://a.example/bot", CRAWL),
    "from_address": Row(crawl_once, "bot@a.example", CRAWL),
    "http_timeout": Row(crawl_once, 0.1, CRAWL),
    "connect_timeout_s": Row(fetching.told_to_curl, 3),
    "header_timeout_s": Row(fetching.judged_late, 3),
    "min_throughput_bytes_s": Row(fetching.judged_late, 30),
    "min_throughput_window_s": Row(fetching.judged_late, 2),
    "max_response_bytes": Row(crawl_once, 20_000, CRAWL),
    "compress": Row(crawl_once, False, CRAWL),
    "http_keep_alive": Row(crawl_once, False, CRAWL),
    "http2": Row(fetching.told_to_curl, False),
    "threads": Row(fetching.processes, 3, {"threads": 1}),
    "max_total_connections": Row(crawling.most_at_once, 1, CRAWL),
    "max_kept_connections": Row(fetching.kept, 2),
    "http_proxy": Row(crawling.through_a_proxy, "http://127.0.0.1:1", CRAWL),
    "http_proxy_username": Row(crawling.through_a_proxy, "me", PROXY),
    "http_proxy_password": Row(crawling.through_a_proxy, "secret", {**PROXY, "http_proxy_username": "me"}),
    "no_proxy": Row(crawling.through_a_proxy, ["a.test"], PROXY),
    "allow_private": Row(fetching.judged_private, ["localhost:8000"]),
    "ca_file": Row(fetching.told_to_curl, certifi.where()),
    "dns_timeout_s": Row(fetching.told_to_resolver, 1),
    "dns_cache_s": Row(fetching.told_to_resolver, 1),
    "dns_lookups": Row(fetching.told_to_resolver, 1),
}

NAMES = [name for _, name, _ in fields()]


def test_every_setting_has_a_row() -> None:
    assert set(NAMES) == set(EFFECTS), "say in EFFECTS what the setting changes"


@cache
def _seen(observe: Observe, base: tuple[tuple[str, Any], ...]) -> Any:
    first = observe(Settings.of(dict(base)))
    assert observe(Settings.of(dict(base))) == first, "what differs must be the setting's doing"
    return first


@pytest.mark.parametrize("name", [name for name in NAMES if name in EFFECTS])
def test_a_setting_has_an_effect(name: str) -> None:
    row = EFFECTS[name]
    before = _seen(row.observe, tuple(row.base.items()))
    assert row.observe(Settings.of({**row.base, name: row.changed})) != before


@pytest.mark.parametrize(("other", "name"), SYNONYMS.items())
def test_a_second_name_means_the_same(other: str, name: str) -> None:
    assert Settings.of({other: 7}) == Settings.of({name: 7})
