"""A script as DuckDB's own lexer cuts it: strings, comments, dollar quotes and quoted names are never misread."""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

import duckdb
from duckdb import token_type

from amble.errors import StatementError

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPED = re.compile(r"\\(?:x(?P<hex>[0-9a-fA-F]{1,2})|(?P<octal>[0-7]{1,3})|(?P<one>.))|''", re.DOTALL)
_DOLLAR = re.compile(r"\$[^$]*\$")
_UNPRINTED = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], "?")
_SPACES = dict.fromkeys([0xA0, *range(0x2000, 0x200E), 0x202F, 0x205F, 0x2060, 0x3000, 0xFEFF], " ")
_SHOWN_CHARS = 100  # of the line that an error points into


class Kind(Enum):
    WORD = "word"  # a name or a keyword; quoted or not
    NUMBER = "number"
    STRING = "string"
    SYMBOL = "symbol"
    COMMENT = "comment"


_KINDS = {
    token_type.identifier: Kind.WORD,
    token_type.keyword: Kind.WORD,
    token_type.numeric_const: Kind.NUMBER,
    token_type.string_const: Kind.STRING,
    token_type.operator: Kind.SYMBOL,
    token_type.comment: Kind.COMMENT,
}


class Token(NamedTuple):
    """One token; `at` and `end` count characters, not bytes."""

    kind: Kind
    text: str
    at: int

    @property
    def end(self) -> int:
        return self.at + len(self.text)

    @property
    def word(self) -> str | None:
        """In capitals, where it may be a keyword: quoted names never are."""
        return self.text.upper() if self.kind is Kind.WORD and not self.text.startswith('"') else None

    def is_symbol(self, text: str) -> bool:
        return self.kind is Kind.SYMBOL and self.text == text

    @property
    def is_dot(self) -> bool:
        return self.text == "." and self.kind in (Kind.NUMBER, Kind.SYMBOL)  # the lexer takes it for a number


def tokens_of(script: str) -> list[Token]:
    """Every token of a script. DuckDB counts in bytes of UTF-8.

    Its parser takes the spaces of Unicode for spaces, as they come with text from web pages, and its lexer does not.
    """
    spaced = script.translate(_SPACES)
    data = spaced.encode()
    found = duckdb.tokenize(spaced)
    ends = [*(start for start, _ in found[1:]), len(data)] if found else []
    tokens: list[Token] = []
    at = len(data[: found[0][0]].decode()) if found else 0
    for (start, kind), end in zip(found, ends, strict=True):
        text = data[start:end].decode()
        own = script[at : at + len(text.rstrip())]
        tokens.append(Token(Kind.SYMBOL if own == "." else _KINDS[kind], own, at))
        at += len(text)
    return tokens


def name_of(token: Token) -> str:
    """The identifier that a word spells."""
    if not token.text.startswith('"'):
        return token.text
    return token.text[1:-1].replace('""', '"')


def is_closed(token: Token) -> bool:
    """Whether a quoted name or a string ends where it should; the lexer takes an open one to the end of the script."""
    text = token.text
    if token.kind is Kind.WORD and text.startswith('"'):
        return len(text) > 1 and text.endswith('"') and text[1:-1].count('"') % 2 == 0
    if token.kind is not Kind.STRING:
        return True
    if text.startswith("$"):
        tag = _DOLLAR.match(text)
        return tag is not None and len(text) >= 2 * len(tag[0]) and text.endswith(tag[0])
    body = text[text.find("'") + 1 :]
    if text[:1] in "eE":
        body = _ESCAPED.sub("", body)
        return body.endswith("'") and body.count("'") == 1
    return body.endswith("'") and body[:-1].count("'") % 2 == 0


def text_of(token: Token) -> str | None:
    """What a string says; None for bits and blobs, which are no text."""
    text = token.text
    if text.startswith("$"):
        tag = _DOLLAR.match(text)
        assert tag is not None
        return text[len(tag[0]) : -len(tag[0])]
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    if text[0] in "eE":
        return _ESCAPED.sub(_unescape, text[2:-1])
    return None


def _unescape(found: re.Match[str]) -> str:
    if found[0] == "''":
        return "'"
    for group, base in (("hex", 16), ("octal", 8)):
        if found[group] is not None:
            return chr(int(found[group], base))
    return _ESCAPES.get(found["one"], found["one"])


def fault(script: str, at: int, problem: str, *, hint: str | None = None) -> StatementError:
    """An error that says where: line, column, and a caret under the place."""
    before = script[:at]
    line_no, begin = before.count("\n") + 1, before.rfind("\n") + 1
    end = script.find("\n", at)
    line, column = script[begin : end if end >= 0 else None], at - begin
    first = max(0, column - _SHOWN_CHARS // 2)
    shown = line[first : first + _SHOWN_CHARS].translate(_UNPRINTED)
    dots = "..." if first else ""
    caret = " " * (len(dots) + column - first) + "^"
    return StatementError(f"line {line_no}, column {column + 1}: {problem}\n  {dots}{shown}\n  {caret}", hint=hint)
