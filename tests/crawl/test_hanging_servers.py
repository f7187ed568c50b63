"""A server that stops answering, over HTTP and by the real clock: the circuit opens soon and closes when it is back."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from amble.core.frontier.changes import State
from amble.core.outcome import Failure
from amble.core.pacing.events import BlockOpened, CircuitClosed, CircuitOpened, Event, PaceChanged
from amble.testing.rawserver import Connection, serve
from tests.crawl.rig import Crawled, html, put_together, text

PAGES = 60
OVERDUE_S, MOST_S = 5.0, 7.0  # when an answer is overdue where ten came at once, and when the circuit is open


class Script:
    """Answers so many pages, then none until the circuit is open, then refuses one, then answers all."""

    def __init__(self, answers: int) -> None:
        self._answers = answers
        self.crawled = Crawled()
        self.hung_at: list[float] = []
        self.refused_at: float | None = None

    async def serve(self, connection: Connection) -> None:
        while head := await connection.request():
            if b"/robots.txt" in head:
                await connection.send(text("User-agent: *", "Allow: /"))
            elif self._answers or self.refused_at:
                self._answers = max(0, self._answers - 1)
                await connection.send(html(*(f"/{number}" for number in range(PAGES))))
            elif self.circuit_opened():
                self.refused_at = time.monotonic()
                await connection.send(text("slow down", status="429 Too Many Requests"))
            else:
                self.hung_at.append(time.monotonic())
                await asyncio.sleep(100.0)

    def circuit_opened(self) -> list[tuple[float, CircuitOpened]]:
        return [(at, event) for at, event in self.crawled.events if isinstance(event, CircuitOpened)]


async def crawled_from(script: Script, **settings: Any) -> Crawled:
    async with serve(script.serve) as server:
        crawl, fetcher, script.crawled = put_together([server.url("/")], follow_links=True, **settings)
        try:
            async with asyncio.timeout(60.0):
                await crawl.run()
        finally:
            await fetcher.close()
    script.crawled.check()
    return script.crawled


def told(crawled: Crawled, *kinds: type[Event]) -> list[str]:
    return [type(event).__name__ for _, event in crawled.events if isinstance(event, kinds)]


async def test_a_server_that_hangs_opens_the_circuit_soon_and_a_refusal_slows_it_down() -> None:
    """200, slow, 429, 200: the rate grows, the circuit opens, the refusal cuts the rate, and every page is had."""
    script = Script(answers=30)
    crawled = await crawled_from(
        script, pacing="aimd", initial_rps=10.0, max_rps=40.0, aimd_increase=1.0, max_retries=3, header_timeout_s=15.0
    )
    opened_at, opened = script.circuit_opened()[0]
    waited_s = opened_at - script.hung_at[0]
    assert OVERDUE_S - 0.1 <= waited_s < MOST_S, opened
    delays = [(at, event.was_s, event.delay_s) for at, event in crawled.events if isinstance(event, PaceChanged)]
    assert any(delay_s < was_s for at, was_s, delay_s in delays if at < script.hung_at[0]), "the rate grew"
    assert script.refused_at is not None
    after_refusal = [(was_s, delay_s) for at, was_s, delay_s in delays if at >= script.refused_at]
    assert after_refusal[0][1] > after_refusal[0][0], "the refusal cut the rate"
    assert told(crawled, BlockOpened, CircuitClosed)[-2:] == ["BlockOpened", "CircuitClosed"]
    assert crawled.count(State.DONE) == PAGES + 1


async def test_before_ten_answers_the_circuit_opens_with_the_fifth_time_out_of_headers() -> None:
    script = Script(answers=3)
    crawled = await crawled_from(script, header_timeout_s=1.0, max_retries=3)
    _, opened = script.circuit_opened()[0]
    assert opened.reason == "5 failures in a row"
    failures = [sent.result.failure for sent in crawled.sent if sent.result.failure]
    assert failures[:5] == [Failure.NETWORK_TIMEOUT] * 5
    assert crawled.count(State.DONE) == PAGES + 1


async def test_what_is_overdue_counts_where_it_may_take_all_the_time_there_is() -> None:
    """The last try of a page is not given up as hanging; that the server hangs is known all the same."""
    script = Script(answers=30)
    await crawled_from(script, max_retries=0, header_timeout_s=8.0)
    opened_at, opened = script.circuit_opened()[0]
    assert opened.reason == "5 answers overdue"
    assert opened_at - script.hung_at[0] < MOST_S
