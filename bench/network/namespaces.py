"""The network: three namespaces without a route out, the link between them, a server of names, servers of pages.

`with Network(hosts, pages, Conditions()) as network:` builds it, `network.command(...)` is a program inside it, where
the crawler is.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import trustme

from bench.network import names, nginx
from bench.network.hosts import PORTAL, ZONES, Host
from bench.network.link import END

_ROOT = Path(__file__).parents[2]
_CRAWLER_ADDRESS, _CRAWLER_ADDRESS_6 = "11.0.0.2", "2a0f:fffe::2"
_READY_S = 15.0
OFFICE = "office.test"  # the search domain, where there is one


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the network is like."""

    round_trip_ms: float = 80.0
    loss: float = 0.01  # of packets, each way
    names_loss: float = 0.0  # of questions and answers at the server of names
    search_domain: bool = False  # with five dots wanted before a name counts as whole, and a wildcard
    with_nginx: bool = True
    page_bytes: int = 5_000


def why_not() -> str | None:
    """Why no network can be built here; None where one can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "network namespaces are root's to make"
    missing = [program for program in ("ip", "unshare", "mount", "sh") if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} is not installed"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun for a link"
    name = f"amble-{os.getpid()}-look"
    for command in (["ip", "netns", "add", name], ["ip", "netns", "exec", name, "unshare", "--mount", "true"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"no network namespace can be made: {done.stderr.strip()}"
    _run("ip", "netns", "delete", name)
    return None


class Network:
    """Built when it is entered; nothing of it is left afterwards."""

    def __init__(self, hosts: Sequence[Host], pages: int, conditions: Conditions = Conditions()) -> None:  # noqa: B008
        self.hosts, self.pages, self.conditions = hosts, pages, conditions
        self._stack = ExitStack()
        self._servers: list[subprocess.Popen[str]] = []
        self._link: subprocess.Popen[str] | None = None
        self.link_report = ""

    def __enter__(self) -> Self:
        try:
            self._build()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._stack.close()

    def _build(self) -> None:
        temporary = tempfile.TemporaryDirectory(prefix="amble-network-")
        self.folder = Path(self._stack.enter_context(temporary))
        self.folder.chmod(0o755)  # nginx reads it as somebody else
        self.temporary = self.folder / "temporary"  # for the crawler's own: no other crawl's network is this one
        self.temporary.mkdir()
        self.crawler, self._good, self._faulty = (self._make_namespace(name) for name in ("crawler", "good", "faulty"))
        self._certify()
        self._write_pages()
        half_ms, loss = self.conditions.round_trip_ms / 2, self.conditions.loss
        link = [sys.executable, "-m", "bench.network.link", self.crawler, self._good, self._faulty]
        self._link = self._start([*link, "--delay-ms", str(half_ms), "--loss", str(loss)])
        self._connect()
        self._start_names()
        self._start_servers()

    def _make_namespace(self, role: str) -> str:
        name = f"amble-{os.getpid()}-{role}"
        _run("ip", "netns", "add", name)
        self._stack.callback(subprocess.run, ["ip", "netns", "delete", name], check=False)
        _run("ip", "-n", name, "link", "set", "lo", "up")
        return name

    def _certify(self) -> None:
        """One certificate for all hosts, of an authority that only this network's crawler is told of."""
        authority = trustme.CA()
        self.ca_file = self.folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca_file))
        certificate = authority.issue_cert(*(f"*.z{zone:02}.test" for zone in range(ZONES)))
        self._certificate = self.folder / "server.pem"
        certificate.private_key_and_cert_chain_pem.write_to_path(str(self._certificate))

    def _write_pages(self) -> None:
        """The same at every host, but for its name in the title."""
        self._pages = self.folder / "pages"
        (self._pages / "page").mkdir(parents=True)
        (self._pages / "robots.txt").write_text("User-agent: *\nDisallow: /never/\n")
        for number in range(self.pages):
            path = self._pages / (f"page/{number}" if number else "index.html")
            path.write_text(_page(number, self.pages, self.conditions.page_bytes))

    def _connect(self) -> None:
        crawler = ["ip", "-n", self.crawler]
        _run(*crawler, "address", "add", f"{_CRAWLER_ADDRESS}/32", "dev", END)
        _run(*crawler, "address", "add", f"{_CRAWLER_ADDRESS_6}/128", "dev", END, "nodad")
        _run(*crawler, "link", "set", END, "up")
        _run(*crawler, "route", "add", "default", "dev", END, "src", _CRAWLER_ADDRESS)
        _run(*crawler, "-6", "route", "add", "default", "dev", END, "src", _CRAWLER_ADDRESS_6)
        for servers in (self._good, self._faulty):
            _run("ip", "-n", servers, "link", "set", END, "up")
            _run("ip", "-n", servers, "route", "add", "local", "11.0.0.0/8", "dev", "lo")  # every address is here,
            _run("ip", "-n", servers, "route", "add", f"{_CRAWLER_ADDRESS}/32", "dev", END)  # but for the crawler's

    def _start_names(self) -> None:
        self.resolver = self.folder / "resolv.conf"
        search = f"search {OFFICE}\noptions ndots:5\n" if self.conditions.search_domain else ""
        self.resolver.write_text(f"nameserver {names.ADDRESS}\n{search}")
        given = {
            "hosts": {host.name: (host.lookup.value, host.addresses) for host in self.hosts},
            "loss": self.conditions.names_loss,
            "wildcard": (f".{OFFICE}", PORTAL) if self.conditions.search_domain else None,
        }
        self.names_log = self.folder / "names.log"
        server = [sys.executable, "-m", "bench.network.names", str(self.names_log)]
        self._start(self._inside(self.crawler, *server), given=json.dumps(given))

    def _start_servers(self) -> None:
        self.logs = [self.folder / "good.log", self.folder / "faulty.log"]
        with_nginx = self.conditions.with_nginx
        for namespace, log in zip((self._good, self._faulty), self.logs, strict=True):
            if namespace == self._good and with_nginx:
                command = nginx.configure(self.folder, self._pages, self._certificate, log)
                self._start(self._inside(namespace, *command), waits=False)
                _wait_for(self.folder / "status.sock")
            else:
                paths = [str(path) for path in (self._pages, self._certificate, log)]
                self._start(self._inside(namespace, sys.executable, "-m", "bench.network.origin", *paths))

    def _inside(self, namespace: str, *command: str) -> list[str]:
        return ["ip", "netns", "exec", namespace, *command]

    def command(self, program: Sequence[str], descriptors: int | None = None) -> list[str]:
        """A program where the crawler is: its network, its server of names, so many file descriptors."""
        limit = "" if descriptors is None else f"ulimit -n {descriptors} && "
        shell = f"mount --bind {self.resolver} /etc/resolv.conf && {limit}exec {shlex.join(program)}"
        return self._inside(self.crawler, "unshare", "--mount", "sh", "-c", shell)

    def _start(self, command: list[str], given: str = "", *, waits: bool = True) -> subprocess.Popen[str]:
        """A server, once it says that it is ready. It ends when its input does, or when it is told to."""
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=_ROOT, start_new_session=True
        )
        self._servers.append(process)
        assert process.stdin is not None
        assert process.stdout is not None
        if given:
            process.stdin.write(f"{given}\n")
            process.stdin.flush()
        if waits and process.stdout.readline() != "ready\n":
            raise RuntimeError(f"did not start: {shlex.join(command)}")
        return process

    def stop(self) -> None:
        """End the servers, so that their logs are whole. What the link says of itself is kept."""
        for process in reversed(self._servers):
            if process.args[4] == "nginx":  # type: ignore[index]
                process.terminate()
            said, _ = process.communicate(timeout=_READY_S)
            if process is self._link:
                self.link_report = said.strip()
        self._servers.clear()


def _page(number: int, pages: int, page_bytes: int) -> str:
    links = " ".join(f'<a href="{f"/page/{other}" if other else "/"}">page {other}</a>' for other in range(pages))
    words = random.Random(number).choices(("river", "mill", "bridge", "stone", "under", "past", "where"), k=page_bytes)
    text = " ".join(words)[: max(0, page_bytes - len(links) - 200)]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<title>Page {number} of <!--#echo var="host" --></title></head>\n'
        f"<body><h1>Page {number}</h1><p>{links}</p>\n<p>{text}</p></body></html>\n"
    )


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr.strip()}")


def _wait_for(path: Path) -> None:
    until = time.monotonic() + _READY_S
    while not path.exists():
        if time.monotonic() > until:
            raise RuntimeError(f"{path.name} did not appear")
        time.sleep(0.02)
