"""One crawl over one network, judged by what the servers logged and by the rows it left."""

from __future__ import annotations

import os
import re
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import duckdb

from bench.network.crawlers import Crawler
from bench.network.hosts import Kind, good_of
from bench.network.namespaces import Network
from bench.network.scenarios import Scenario

_LOOK_S = 0.2
_NETWORK_DOWN = re.compile(r"network +(is )?down")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


class Span(NamedTuple):
    """How long something took, of many times."""

    median_s: float
    most_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """What one crawl came to. Seconds count from its start."""

    scenario: str
    crawler: str
    hosts: int  # good ones
    wanted: int  # pages of good hosts
    got: int  # of these, given by their server to the last byte
    stored: int | None  # of these, with a row that has them; None where nothing is stored
    failed_rows: int | None  # URLs of good hosts whose row says that they failed
    without_row: int | None  # URLs of seeds that have no row
    foreign: int | None  # rows with a page where there can be none
    network_down: int  # times it was said
    first_s: float
    last_s: float
    wall_s: float
    status: int | None  # None: cut off
    connections: int  # at good hosts, that carried a request
    requests: int
    handshakes: int  # over TLS, at good hosts
    resumed: int
    cpu_s: float
    rss_mb: float
    processes: int
    link: str  # packets that crossed, and how late the latest was
    output: str
    connect_s: dict[Kind, Span]  # from the answer of the name to the connection, by kind of host

    @property
    def per_host(self) -> float:
        return self.connections / max(1, self.hosts)

    @property
    def pages_per_cpu_s(self) -> float:
        return self.got / self.cpu_s if self.cpu_s else 0.0

    @property
    def tail_s(self) -> float:
        return self.wall_s - self.last_s


class Request(NamedTuple):
    """A line of a server's log."""

    at: float
    connection: str
    scheme: str
    host: str
    path: str
    status: str
    reused: bool


def crawl(scenario: Scenario, crawler: Crawler, kept: Path | None = None) -> Result:
    """A network of its own, a crawl as a user would start it, and what came of it."""
    with Network(scenario.hosts, scenario.pages, scenario.conditions) as network:
        folder = network.folder if kept is None else kept
        seeds, into = folder / "seeds.txt", folder / "pages.duckdb"
        into.unlink(missing_ok=True)
        seeds.write_text("".join(f"{host.root}\n" for host in scenario.hosts))
        command = network.command(crawler.command(seeds, into, network.ca_file), scenario.descriptors)
        began_at = time.time()
        environment = {**crawler.surroundings(), "TMPDIR": str(network.temporary)}  # where ambles of one user meet
        used = _run(command, environment, folder, scenario.bound_s)
        network.stop()
        requests = [request for log in network.logs for request in _read_log(log)]
        rows = _Rows.read(into, scenario) if crawler.stores else _Rows(None, None, None, None)
        return _judge(scenario, crawler, began_at, used, requests, rows, _read_names(network), network.link_report)


class _Used(NamedTuple):
    wall_s: float
    status: int | None
    cpu_s: float
    rss_mb: float
    processes: int
    output: str


def _run(command: list[str], environment: dict[str, str], folder: Path, bound_s: float) -> _Used:
    """Run to the end, or to the bound, and count what all of its processes took."""
    output = folder / "output.txt"
    began = time.monotonic()
    with output.open("w") as out:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        with _Family(process.pid) as family:
            too_long = threading.Timer(bound_s, family.kill)
            too_long.start()
            _, status, used = os.wait4(process.pid, 0)
            too_long.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu_s = max(used.ru_utime + used.ru_stime, family.cpu_s)
    said = output.read_text(errors="replace")
    wall_s = time.monotonic() - began
    return _Used(wall_s, None if family.killed else process.returncode, cpu_s, family.rss_mb, family.processes, said)


class _Family:
    """A process and all below it, looked at until its end: the most memory all held together, and processor time."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.rss_mb, self.cpu_s, self.processes, self.killed = 0.0, 0.0, 0, False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> _Family:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def kill(self) -> None:
        self.killed = True
        self._look()
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            self._look()

    def _look(self) -> None:
        members = list(_below(self._pid))
        rss_mb = cpu_s = 0.0
        for pid in members:
            with suppress(OSError, IndexError):
                rss_mb += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                cpu_s += sum(int(fields[at]) for at in (11, 12, 13, 14)) * _TICK_S
        self.rss_mb, self.cpu_s = max(self.rss_mb, rss_mb), max(self.cpu_s, cpu_s)
        self.processes = max(self.processes, len(members))


def _below(pid: int) -> Iterator[int]:
    yield pid
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _below(int(child))


def _read_names(network: Network) -> dict[str, list[float]]:
    """When each name was answered, in UTC seconds."""
    answers: dict[str, list[float]] = {}
    for line in network.names_log.read_text().splitlines():
        at, _, name = line.partition(" ")
        answers.setdefault(name, []).append(float(at))
    return answers


def _connect_spans(scenario: Scenario, requests: list[Request], answers: dict[str, list[float]]) -> dict[Kind, Span]:
    """From a name's last answer to the connection: a request needs half a round trip more to be in the server's log.

    Over TLS a handshake stands between, so plain hosts alone are looked at.
    """
    half_s = scenario.conditions.round_trip_ms / 2000
    asked_at: dict[str, float] = {}
    for request in sorted(requests):
        asked_at.setdefault(request.host, request.at)
    spans: dict[Kind, list[float]] = {}
    for host in good_of(scenario.hosts):
        connected_at = asked_at.get(host.name, 0.0) - half_s
        answered_at = max((at for at in answers.get(host.name, []) if at < connected_at), default=None)
        if host.scheme == "http" and answered_at is not None:
            spans.setdefault(host.kind, []).append(connected_at - answered_at)
    return {kind: Span(statistics.median(all_s), max(all_s)) for kind, all_s in spans.items()}


def _read_log(log: Path) -> Iterator[Request]:
    if not log.exists():
        return
    for line in log.read_text(errors="replace").splitlines():
        at, connection, _, scheme, _, host, path, status, reused = line.split(" ")
        yield Request(float(at), f"{log.stem}{connection}", scheme, host.partition(":")[0], path, status, reused == "r")


class _Rows(NamedTuple):
    """What the crawl's own table says of good hosts' pages, and which seeds it says nothing of."""

    stored: int | None
    failed: int | None
    missing: int | None
    foreign: int | None

    @classmethod
    def read(cls, file: Path, scenario: Scenario) -> _Rows:
        if not file.exists():
            return cls(0, 0, len(scenario.hosts), 0)
        good = {url for host in good_of(scenario.hosts) for url in host.urls(scenario.pages)}
        with duckdb.connect(str(file), read_only=True) as connection:
            tables = {str(name) for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
            if "pages" not in tables:
                return cls(0, 0, len(scenario.hosts), 0)
            rows = connection.execute("SELECT url, http_status = 200 AND body IS NOT NULL, error_type FROM pages")
            by_url = {str(url): (bool(stored), error) for url, stored, error in rows.fetchall()}
        stored = sum(by_url[url][0] for url in good if url in by_url)
        failed = sum(by_url[url][1] is not None for url in good if url in by_url)
        missing = sum(host.root not in by_url for host in scenario.hosts)
        return cls(stored, failed, missing, sum(stored for url, (stored, _) in by_url.items() if url not in good))


def _judge(
    scenario: Scenario,
    crawler: Crawler,
    began_at: float,
    used: _Used,
    requests: list[Request],
    rows: _Rows,
    answers: dict[str, list[float]],
    link: str,
) -> Result:
    good = good_of(scenario.hosts)
    names = {host.name for host in good}
    paths = {url.removeprefix(good[0].root.rstrip("/")) for url in good[0].urls(scenario.pages)} if good else set()
    ours = [request for request in requests if request.host in names]
    first_given: dict[tuple[str, str], float] = {}
    for request in sorted(ours):
        if request.status == "200" and request.path in paths:
            first_given.setdefault((request.host, request.path), request.at - began_at)
    secured = {request.connection: request.reused for request in ours if request.scheme == "https"}
    return Result(
        scenario=scenario.name,
        crawler=crawler.name,
        hosts=len(good),
        wanted=len(good) * scenario.pages,
        got=len(first_given),
        stored=rows.stored,
        failed_rows=rows.failed,
        without_row=rows.missing,
        foreign=rows.foreign,
        network_down=len(_NETWORK_DOWN.findall(used.output)),
        first_s=min(first_given.values(), default=float("nan")),
        last_s=max(first_given.values(), default=float("nan")),
        wall_s=used.wall_s,
        status=used.status,
        connections=len({request.connection for request in ours}),
        requests=len(ours),
        handshakes=len(secured),
        resumed=sum(secured.values()),
        cpu_s=used.cpu_s,
        rss_mb=used.rss_mb,
        processes=used.processes,
        link=link,
        output=used.output,
        connect_s=_connect_spans(scenario, ours, answers),
    )
