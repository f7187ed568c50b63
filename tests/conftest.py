"""Profiles of the property tests: `quick` by default, `soak` (--hypothesis-profile=soak) for a night's run."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

# No deadlines: a busy machine is no fault of the code under test.
# The same examples each time: whoever changes one thing should not be stopped by what was never met before in another.
# The soak looks for new ones.
settings.register_profile("quick", deadline=None, derandomize=True)
settings.register_profile(
    "soak",
    deadline=None,
    max_examples=5_000,
    stateful_step_count=150,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.load_profile("quick")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A soak takes as long as it takes."""
    if config.getoption("--hypothesis-profile") == "soak":
        for item in items:
            item.add_marker(pytest.mark.timeout(0))


@pytest.fixture(autouse=True, scope="session")
def _settings_of_this_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whoever runs the tests may have settings in the environment or in a file: they are not meant here."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith("AMBLE_") or name.lower() in ("http_proxy", "https_proxy", "no_proxy"):
                patch.delenv(name)
        patch.setenv("XDG_CONFIG_HOME", str(tmp_path_factory.mktemp("config")))
        yield


_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _pace_of_this_test(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A port is given out again, and `a.test` at it is another site each time: what this machine and the engine of this
    process know of its pace, perhaps a long block, is shared neither between tests nor with whoever runs them."""
    folder = tmp_path_factory.getbasetemp() / "run" / str(next(_numbers))
    monkeypatch.setenv("AMBLE_RUNTIME_DIR", str(folder))
    yield
    runner = sys.modules.get("amble.jobs.runner")
    engine = runner._engine if runner is not None else None
    if engine is not None and not engine.jobs():
        engine.shared = type(engine.shared)()
    shutil.rmtree(folder, ignore_errors=True)
