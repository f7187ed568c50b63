"""Async tests of the fetcher: each runs on a fresh loop of its own, uvloop unless it asks for both."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable

import pytest
import uvloop

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "uvloop": uvloop.new_event_loop,
    "asyncio": asyncio.new_event_loop,
}


@pytest.fixture(params=list(LOOPS))
def both_loops(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    loop = LOOPS[str(pyfuncitem.funcargs.get("both_loops", "uvloop"))]
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(pyfuncitem.obj(**arguments))
    return True
