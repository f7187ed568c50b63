"""Gaps are kept where requests are sent, however late an order came by [P1]."""

from __future__ import annotations

from amble.workers.spacing import SWEEP_AT, Spacing


def test_what_came_late_is_spaced_again_p1() -> None:
    spacing = Spacing()
    for now, gap_s, sent_at, waits_s in [
        # told of at, gap, really sent at, has to wait
        (0.0, 1.0, 0.0, 0.0),
        (1.0, 1.0, 1.5, 0.0),  # it took half a second to connect
        (2.0, 1.0, None, 0.5),  # so that the next one, which left in time, has to wait for it
        (2.0, 1.0, None, 1.5),  # and the one behind it for both
        (2.1, 0.0, None, 0.0),  # none is asked for
        (9.0, 1.0, None, 0.0),
    ]:
        assert spacing.wait_s("a.test", gap_s, now) == waits_s, now
        assert spacing.wait_s("b.test", 0.0, now) == 0.0
        if sent_at is not None:
            spacing.sent("a.test", sent_at)


def test_domains_that_may_be_asked_again_take_no_room_f13() -> None:
    spacing = Spacing()
    for n in range(3 * SWEEP_AT):
        assert spacing.wait_s(f"{n}.test", 1.0 if n else 1e9, float(n)) == 0.0
    assert len(spacing._last) <= SWEEP_AT + 1
    assert spacing.wait_s("0.test", 1e9, 3.0 * SWEEP_AT) > 0, "whoever still has to wait is not forgotten"
