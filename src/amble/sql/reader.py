"""A walk over the tokens of one statement: what stands here, what was expected instead, and the SQL in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from amble.errors import StatementError
from amble.sql.statements import Parameter, Value
from amble.sql.tokens import Kind, Token, fault, is_closed, name_of, text_of

_OPENS = {"(": ")", "[": "]", "{": "}"}
_CLOSES = frozenset(_OPENS.values())
_WORD_VALUES: dict[str, Value] = {"TRUE": True, "FALSE": False, "NULL": None}


class Reader:
    """One statement, or a part of one between parentheses. Comments are gone."""

    def __init__(
        self, script: str, tokens: list[Token], end: int | None = None, counter: Iterator[int] | None = None
    ) -> None:
        self.script = script
        self._tokens = tokens
        self._i = 0
        self._end = end if end is not None else tokens[-1].end  # where an error points that misses something
        self._questions = counter if counter is not None else iter(range(1, 1_000_000))

    # -- looking

    @property
    def size(self) -> int:
        """Tokens left."""
        return len(self._tokens) - self._i

    def at_end(self) -> bool:
        return self.size <= 0

    def at(self, n: int) -> Token:
        return self._tokens[self._i + n]

    def word(self, n: int) -> str | None:
        return self._tokens[self._i + n].word if 0 <= n < self.size else None

    def sees_word(self, word: str) -> bool:
        return self.word(0) == word

    def sees_symbol(self, symbol: str, n: int = 0) -> bool:
        return n < self.size and self.at(n).is_symbol(symbol)

    # -- taking

    def take_word(self, word: str) -> bool:
        found = self.sees_word(word)
        self._i += found
        return found

    def take_symbol(self, symbol: str) -> bool:
        found = self.sees_symbol(symbol)
        self._i += found
        return found

    def take_dot(self) -> bool:
        found = not self.at_end() and self.at(0).is_dot
        self._i += found
        return found

    def expect_word(self, word: str) -> None:
        if not self.take_word(word):
            raise self.expected(word)

    def name(self) -> str:
        self._i += 1
        return self.name_at(-1)

    def name_at(self, n: int) -> str:
        token = self._closed(self.at(n))
        return name_of(token)

    # -- values

    def value(self) -> Value:
        """A literal, a bare word, a list or a parameter."""
        token = self._closed(self.at(0))
        if token.text in ("[", "(") and token.kind is Kind.SYMBOL:
            is_empty = self.size > 1 and self.at(1).text in _CLOSES
            return tuple(self._list_item(item) for item in self.group_items()) if not is_empty else self._empty()
        self._i += 1
        if token.is_symbol("?"):
            return Parameter(str(next(self._questions)))
        if token.is_symbol("$") and not self.at_end():
            self._i += 1
            return Parameter(self.at(-1).text)
        if token.kind is Kind.STRING:
            text = text_of(token)
            if text is None:
                raise self.fault("bits and blobs are no values here", token, hint="write a string: 'text'")
            return text
        if token.kind is Kind.WORD:
            return self._word(token)
        return self._number(token)

    def _word(self, token: Token) -> Value:
        """A bare word is a string, as in `pacing = gauge`; a word that calls or leads somewhere is an expression."""
        if self.sees_symbol("(") or (not self.at_end() and self.at(0).is_dot):
            raise self.fault("a value is a literal, not an expression", token, hint="strings stand in single quotes")
        word = token.word
        return _WORD_VALUES.get(word, token.text) if word is not None else name_of(token)

    def _number(self, token: Token) -> int | float:
        sign = 1
        if token.text in ("-", "+") and not self.at_end():
            sign = -1 if token.text == "-" else 1
            token = self.at(0)
            self._i += 1
        text = token.text.replace("_", "")
        if token.kind is Kind.NUMBER:
            try:
                return sign * int(text)
            except ValueError:
                try:
                    return sign * float(text)
                except ValueError:
                    pass
        raise self.fault(f"{token.text!r} is no value", token, hint="a number, a string in single quotes, true, false")

    def _empty(self) -> tuple[Value, ...]:
        self.group()
        return ()

    def _list_item(self, item: Reader) -> Value:
        value = item.value()
        if not item.at_end():
            raise item.expected("a comma or the end of the list")
        return value

    # -- parts

    def group(self) -> Reader:
        """What stands between the parentheses (or brackets) that open here."""
        opened = self.at(0)
        depth: list[str] = []
        for n in range(self.size):
            token = self._closed(self.at(n))
            if token.kind is not Kind.SYMBOL:
                continue
            if token.text in _OPENS:
                depth.append(_OPENS[token.text])
            elif token.text in _CLOSES:
                if token.text != depth[-1]:
                    raise self.fault(f"expected {depth[-1]}, found {token.text}", token)
                depth.pop()
                if not depth:
                    inner = Reader(self.script, self._tokens[self._i + 1 : self._i + n], token.at, self._questions)
                    self._i += n + 1
                    return inner
        raise self.fault(f"{opened.text} is never closed", opened, hint=f"a {depth[0]} is missing")

    def group_items(self) -> list[Reader]:
        """The same, cut at its commas."""
        inner = self.group()
        items: list[Reader] = []
        commas = [-1, *inner._commas(), inner.size]
        for before, comma in pairwise(commas):
            item = inner.part(before + 1, comma)
            if item.at_end():
                raise item.expected("something before the comma" if comma < inner.size else "something here")
            items.append(item)
        return items

    def _commas(self) -> list[int]:
        depth, found = 0, []
        for n in range(self.size):
            token = self.at(n)
            if token.kind is Kind.SYMBOL:
                depth += (token.text in _OPENS) - (token.text in _CLOSES)
                if token.text == "," and depth == 0:
                    found.append(n)
        return found

    def part(self, begin: int, end: int) -> Reader:
        """Some of the tokens ahead."""
        tokens = self._tokens[self._i + begin : self._i + end]
        after = self._i + end
        return Reader(self.script, tokens, self._tokens[after].at if after < len(self._tokens) else self._end,
                      self._questions)  # fmt: skip

    def group_sql(self, *, parameters: bool) -> str:
        return self.group().rest_sql(parameters=parameters)

    def rest_sql(self, *, parameters: bool) -> str:
        """Everything that is left, as it is written; every `?` gets the number that it stands for."""
        return self.sql_until(lambda: False, parameters=parameters)

    def sql_until(self, is_end: Callable[[], bool], *, parameters: bool = False) -> str:
        """As written, up to where `is_end` holds outside of parentheses."""
        depth, pieces, begin = 0, [], None
        while not self.at_end() and (depth or not is_end()):
            token = self._closed(self.at(0))
            begin = token.at if begin is None else begin
            if token.kind is Kind.SYMBOL:
                depth += (token.text in _OPENS) - (token.text in _CLOSES)
                if depth < 0:
                    raise self.fault(f"{token.text} closes nothing", token)
                if token.text in ("?", "$") and not parameters:
                    raise self.fault("no parameters here", token, hint="in the SELECT, in options and in LIMIT")
                if token.text == "?":
                    pieces += [self.script[begin : token.at], f"${next(self._questions)}"]
                    begin = token.end
            self._i += 1
        if begin is not None:
            pieces.append(self.script[begin : self.at(-1).end])
        return "".join(pieces)

    # -- faults

    def expected(self, what: str, *, hint: str | None = None) -> StatementError:
        if self.at_end():
            return fault(self.script, self._end, f"expected {what}", hint=hint)
        token = self.at(0)
        found = token.text if len(token.text) <= 40 else f"{token.text[:37]}..."
        return self.fault(f"expected {what}, found {found}", token, hint=hint)

    def fault(self, problem: str, token: Token | None = None, *, hint: str | None = None) -> StatementError:
        return fault(self.script, (token or self.at(0)).at, problem, hint=hint)

    def _closed(self, token: Token) -> Token:
        if not is_closed(token):
            raise self.fault("this quote is never closed", token)
        return token
