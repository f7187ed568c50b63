"""One client crawls one server in virtual time: the clock jumps from event to event, nothing sleeps."""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field

from amble.testing.lab.controller import Client, Controller, Reply
from amble.testing.lab.servers import Server, Verdict

TINY_S = 1e-6  # rounding in sums of seconds is no violation
NUDGES_MAX = 1000
OVERSHOOT = 40  # a client that sends this many requests per page is stopped: it has shown what it is


class Stuck(RuntimeError):
    """A controller that can never send again, or asks to be asked in the past."""


@dataclass(slots=True)
class Run:
    """What the server saw of one crawl."""

    pages: int  # asked for
    done: int = 0  # answered well
    slow: int = 0  # of these, slower than the scenario allows
    sent: int = 0
    rejects: int = 0  # refused by the limiter
    lasted_s: float = 0.0
    inside_retry_after: int = 0  # sent in spite of a Retry-After the client had in hand
    under_crawl_delay: int = 0
    over_in_flight: int = 0
    over_max_rate: int = 0
    latency_sum_s: float = 0.0
    trace: list[tuple[float, str]] | None = field(default=None, repr=False)  # (arrival, "ok" | "refused" | "failed")

    @property
    def rejects_per_1000(self) -> float:
        return 1000.0 * self.rejects / max(1, self.done)

    @property
    def violations(self) -> int:
        return self.inside_retry_after + self.under_crawl_delay + self.over_in_flight + self.over_max_rate


class _Flight:
    """One request on its way: to the server first, then, with a verdict, back."""

    __slots__ = ("block_end", "sent_at", "ticket", "trip_s", "verdict")

    def __init__(self, ticket: object, sent_at: float, trip_s: float, block_end: float) -> None:
        self.ticket = ticket
        self.sent_at = sent_at
        self.trip_s = trip_s
        self.block_end = block_end  # as far as the client could know when it sent
        self.verdict: Verdict | None = None


class _Crawl:
    """The state of a running simulation; `run()` is the event loop."""

    def __init__(self, controller: Controller, server: Server, client: Client, run: Run, slow_s: float) -> None:
        self.controller = controller
        self.server = server
        self.client = client
        self.run = run
        self.slow_s = slow_s
        self.heap: list[tuple[float, int, _Flight]] = []
        self.order = 0
        self.in_flight = 0
        self.starts_at = client.starts_at  # the server's clock stands at 0 then
        self.known_block_end = -math.inf
        self.last_sent = -math.inf
        self.min_gap_s = 1.0 / client.max_rate - TINY_S
        self.crawl_delay_s = (client.crawl_delay_s or 0.0) - TINY_S

    def play(self, until: float, requests_max: int) -> None:
        now, nudges = self.starts_at, 0
        run, heap = self.run, self.heap
        while run.done < run.pages and now - self.starts_at < until and run.sent < requests_max:
            wake = self._send_all(now)
            if heap and heap[0][0] <= wake:
                now, _, flight = heapq.heappop(heap)
                if flight.verdict is None:
                    self._arrive(flight, now)
                else:
                    self._return(flight, flight.verdict, now)
            elif wake == math.inf:
                raise Stuck(f"at {now:.3f} s the controller waits for an answer, and nothing is in flight")
            elif wake > now:
                now, nudges = wake, 0
            else:
                now, nudges = now + TINY_S, nudges + 1
                if nudges > NUDGES_MAX:
                    raise Stuck(f"at {now:.3f} s the controller asks to be asked again at {wake:.6f} s, in the past")
        run.lasted_s = now - self.starts_at

    def _send_all(self, now: float) -> float:
        """Send whatever the controller allows at this instant; say when to ask it again."""
        while self.run.done + self.in_flight < self.run.pages:
            got = self.controller.request(now)
            if isinstance(got, float):
                return got
            self._send(got, now)
        return math.inf

    def _send(self, ticket: object, now: float) -> None:
        run = self.run
        run.sent += 1
        self.in_flight += 1
        gap_s = now - self.last_sent
        self.last_sent = now
        run.over_in_flight += self.in_flight > self.client.max_in_flight
        run.over_max_rate += gap_s < self.min_gap_s
        run.under_crawl_delay += gap_s < self.crawl_delay_s
        trip_s = self.server.trip_s()
        flight = _Flight(ticket, now, trip_s, self.known_block_end)
        self.order += 1
        heapq.heappush(self.heap, (now + trip_s / 2, self.order, flight))

    def _arrive(self, flight: _Flight, now: float) -> None:
        at = now - self.starts_at
        verdict = self.server.arrive(at)
        flight.verdict = verdict
        run = self.run
        run.rejects += verdict.refused
        run.inside_retry_after += now < flight.block_end - TINY_S
        if run.trace is not None:
            kind = "refused" if verdict.refused else "ok" if verdict.status == 200 else "failed"
            run.trace.append((at, kind))
        self.order += 1
        heapq.heappush(self.heap, (now + verdict.inside_s + flight.trip_s / 2, self.order, flight))

    def _return(self, flight: _Flight, verdict: Verdict, now: float) -> None:
        self.in_flight -= 1
        latency_s = now - flight.sent_at
        if verdict.status == 200:
            self.run.done += 1
            self.run.slow += latency_s > self.slow_s
            self.run.latency_sum_s += latency_s
        if verdict.not_before is not None:
            self.known_block_end = max(self.known_block_end, self.starts_at + verdict.not_before)
        self.controller.answer(flight.ticket, Reply(verdict.status, verdict.headers, latency_s), now)


def simulate(
    controller: Controller,
    server: Server,
    pages: int,
    client: Client | None = None,
    *,
    slow_s: float = math.inf,
    until_s: float = math.inf,
    trace: bool = False,
) -> Run:
    """Crawl `pages` pages; a refused or failed page goes back to the head of the queue. Stops early at `until_s`."""
    run = Run(pages, trace=[] if trace else None)
    _Crawl(controller, server, client or Client(), run, slow_s).play(until_s, OVERSHOOT * pages)
    return run


def rates(trace: list[tuple[float, str]], step_s: float) -> list[tuple[float, int, int]]:
    """A trace as (start of step, admitted, refused) per step of time, for a plot of rate over time."""
    steps: dict[int, list[int]] = {}
    for at, kind in trace:
        steps.setdefault(int(at // step_s), [0, 0])[kind == "refused"] += 1
    last = max(steps, default=-1)
    return [(i * step_s, *_pair(steps.get(i))) for i in range(last + 1)]


def _pair(counts: list[int] | None) -> tuple[int, int]:
    return (counts[0], counts[1]) if counts else (0, 0)


def recovery_s(trace: list[tuple[float, str]], change_at: float, rate: float) -> float:
    """Seconds after a change of limit until the client uses the new one well.

    Well: over the next 10 s (or 20 pages' time) at least three quarters of what the new limit admits get through, and
    at most a tenth of the requests is refused. Infinite if that never happens.
    """
    span_s = max(10.0, 20.0 / rate)
    window: deque[tuple[float, bool]] = deque()
    refused = 0
    for at, kind in trace:
        if at < change_at:
            continue
        window.append((at, kind == "refused"))
        refused += kind == "refused"
        while window[0][0] <= at - span_s:
            refused -= window.popleft()[1]
        if at - change_at < span_s:
            continue
        if len(window) - refused >= 0.75 * rate * span_s and refused <= 0.1 * len(window):
            return max(0.0, at - span_s - change_at)
    return math.inf
