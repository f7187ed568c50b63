"""Crawls rehearsed in virtual time: what is forecast, in how many words, and from what is known of a real site."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from amble.core.pacing.learned import Learned
from amble.core.pacing.settings import PacingSettings
from amble.errors import SettingsError, StoreError
from amble.jobs import Job
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, DomainRow
from amble.testing.farm import Farm, Pages, Site
from amble.testing.rehearse import Rehearsal, ServerModel, known_model, rehearse

DEFAULT = PacingSettings()
LINEAR = PacingSettings(pacing="linear")
FIXED = PacingSettings(pacing="fixed", fixed_delay=1.0)


@pytest.mark.parametrize(
    ("story", "settings", "model", "refused", "settles_s", "lasts_s"),
    [
        ("nothing but our own highest rate", DEFAULT, ServerModel(), False, 0.125, 126),
        ("a crawl delay", DEFAULT, ServerModel(crawl_delay_s=10), False, 10.0, 9_990),
        ("a constant delay", FIXED, ServerModel(rate=5.0), False, 1.0, 999),
        ("a hidden limit", DEFAULT, ServerModel(rate=0.5, burst=20), True, 2.0, 2_000),
        ("windows, and a server that says how long", DEFAULT, ServerModel(rate=2.0, window_s=60, retry_after=True),
         True, 0.5, 500),
        ("three at once", DEFAULT, ServerModel(at_once=3, latency_s=0.9), True, None, 390),
        ("a queue that answers in turn", DEFAULT, ServerModel(rate=4.0, queue=20), None, 0.25, 260),
        ("windows from the first request", DEFAULT, ServerModel(rate=2.0, window_s=10, from_first=True),
         True, 0.5, 500),
        # Each window is spent at three times its rate, and its end waited for.
        ("a quota that is told", DEFAULT, ServerModel(rate=2.0, window_s=10, headers="structured"), False, 1 / 6, 500),
        ("half the rate from the middle on", DEFAULT, ServerModel(rate=4.0, change_after_s=125.0), True, 0.5, 400),
        ("down for a minute, and it says so", DEFAULT,
         ServerModel(down_after_s=60.0, down_for_s=60.0, retry_after=True), False, 0.125, 190),
        # The second outage is known by its first 503, and tried for often.
        ("down again and again", FIXED, ServerModel(down_after_s=60.0, down_for_s=30.0, up_for_s=60.0),
         False, 1.0, 1_600),
        ("the linear strategy", LINEAR, ServerModel(rate=0.4, burst=5), True, 2.5, 2_500),
    ],
)  # fmt: skip
def test_a_rehearsal_tells_what_a_crawl_would_meet(
    story: str,
    settings: PacingSettings,
    model: ServerModel,
    refused: bool | None,
    settles_s: float | None,
    lasts_s: float,
) -> None:
    seen = rehearse(settings, 1_000, model)
    assert (seen.first_refusal_after is not None) == (seen.refusals > 0), story
    assert refused in (None, seen.refusals > 0), story
    assert settles_s is None or seen.settled_delay_s == pytest.approx(settles_s, rel=0.25), story
    assert seen.seconds == pytest.approx(lasts_s, rel=0.25), story
    assert seen.done == 1_000
    assert seen.requests == 1_000 + seen.refusals or model.down_after_s is not None


def test_the_first_refusal_is_counted_in_requests() -> None:
    """A bucket of twenty at nothing a second: the twenty-first is refused."""
    seen = rehearse(FIXED, 21, ServerModel(rate=1e-3, burst=20))
    assert seen.first_refusal_after == 20


def test_a_rehearsal_can_be_repeated() -> None:
    model = ServerModel(rate=3.0, penalty_s=5.0)
    assert rehearse(DEFAULT, 500, model, seed=1) == rehearse(DEFAULT, 500, model, seed=1)
    assert rehearse(DEFAULT, 500, model, seed=1) != rehearse(DEFAULT, 500, model, seed=2)


def test_the_settings_of_the_crawl_make_the_difference() -> None:
    polite = PacingSettings(max_rate=1.0)
    model = ServerModel(rate=2.0)
    assert rehearse(polite, 300, model).refusals == 0
    assert rehearse(DEFAULT, 300, model).refusals > 0


def test_what_was_learned_earlier_saves_refusals() -> None:
    """[F3] However long ago the wall clock says that was, and whatever block there was then."""
    long_ago = datetime(2001, 1, 1, tzinfo=UTC)
    learned = Learned("a.test", "gauge", 0.5, 0.4, long_ago, {"limit": 2.0, "confirmed": 3.0})
    fresh = rehearse(DEFAULT, 400, ServerModel(rate=2.0))
    known = rehearse(DEFAULT, 400, ServerModel(rate=2.0), learned=learned)
    assert known.refusals < fresh.refusals


def test_it_is_said_in_one_sentence() -> None:
    said = rehearse(DEFAULT, 5_000, ServerModel(rate=0.5, burst=20)).as_text()
    assert re.fullmatch(
        r"with these settings you would meet a 429 after \d+ requests \(\d+ in all\); it would settle at 2\.\d s;"
        r" done in 2 h \d+ min",
        said,
    )
    assert rehearse(DEFAULT, 10, ServerModel()).as_text().startswith("with these settings you would meet no 429; ")
    cut = Rehearsal(100, 3, 4, 1, 2, 9.0, 3_600.0, 1.0)
    assert cut.as_text().endswith("after 2 requests; it would settle at 9.0 s; only 3 of 100 pages done in 1 h")


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"rate": 0.0}, "rate = 0 is not possible"),
        ({"rate": float("nan")}, "not possible"),
        ({"latency_s": -1.0}, "latency_s = -1"),
        ({"burst": 5.0}, "without a limit"),
        ({"penalty_s": 5.0}, "without a limit"),
        ({"rate": 1.0, "burst": 5.0, "window_s": 60.0}, "exclude each other"),
        ({"rate": 1.0, "burst": 0.5}, "lets nothing through"),
        ({"queue": 5}, "has no burst, window, queue"),
        ({"change_after_s": 5.0}, "has no burst, window, queue"),
        ({"rate": 1.0, "queue": 5, "burst": 3.0}, "exclude each other"),
        ({"rate": 1.0, "queue": 5, "headers": "split"}, "only a bucket or a window"),
        ({"at_once": 0}, "at_once = 0 is not possible"),
        ({"rate": 1.0, "change_to": 0.0}, "change_to = 0 is not possible"),
    ],
)
def test_a_server_that_cannot_be_is_refused(wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        ServerModel(**wrong)
    with pytest.raises(SettingsError, match="0 pages"):
        rehearse(DEFAULT, 0, ServerModel())


def test_a_server_is_modelled_as_an_earlier_crawl_found_it(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    row = DomainRow("shop.test", crawl_delay_seconds=0.3, adaptive_delay_seconds=0.52, learned_at=now, strategy="gauge",
                    numbers={"limit": 2.0}, blocked_until_at=now + timedelta(hours=1))  # fmt: skip
    with Farm([Site(name="a.test", pages=Pages(6))]) as farm, DuckDBStore.open(tmp_path / "x.duckdb") as store:
        ways: dict[str, Any] = {"policy": farm.policy, "resolver": farm.resolver}
        settings = Settings.of({"pacing": "fixed", "fixed_delay": 0, "max_rate": "unlimited", "discover": False,
                                "follow_links": True})  # fmt: skip
        asyncio.run(Job.start(store, farm.roots(), settings, **ways).run())
        store.submit(Batch(domains=[row])).result()
        model, learned, _ = known_model(store.database.connect(), "shop.test")
        assert (model.rate, model.crawl_delay_s) == (2.0, 0.3)
        assert learned is not None
        assert rehearse(DEFAULT, 50, model, learned=learned).seconds < 3_700, "the block counts from what it was then"
        found, none, pages = known_model(store.database.connect(), farm.url("a.test"))
        assert (found.rate, none, pages) == (None, None, 6)
        assert 0 < found.latency_s < 1
        with pytest.raises(StoreError, match="nothing is known of b"):
            known_model(store.database.connect(), "b.test")
