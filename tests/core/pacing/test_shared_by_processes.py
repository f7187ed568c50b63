"""What processes share of a domain: one pace, whoever asks, alive, stopped or dead. A processor's worth of processes is
played by registries over common places, and time by a number."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from random import Random

import pytest

from amble.core.answer import Answer
from amble.core.pacing.machine import AFTER_YOU_S, LEFT_WITHIN_S, LOOK_AGAIN_S, MemberInMemory, PlacesInMemory
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import Permit
from amble.core.pacing.registry import Registry
from amble.core.pacing.settings import PacingSettings

UTC_NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHOP = "shop.test"
OK = Answer(status=200, elapsed_s=0.01)
START = 77.0  # of the clock: sooner than some gaps are long


def registry_of(member: MemberInMemory, **named: object) -> Registry:
    settings = PacingSettings.model_validate({"pacing": "fixed", "fixed_delay": 1.0, "max_rate": None, **named})
    return Registry(settings, lambda: 0.0, machine=member)


def two(**named: object) -> tuple[Pace, Pace]:
    places = PlacesInMemory()
    first, second = (registry_of(places.join(), **named).pace(SHOP, START, UTC_NOW) for _ in range(2))
    return first, second


def taken(pace: Pace, now: float) -> Permit:
    permit = pace.reserve(now)
    assert isinstance(permit, Permit)
    return permit


def test_the_gap_holds_whoever_asks() -> None:
    ours, theirs = two()
    taken(ours, START)
    assert theirs.reserve(START + 0.5) == START + 1.0
    taken(theirs, START + 1.0)
    assert ours.reserve(START + 1.5) == START + 2.0


def test_a_first_request_waits_for_nobody_however_long_its_gap_is() -> None:
    ours, _ = two(fixed_delay=86_400.0)
    taken(ours, START)


def test_the_longer_gap_holds_while_both_are_there() -> None:
    places = PlacesInMemory()
    quick = registry_of(places.join(), fixed_delay=0.2).pace(SHOP, START, UTC_NOW)
    slow = registry_of(places.join(), fixed_delay=5.0).pace(SHOP, START, UTC_NOW)
    taken(quick, START)
    assert slow.reserve(START + 0.1) == START + 5.0
    assert quick.reserve(START + 0.2) == START + 5.0 + AFTER_YOU_S, "it lets the other go first"
    taken(slow, START + 5.0)
    assert quick.reserve(START + 5.2) == START + 10.0, "five seconds are what the last request asked for"
    taken(quick, START + 10.0)
    taken(quick, START + 10.2)  # the other did not come


def test_processes_take_turns() -> None:
    ours, theirs = two()
    starts: list[tuple[float, str]] = []
    due = {"ours": START, "theirs": START}
    paces = {"ours": ours, "theirs": theirs}
    while len(starts) < 20:
        name = min(due, key=lambda each: (due[each], each))  # one of them is always a little quicker
        now = due[name]
        got = paces[name].reserve(now)
        if isinstance(got, Permit):
            starts.append((now, name))
            paces[name].settle(got, OK, now)
            due[name] = now + 1.0
        else:
            due[name] = got
    assert [name for _, name in starts] == ["ours", "theirs"] * 10
    assert min(later - earlier for (earlier, _), (later, _) in pairwise(starts)) >= 1.0


def test_the_gap_counts_from_the_send() -> None:
    """A request that connects for long leaves late: until then nobody else starts one [P1]."""
    ours, theirs = two()
    permit = taken(ours, START)
    ours.expect(permit)
    assert theirs.reserve(START + 3.0) == pytest.approx(START + 3.0 + LOOK_AGAIN_S)
    ours.sent(permit, START + 3.5)
    assert theirs.reserve(START + 4.0) == START + 4.5
    taken(theirs, START + 4.5)


def test_a_request_that_ends_before_it_left_is_waited_for_no_longer() -> None:
    ours, theirs = two()
    permit = taken(ours, START)
    ours.expect(permit)
    ours.settle(permit, OK, START + 3.0)
    taken(theirs, START + 3.0)


def test_a_request_may_have_left_in_the_moment_in_which_its_process_died() -> None:
    places = PlacesInMemory()
    killed = places.join()
    ours = registry_of(killed).pace(SHOP, START, UTC_NOW)
    theirs = registry_of(places.join()).pace(SHOP, START, UTC_NOW)
    ours.expect(taken(ours, START))
    killed.die()
    assert theirs.reserve(START + 9.0) == START + 10.0
    taken(theirs, START + 10.0)


def test_a_process_that_was_stopped_is_not_waited_for_without_end() -> None:
    ours, theirs = two()
    ours.expect(taken(ours, START))
    assert isinstance(theirs.reserve(START + LEFT_WITHIN_S - 1.0), float)
    taken(theirs, START + LEFT_WITHIN_S)


def test_what_was_given_back_is_as_if_it_had_never_been() -> None:
    ours, theirs = two()
    ours.cancel(taken(ours, START))
    taken(theirs, START)


@pytest.mark.parametrize("gap_s", [0.0, 1.0])
def test_a_block_met_by_one_binds_the_other(gap_s: float) -> None:
    ours, theirs = two(fixed_delay=gap_s)
    ours.settle(taken(ours, START), Answer(status=429, retry_after_s=60.0), START)
    refused_until = theirs.reserve(START + 2.0)
    assert refused_until == theirs.blocked_until == ours.blocked_until >= START + 60.0
    assert [type(event).__name__ for event in theirs.events] == ["Paused"]
    taken(theirs, theirs.blocked_until)


def test_a_block_known_from_earlier_binds_the_other() -> None:
    places = PlacesInMemory()
    first = registry_of(places.join())
    blocked = first.pace(SHOP, START, UTC_NOW)
    blocked.settle(taken(blocked, START), Answer(status=429, retry_after_s=60.0), START)
    rows = first.learned(START, UTC_NOW)
    others = PlacesInMemory()
    again = registry_of(others.join())
    again.load(rows, START, UTC_NOW)
    again.pace(SHOP, START, UTC_NOW)
    theirs = registry_of(others.join()).pace(SHOP, START, UTC_NOW)
    assert theirs.reserve(START) == pytest.approx(START + 60.0, rel=0.1)


def test_what_was_the_networks_fault_holds_for_nobody() -> None:
    ours, theirs = two(consecutive_fail_threshold=1)
    ours.settle(taken(ours, START), Answer(status=500), START)
    assert ours.circuit == "open"
    assert theirs.reserve(START + 0.5) == ours.blocked_until
    ours.pardon(START + 0.5)
    assert ours.machine is not None
    assert ours.machine.blocked_until(SHOP) == -math.inf or ours.machine.blocked_until(SHOP) <= START + 0.5


def test_where_there_is_no_gap_nothing_is_asked_for() -> None:
    ours, theirs = two(fixed_delay=0.0)
    for _ in range(3):
        taken(ours, START)
        taken(theirs, START)


@dataclass
class Campaign:
    """Processes that ask one domain, connect for some time, are stopped for some, are killed, and are born."""

    seed: int
    random: Random = field(init=False)
    sends: list[float] = field(default_factory=list)

    def run(self) -> None:
        self.random = Random(self.seed)
        places = PlacesInMemory()
        members: list[tuple[MemberInMemory, Pace, Permit | None]] = []
        now = START
        for _ in range(400):
            now += self.random.choice([0.0, 0.003, 0.05, 0.4, 1.0])
            if len(members) < 3:
                member = places.join()
                members.append((member, registry_of(member).pace(SHOP, now, UTC_NOW), None))
            index = self.random.randrange(len(members))  # who is not drawn for long is as good as stopped
            member, pace, permit = members[index]
            if self.random.random() < 0.03:
                if permit is not None and self.random.random() < 0.5:
                    self.sends.append(now)  # nobody lived to say so
                member.die()
                del members[index]
            elif permit is not None:
                self.sends.append(now)
                pace.sent(permit, now)
                pace.settle(permit, OK, now)
                members[index] = member, pace, None
            elif isinstance(got := pace.reserve(now), Permit):
                pace.expect(got)
                members[index] = member, pace, got


def test_no_gap_is_broken_by_processes_that_stop_and_die() -> None:
    gaps = []
    for seed in range(60):
        campaign = Campaign(seed)
        campaign.run()
        gaps += [later - earlier for earlier, later in pairwise(campaign.sends)]
    assert len(gaps) > 1_000
    assert min(gaps) >= 1.0 - 1e-9
