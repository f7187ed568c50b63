"""Few descriptors: the limit is raised where it may be, and otherwise fewer connections are kept [F11]."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE

import pytest

from amble.fetcher import descriptors
from amble.testing.rawserver import answer_each, response, serve

resource = pytest.importorskip("resource")

_FETCHES = """
import asyncio, resource, sys
from amble.fetcher import FetchRequest
from tests.fetcher.helpers import fetcher

soft, hard, port = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

async def main():
    async with fetcher(http_timeout=60.0, header_timeout_s=60.0, connect_timeout_s=60.0) as f:
        for start in range(0, 240, 80):
            requests = [FetchRequest(f"http://h{i}.test:{port}/") for i in range(start, start + 80)]
            results = await asyncio.gather(*(f.fetch(request) for request in requests))
            assert {result.status for result in results} == {200}, results
    print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("soft", "hard", "then"),
    [(64, 256, 256), (64, 64, 64), (48, 48, 48)],
    ids=["raised to the hard limit", "64 for everything", "48 for everything"],
)
async def test_it_works_with_few_descriptors(soft: int, hard: int, then: int) -> None:
    async with serve(answer_each(lambda head: response(b"x"))) as server:
        command = [sys.executable, "-c", _FETCHES, str(soft), str(hard), str(server.port)]
        fetches = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)
        said, went_wrong = await fetches.communicate()
    assert (fetches.returncode, said.decode().strip()) == (0, str(then)), went_wrong.decode()[-2000:]


def test_idle_connections_give_way_to_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, *room in [
        (None, 256, 1024, 1024),
        (65_536, 256, 1024, 1024),
        (1024, 256, 128, 384),
        (256, 64, 16, 48),
        (64, 16, 4, 12),
        (16, 4, 1, 3),
        (2, 1, 0, 1),
    ]:
        monkeypatch.setattr(descriptors, "raise_limit", lambda limit=limit: limit)
        assert list(descriptors.room_for(256, 1024)) == room, limit
