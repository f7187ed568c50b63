"""What the tests of the limiter share."""

from __future__ import annotations

import pytest

from amble.core.pacing import pace


@pytest.fixture(autouse=True)
def late_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials as late as `open_state_duration` says, however the circuit opened: the stories here are told in its
    round numbers."""
    monkeypatch.setattr(pace, "FIRST_TRIAL_S", 1e9)
    monkeypatch.setattr(pace, "OFTEN_FOR_S", 0.0)
