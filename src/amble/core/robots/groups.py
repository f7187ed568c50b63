"""Whom each line of a robots.txt addresses: directives to groups, and the group for one crawler. Pure.

A group is a run of `User-agent` lines and the rules after it. Groups that name the same crawler are one group; a group
that names us replaces the one for `*` altogether (RFC 9309 2.2.1).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from amble.core.robots.lines import Kind, Line, read_lines
from amble.core.robots.match import Rule
from amble.core.robots.pattern import escape

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
