"""How other crawlers and clients pace themselves, rebuilt from their published rules so that they can be measured here.

All of them give a page up after a few attempts; here a refused page goes back to its queue for everyone, so that the
same number of pages is fetched by all.
"""

from __future__ import annotations

import math
from email.utils import parsedate_to_datetime
from random import Random

from amble.testing.lab.controller import Client, Reply, Rule, Spaced

THROTTLED = frozenset({429, 503})


def retry_after_s(reply: Reply) -> float:
    """Retry-After in either form; 0 if there is none."""
    text = reply.headers.get("Retry-After", "")
    if not text or text.isdigit():
        return float(text or 0)
    return (parsedate_to_datetime(text) - parsedate_to_datetime(reply.headers["Date"])).total_seconds()


class AutoThrottle(Spaced):
    """Scrapy's AutoThrottle: keep about one request in flight by spacing requests at the latency of the last answers.

    https://docs.scrapy.org/en/latest/topics/autothrottle.html: start delay 5 s, target delay = latency / target
    concurrency (1.0), next delay = mean of the previous and the target, at most 60 s, and an answer other than 200
    may not lower it. The delay is never lower than the target (scrapy/extensions/throttle.py). With the default
    settings CONCURRENT_REQUESTS_PER_DOMAIN 8 and RANDOMIZE_DOWNLOAD_DELAY (0.5 to 1.5 of the delay); the retry
    middleware repeats 429 and 503 without a pause of its own, and Retry-After is not read.
    """

    MAX_DELAY_S = 60.0

    def __init__(self, client: Client, random: Random) -> None:
        super().__init__(client, random, parallel=8, delay_s=5.0)

    def spacing_s(self) -> float:
        return self.delay_s * self.random.uniform(0.5, 1.5)

    def learn(self, reply: Reply, now: float) -> None:
        target_s = reply.latency_s
        new_s = min(max(target_s, (self.delay_s + target_s) / 2), self.MAX_DELAY_S)
        if reply.status == 200 or new_s > self.delay_s:
            self.delay_s = new_s


class Crawlee(Spaced):
    """Crawlee's pool and its throttling request manager.

    The AutoscaledPool starts at a desired concurrency of 10 and adds 5 % every 10 s while *its own* machine is idle
    (crawlee-python, autoscaled_pool.py). The opt-in ThrottlingRequestManager waits after a 429 for Retry-After or 2 s
    doubled per consecutive 429 *response*, both capped at 60 s (github.com/apify/crawlee-python/pull/1762 and issue
    2125).
    """

    BASE_S, MAX_S = 2.0, 60.0
    SCALE_EVERY_S = 10.0

    def __init__(self, client: Client, random: Random) -> None:
        super().__init__(client, random, parallel=10)
        self._streak = 0
        self._scale_at = client.starts_at + self.SCALE_EVERY_S

    def learn(self, reply: Reply, now: float) -> None:
        while now >= self._scale_at:
            self._scale_at += self.SCALE_EVERY_S
            self.parallel = min(self.client.max_in_flight, self.parallel + math.ceil(0.05 * self.parallel))
        if reply.status == 429:
            self._streak += 1
            # 2 ** 6 is past the cap already
            pause_s = retry_after_s(reply) or self.BASE_S * 2.0 ** min(6, self._streak - 1)
            self.not_before = now + min(pause_s, self.MAX_S)
        elif reply.status == 200:
            self._streak = 0


class Heritrix(Spaced):
    """Heritrix 3's politeness: one connection per host, and a rest of 5 times the last fetch, within 3 to 30 s.

    DispositionProcessor (delayFactor 5.0, minDelayMs 3000, maxDelayMs 30000, respectCrawlDelayUpToSeconds 300) and
    https://github.com/internetarchive/heritrix3/wiki/Politeness-parameters.
    """

    FACTOR, MIN_S, MAX_S, CRAWL_DELAY_MAX_S = 5.0, 3.0, 30.0, 300.0

    def __init__(self, client: Client, random: Random) -> None:
        super().__init__(client, random, parallel=1)

    def learn(self, reply: Reply, now: float) -> None:
        rest_s = min(self.MAX_S, max(self.MIN_S, self.FACTOR * reply.latency_s))
        self.not_before = now + max(rest_s, min(self.client.crawl_delay_s or 0.0, self.CRAWL_DELAY_MAX_S))


class Cubic(Spaced):
    """The rate limiter of the AWS SDKs' adaptive retry mode: CUBIC on a token bucket that wakes at the first throttle.

    Published constants (aws-smithy-runtime, client_rate_limiter.rs; botocore/retries): beta 0.7, scale 0.4, lowest rate
    0.5/s, lowest capacity 1, the sending rate measured in half-second buckets and smoothed by 0.8, the new rate at most
    twice the measured one.
    """

    BETA, SCALE, SMOOTH, MIN_RATE, BUCKET_S = 0.7, 0.4, 0.8, 0.5, 0.5

    def __init__(self, client: Client, random: Random) -> None:
        super().__init__(client, random)
        self._enabled = False
        self._rate = self.MIN_RATE
        self._capacity = 1.0
        self._tokens = 0.0
        self._filled_at = client.starts_at
        self._measured = 0.0
        self._bucket_at = client.starts_at
        self._bucket_count = 0
        self._last_max = 0.0
        self._throttled_at = client.starts_at

    def _fill(self, now: float) -> None:
        self._tokens = min(self._capacity, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now

    def request(self, now: float) -> object | float:
        if not self._enabled:
            return super().request(now)
        self._fill(now)
        if self._tokens < 1.0 - 1e-9:
            return now + (1.0 - self._tokens) / self._rate if self.in_flight < self.parallel else math.inf
        got = super().request(now)
        if not isinstance(got, float):
            self._tokens -= 1.0
        return got

    def learn(self, reply: Reply, now: float) -> None:
        self._measure(now)
        if reply.status in THROTTLED:
            used = min(self._measured, self._rate) if self._enabled else self._measured
            self._last_max = used
            self._throttled_at = now
            self._enabled = True
            rate = used * self.BETA
        else:
            window_s = (self._last_max * (1.0 - self.BETA) / self.SCALE) ** (1.0 / 3.0)
            rate = self.SCALE * (now - self._throttled_at - window_s) ** 3 + self._last_max
        if self._enabled:
            self._fill(now)
            self._rate = max(self.MIN_RATE, min(rate, 2.0 * self._measured))
            self._capacity = max(1.0, self._rate)
            self._tokens = min(self._tokens, self._capacity)

    def _measure(self, now: float) -> None:
        began = self.client.starts_at
        bucket = began + math.floor((now - began) / self.BUCKET_S) * self.BUCKET_S
        self._bucket_count += 1
        if bucket > self._bucket_at:
            current = self._bucket_count / (bucket - self._bucket_at)
            self._measured = self.SMOOTH * current + (1.0 - self.SMOOTH) * self._measured
            self._bucket_count = 0
            self._bucket_at = bucket


class Parallel(Spaced):
    """A fixed parallelism and nothing else: a LimitRule with Parallelism 2 in github.com/gocolly/colly."""

    def __init__(self, client: Client, random: Random) -> None:
        super().__init__(client, random, parallel=2)


PEERS: dict[str, Rule] = {
    "autothrottle": AutoThrottle,
    "cubic": Cubic,
    "crawlee": Crawlee,
    "heritrix": Heritrix,
    "parallel": Parallel,
}
