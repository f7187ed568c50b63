"""What this machine's own files say of names: /etc/hosts, /etc/resolv.conf, /etc/nsswitch.conf. Each read when it
changes."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

_PLAIN_SERVICES = frozenset({"files", "dns"})  # what a name is looked up in elsewhere than by the system

T = TypeVar("T")


class Watched(Generic[T]):
    """A file, read again whenever it is another or was written. What cannot be read is empty."""

    def __init__(self, path: str, read: Callable[[str], T]) -> None:
        self._path = Path(path)
        self._read = read
        self._said: tuple[tuple[int, int, int] | None, T] | None = None

    def now(self) -> T:
        """What it says, the same object for as long as it does not change."""
        signature = self._sign()
        if self._said is None or signature != self._said[0]:
            self._said = signature, self._read_now()
        return self._said[1]

    def _sign(self) -> tuple[int, int, int] | None:
        with suppress(OSError):
            found = self._path.stat()
            return found.st_mtime_ns, found.st_ino, found.st_size
        return None

    def _read_now(self) -> T:
        text = ""
        with suppress(OSError):
            text = self._path.read_text(errors="replace")
        return self._read(text)


class NameServers(NamedTuple):
    """As c-ares is told of them; none: it finds them by itself, where a system has its own way to say."""

    addresses: tuple[str, ...]


def read_name_servers(resolv_conf: str) -> NameServers:
    """resolv.conf(5)."""
    lines = [line.split() for line in resolv_conf.splitlines()]
    return NameServers(tuple(words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"))


def read_hosts(hosts: str) -> Mapping[str, tuple[str, ...]]:
    """hosts(5): the addresses of each name with a dot, in the order of the file."""
    found: dict[str, tuple[str, ...]] = {}
    for line in hosts.splitlines():
        address, *names = line.partition("#")[0].split() or [""]
        text = _address(address)
        for name in names if text else ():
            key = name.lower().removesuffix(".")
            if "." in key and text not in found.get(key, ()):
                found[key] = (*found.get(key, ()), text)
    return found


@lru_cache(maxsize=64)  # lists of names to be blocked have a hundred thousand lines of one address
def _address(text: str) -> str:
    """In its one spelling; empty where it is none."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return ""


def read_knows_more(nsswitch: str) -> bool:
    """nsswitch.conf(5): whether names are found in more places than the hosts file and DNS, such as mDNS."""
    if sys.platform == "darwin":
        return True
    for line in nsswitch.splitlines():
        database, _, services = line.partition("#")[0].partition(":")
        if database.strip() == "hosts":
            places = services.replace("[", " [").split()
            return any(each not in _PLAIN_SERVICES for each in places if not each.startswith("["))
    return False
