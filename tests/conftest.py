"""Profiles of the property tests: `quick` by default, `soak` (--hypothesis-profile=soak) for a night's run."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# No deadlines: a busy machine is no fault of the code under test.
settings.register_profile("quick", deadline=None)
settings.register_profile(
    "soak",
    deadline=None,
    max_examples=5_000,
    stateful_step_count=150,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("quick")
