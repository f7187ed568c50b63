"""Which lines of a robots.txt say something, whom they address, how long they ask us to wait: bytes to groups. Pure.

The tolerance is that of Google's open-source parser, because that is what sites are written against: frequent typos of
the keys, a forgotten colon, any line ending, a byte order mark or a piece of one (RFC 9309 2.2 asks for leniency).

A group is a run of `User-agent` lines and the rules after it. Groups that name the same crawler are one group; a group
that names us replaces the one for `*` altogether (RFC 9309 2.2.1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import NamedTuple, TypeVar

from amble.core.robots.match import Rule, escape

EVERYONE = "*"

_T = TypeVar("_T")

_TOKEN = re.compile(r"[A-Za-z_-]*")
_COMPATIBLE = re.compile(r"Mozilla/[^(]*\([^)]*?\bcompatible;\s*(?=[A-Za-z_-])", re.IGNORECASE)


def product_token(user_agent: str) -> str:
    """The name that robots.txt files address us by: `amble` for `amble/1.0 (+url)`; empty if there is none.

    A crawler that calls itself `Mozilla/5.0 (compatible; ExampleBot/0.1)` is ExampleBot (RFC 9309 2.2.1).
    """
    disguise = _COMPATIBLE.match(user_agent)
    match = _TOKEN.match(user_agent, disguise.end() if disguise else 0)
    return match[0] if match else ""


class Group(NamedTuple):
    """What a file says to one crawler: the rules, and the lines beyond RFC 9309."""

    rules: Sequence[Rule]
    extras: Sequence[Line]


@dataclass(frozen=True, slots=True)
class RobotsTxt:
    """A robots.txt, by the crawlers it addresses (tokens in lower case) and the sitemaps it names for all of them."""

    rules: dict[str, list[list[Rule]]] = field(default_factory=dict)
    extras: dict[str, list[list[Line]]] = field(default_factory=dict)
    sitemaps: list[str] = field(default_factory=list)
    said_to_all: list[Line] = field(default_factory=list)  # what pages may be used for, before any group

    def group_for(self, token: str) -> Group:
        """The merged group of this crawler, else of everyone. The token is compared whole, without regard to case."""
        name = token.lower() if token.isascii() else token
        if name not in self.rules:
            name = EVERYONE
        rules = [rule for part in self.rules.get(name, ()) for rule in part]
        extras = [line for part in self.extras.get(name, ()) for line in part]
        return Group(rules, [*self.said_to_all, *extras])


def parse(body: bytes) -> RobotsTxt:
    """The groups and sitemaps of a file. Nothing is an error: what cannot be read says nothing."""
    reading = _Reading()
    for line in read_lines(body):
        if line.kind is Kind.USER_AGENT:
            reading.address(line.value)
        elif line.kind is Kind.ALLOW or line.kind is Kind.DISALLOW:
            reading.add_rule(line)
        elif line.kind is Kind.SITEMAP:
            reading.file.sitemaps.append(line.value.decode("utf-8", "replace"))
        elif line.kind is not Kind.UNKNOWN:
            reading.add_extra(line)
    return reading.file


class _Reading:
    """The file so far, and whom the next line addresses.

    There are two answers to that. A rule closes the list of crawlers, and nothing else does (RFC 9309 2.2.4: other
    records must not interfere). But `Crawl-delay: 10` after `User-agent: a` is meant for `a` alone even where no rule
    stands between it and the next `User-agent`: so for these lines the list is closed by either.
    """

    def __init__(self) -> None:
        self.file = RobotsTxt()
        self._rules: list[Rule] | None = None
        self._extras: list[Line] | None = None
        self._rules_closed = self._extras_closed = True

    def address(self, value: bytes) -> None:
        if self._rules is None or self._rules_closed:
            self._rules, self._rules_closed = [], False
        if self._extras is None or self._extras_closed:
            self._extras, self._extras_closed = [], False
        token = _addressee(value)
        _file_under(self.file.rules, token, self._rules)
        _file_under(self.file.extras, token, self._extras)

    def add_rule(self, line: Line) -> None:
        if self._rules is not None:  # a rule before any User-agent line addresses nobody
            self._rules.append(Rule(line.kind is Kind.ALLOW, escape(line.value)))
            self._rules_closed = self._extras_closed = True

    def add_extra(self, line: Line) -> None:
        if self._extras is not None:
            self._extras.append(line)
            self._extras_closed = True
        elif line.kind in (Kind.CONTENT_SIGNAL, Kind.CONTENT_USAGE):
            self.file.said_to_all.append(line)


def _addressee(value: bytes) -> str:
    """The token of a User-agent line in lower case; `*` also where words follow the star."""
    if value == b"*" or (value.startswith(b"*") and value[1:2].isspace()):
        return EVERYONE
    match = _TOKEN.match(value.decode("latin-1"))
    return match[0].lower() if match else ""


def _file_under(parts: dict[str, list[list[_T]]], token: str, part: list[_T]) -> None:
    filed = parts.setdefault(token, [])
    if not filed or filed[-1] is not part:  # a group may name a crawler many times
        filed.append(part)


# --- Lines -----------------------------------------------------------------------------------------------------------

BODY_BYTES_MAX = 500 * 1024  # RFC 9309 2.5: at least 500 KiB must be read; what follows is ignored
LINE_BYTES_MAX = 8 * 2083 - 1  # Google keeps this much of a line and drops the rest of it

_BOM = b"\xef\xbb\xbf"
_KEY_BYTES_READ = 16  # no key below is longer; only its beginning has to match


class Kind(Enum):
    """What a line is about."""

    USER_AGENT = (b"user-agent", b"useragent", b"user agent")
    ALLOW = (b"allow",)
    DISALLOW = (b"disallow", b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw")
    SITEMAP = (b"sitemap", b"site-map")
    # Beyond RFC 9309: read for our own use, invisible to the rules above (RFC 9309 2.2.4).
    CRAWL_DELAY = (b"crawl-delay", b"crawldelay", b"crawl delay")
    REQUEST_RATE = (b"request-rate", b"requestrate", b"request rate")
    CONTENT_SIGNAL = (b"content-signal",)
    CONTENT_USAGE = (b"content-usage",)
    UNKNOWN = None


class Line(NamedTuple):
    """One directive: where it stands, what it is about, and its value without comment and outer whitespace."""

    number: int
    kind: Kind
    value: bytes


def read_lines(body: bytes) -> Iterator[Line]:
    """The directives of the first 500 KiB, in order. A line that the limit cuts through is read as far as it goes."""
    text = _without_bom(body[:BODY_BYTES_MAX])
    for number, line in enumerate(text.splitlines(), 1):
        pair = _key_and_value(line) if line else None
        if pair is not None:
            yield Line(number, _kind_of(pair[0][:_KEY_BYTES_READ].lower()), pair[1])


def _without_bom(text: bytes) -> bytes:
    """The text after as much of a UTF-8 byte order mark as it starts with: one byte of it, two or all three."""
    for length in (3, 2, 1):
        if text.startswith(_BOM[:length]):
            return text[length:]
    return text


def _key_and_value(line: bytes) -> tuple[bytes, bytes] | None:
    if len(line) > LINE_BYTES_MAX:
        line = line[:LINE_BYTES_MAX]
    if b"\0" in line:
        line = line[: line.index(b"\0")]
    line = line.partition(b"#")[0].strip()
    key, colon, value = line.partition(b":")
    if not colon:
        # A forgotten colon is forgiven where the line is exactly two words.
        words = line.replace(b"\t", b" ").split(b" ", 1)
        if len(words) < 2 or b" " in words[1].lstrip(b" "):
            return None
        key, value = words
    key = key.rstrip()
    return (key, value.strip()) if key else None


@lru_cache(maxsize=1024)
def _kind_of(key: bytes) -> Kind:
    """The kind of a key in lower case; whatever follows the known beginning is ignored."""
    return next((kind for kind in Kind if kind.value and key.startswith(kind.value)), Kind.UNKNOWN)


# --- Crawl-delay and Request-rate ------------------------------------------------------------------------------------

# Neither is in RFC 9309; both are written by hand, so units, decimal commas and trailing words are understood. What is
# negative, infinite or no number says nothing.
_NUMBER = r"[0-9]+(?:[.,][0-9]+)?(?:e[+-]?[0-9]+)?|[.,][0-9]+"
_DELAY = re.compile(rf"\+?({_NUMBER})\s*([a-z]*)", re.IGNORECASE)
_RATE = re.compile(rf"({_NUMBER})\s*/\s*(?:({_NUMBER})\s*([a-z]*)|([a-z]+))", re.IGNORECASE)

_UNITS_S = {"ms": 0.001, "m": 60.0, "min": 60.0, "h": 3_600.0, "hour": 3_600.0, "d": 86_400.0, "day": 86_400.0}


def crawl_delay_s(extras: Iterable[Line]) -> float | None:
    """The longest delay that a group's lines ask for, in seconds; None if they ask for none."""
    asked = []
    for line in extras:
        if line.kind is Kind.CRAWL_DELAY:
            asked.append(read_delay_s(line.value.decode("latin-1")))
        elif line.kind is Kind.REQUEST_RATE:
            asked.append(read_rate_s(line.value.decode("latin-1")))
    return max((delay_s for delay_s in asked if delay_s is not None), default=None)


def read_delay_s(text: str) -> float | None:
    """`10`, `0.5`, `1,5`, `2s`, `1 min`, `10 please`: seconds unless it says otherwise."""
    match = _DELAY.match(text)
    return _finite(_float(match[1]) * _unit_s(match[2])) if match else None


def read_rate_s(text: str) -> float | None:
    """`1/5` is one request in five seconds, `30/1m` thirty in a minute. A time of day behind it is not looked at:
    the rate then holds all day, which the site cannot mind."""
    match = _RATE.match(text)
    if match is None:
        return None
    count = _float(match[1])
    period_s = _float(match[2] or "1") * _unit_s(match[3] or match[4] or "")
    return _finite(period_s / count) if 0 < count < math.inf else None


def _float(text: str) -> float:
    return float(text.replace(",", "."))


def _unit_s(word: str) -> float:
    """Seconds in a unit, in the singular or plural, short or long; a word that is none counts as seconds."""
    word = word.lower()
    for unit in (word, word[:-1] if word.endswith("s") else word, word[:3]):
        if unit in _UNITS_S:
            return _UNITS_S[unit]
    return 1.0


def _finite(seconds: float) -> float | None:
    return seconds if 0 <= seconds < math.inf else None
