"""The farm on the command line."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from http.client import HTTPConnection

import pytest

from amble.testing.farm import Farm, bench
from amble.testing.farm.__main__ import parse, sites_table
from amble.testing.farm.webs import many_hosts, throughput


def test_a_web_is_served_until_it_is_interrupted_and_then_judged() -> None:
    command = [sys.executable, "-m", "amble.testing.farm", "--web", "demo"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = process.stdout.readline()
        port = re.match(r"http://books\.demo\.test:(\d+)/ +60 pages  \w", first)
        assert port, first
        shown = [process.stdout.readline() for _ in range(13)]
        connection = HTTPConnection("127.0.0.1", int(port[1]), timeout=10)
        connection.request("GET", "/", headers={"Host": "books.demo.test"})
        assert connection.getresponse().status == 200
        connection.close()
        os.kill(process.pid, signal.SIGINT)
        rest = process.stdout.read()
        assert process.wait(20) == 0, process.stderr.read()
    assert sum(line.startswith("http://") for line in (first, *shown)) == 12
    assert "try: curl" in "".join(shown)
    assert re.search(r"books\.demo\.test +1/60 .* 1 before robots\.txt", rest)


def test_long_webs_are_not_printed_whole() -> None:
    with Farm(many_hosts(50, pages=1)) as farm:
        lines = list(sites_table(farm))
    assert len(lines) == 42
    assert lines[40] == "... and 10 more"


def test_a_web_that_does_not_exist_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--web", "nonesuch"])
    assert "nonesuch" in capsys.readouterr().err


def test_the_bench_measures_every_page() -> None:
    speed = bench.measure(throughput(40), 2)
    assert speed.requests == 80
    assert speed.wall_s > 0.0
    assert "per CPU-second" in str(speed)
