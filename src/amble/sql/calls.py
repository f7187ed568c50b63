"""Where a query calls a table function of ours, with what arguments, and how many rows it can use at most.

Found by DuckDB's lexer: a name in a string, in a comment, in quotes or in a select list is no call.
"""

from __future__ import annotations

from dataclasses import dataclass

from amble.errors import StatementError
from amble.sql.limits import Taken, taken
from amble.sql.reader import Reader
from amble.sql.statements import Option
from amble.sql.tokens import Kind, Token, fault, tokens_of

NAMES = ("crawl", "sitemap", "read_html", "links")
# Tables of the schema amble that are there also before the first crawl; a running job knows some better than the disk.
LIVE = ("frontier", "domains", "jobs", "requests", "settings", "changes", "history")
_SETTINGS = "duckdb_settings"

_CLAUSES = frozenset(
    {"SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "QUALIFY", "WINDOW", "ON", "USING",
     "VALUES", "SET", "RETURNING", "JOIN", "WHEN", "THEN"}
)  # fmt: skip
_OPENS, _CLOSES = frozenset("([{"), frozenset(")]}")
# What may stand behind a table without being its alias.
_GOES_ON = _CLAUSES | frozenset(
    {"ANTI", "ASOF", "CROSS", "EXCEPT", "FULL", "INNER", "INTERSECT", "LEFT", "NATURAL", "OUTER", "PIVOT", "POSITIONAL",
     "RIGHT", "SAMPLE", "SEMI", "TABLESAMPLE", "UNION", "UNPIVOT", "FETCH"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Call:
    """`name(argument, ..., option := value, ...)` in a FROM."""

    name: str
    arguments: tuple[str, ...]  # as written
    options: tuple[Option, ...]
    at: int  # from here ...
    end: int  # ... to here in the query
    has_alias: bool
    taken: Taken | None = None  # the query uses no more of it


@dataclass(frozen=True, slots=True)
class LiveTable:
    """`amble.frontier` or one of the others in a FROM; also `duckdb_settings()`."""

    name: str
    at: int
    end: int
    has_alias: bool


def pieces_of(script: str) -> list[str]:
    """A script of ordinary SQL, statement by statement; those that are only comments are left out."""
    pieces, begin, has_words = [], 0, False
    for token in tokens_of(script):
        if not token.is_symbol(";"):
            has_words = has_words or token.kind is not Kind.COMMENT
            continue
        if has_words:  # what `;;` holds is no statement: the answer is that of the one before
            pieces.append(script[begin : token.end])
        begin, has_words = token.end, False
    if has_words:
        pieces.append(script[begin:])
    return pieces


def find(query: str) -> list[Call | LiveTable]:
    """The calls and live tables of one statement, in their order."""
    tokens = [token for token in tokens_of(query) if token.kind is not Kind.COMMENT]
    found: list[Call | LiveTable] = []
    clauses = _clauses(tokens)
    for i, token in enumerate(tokens):
        if token.word is None or not _in_from(tokens, clauses, i):
            continue
        name = token.text.lower()
        if name in NAMES and i + 1 < len(tokens) and tokens[i + 1].is_symbol("("):
            found.append(_call(query, tokens, i, name))
        elif name == "amble" and (live := _live(tokens, i)) is not None:
            found.append(live)
        elif name == _SETTINGS and (end := _empty_call(tokens, i + 1)) > i + 1:
            found.append(LiveTable(name, token.at, tokens[end - 1].end, _has_alias(tokens, end)))
    return _runnable(query, tokens, found) if found else found


def _runnable(query: str, tokens: list[Token], found: list[Call | LiveTable]) -> list[Call | LiveTable]:
    """A statement that runs nothing fetches nothing, and a view over a live table stays what it says."""
    kind = _kind(tokens)
    if kind is None:
        return found
    calls = [each for each in found if isinstance(each, Call)]
    # links() only looks into a table. To a macro or a prepared statement that table may be a parameter.
    refused = next((call for call in calls if call.name != "links" or kind not in ("EXPLAIN", "CREATE VIEW")), None)
    if refused is not None:
        raise fault(
            query, refused.at, f"{kind} runs nothing, and {refused.name}() would",
            hint="EXPLAIN CRAWL tells what a crawl would do; CREATE TABLE ... AS keeps what it gives",
        )  # fmt: skip
    return list(calls)


def _kind(tokens: list[Token]) -> str | None:
    """What a statement is that runs nothing now."""
    words = [token.word for token in tokens[:6]]
    if words[0] in ("EXPLAIN", "PREPARE"):
        return words[0]
    made = next((word for word in words if word in ("VIEW", "MACRO", "FUNCTION")), None)
    return f"CREATE {made}" if words[0] == "CREATE" and made is not None else None


def _clauses(tokens: list[Token]) -> list[str | None]:
    """For each token, the clause that it stands in between its own parentheses."""
    found: list[str | None] = []
    open_clauses: list[str | None] = [None]
    for token in tokens:
        found.append(open_clauses[-1])
        if token.kind is Kind.SYMBOL and token.text in _OPENS:
            open_clauses.append(None)
        elif token.kind is Kind.SYMBOL and token.text in _CLOSES:
            open_clauses[-2:] = open_clauses[-2:-1] or [None]  # one that closes nothing is for DuckDB to refuse
        elif token.word in _CLAUSES:
            open_clauses[-1] = token.word
    return found


def _in_from(tokens: list[Token], clauses: list[str | None], i: int) -> bool:
    """Whether a table is expected here: behind FROM or JOIN, or behind a comma between tables."""
    if i == 0:
        return False
    before = tokens[i - 1]
    if before.word in ("FROM", "JOIN"):
        return i < 2 or tokens[i - 2].word != "DELETE"
    if before.word == "USING":  # elsewhere columns or an expression follow it
        return tokens[0].word in ("DELETE", "MERGE", "WITH")
    if before.word == "LATERAL":
        return i > 1 and (tokens[i - 2].word in ("FROM", "JOIN") or tokens[i - 2].is_symbol(","))
    return before.is_symbol(",") and clauses[i - 1] in ("FROM", "JOIN")


def _call(query: str, tokens: list[Token], i: int, name: str) -> Call:
    reader = Reader(query, tokens[i + 1 :])
    before = reader.size
    is_empty = reader.sees_symbol(")", 1)
    items = [] if is_empty else reader.group_items()
    if is_empty:
        reader.group()
    end = i + 1 + before - reader.size
    arguments: list[str] = []
    options: list[Option] = []
    for item in items:
        option = _option(item)
        if option is not None:
            options.append(option)
        elif options:
            raise item.fault(
                "a value without a name behind one with a name", hint=f"{name}('https://...', option := value)"
            )
        else:
            arguments.append(item.rest_sql(parameters=True))
    last = tokens[end - 1]
    return Call(
        name, tuple(arguments), tuple(options), tokens[i].at, last.end, _has_alias(tokens, end),
        taken(tokens, i, end, _alias_width(tokens, end)),
    )  # fmt: skip


def _option(item: Reader) -> Option | None:
    """`name := value`, also with `=>` or `=`."""
    width = _sign_width(item) if item.size > 1 and item.at(0).kind is Kind.WORD else 0
    if not width:
        return None
    at, name = item.at(0).at, item.name_at(0).lower()
    rest = item.part(1 + width, item.size)
    if rest.at_end():
        raise rest.expected(f"a value for {name}")
    value = rest.value()
    if not rest.at_end():
        raise item.fault(
            f"the value of {name} is a literal or a parameter", hint=f"write {name} := 10, or a string in single quotes"
        )
    return Option(name, value, at)


def _sign_width(item: Reader) -> int:
    """How many tokens the sign behind a name takes: the lexer may cut `:=` and `=>` in two. None: 0."""
    sign, after = item.at(1).text, item.at(2).text if item.size > 2 else ""
    if sign in (":=", "=>"):
        return 1
    if sign + after in (":=", "=>"):
        return 2
    return int(sign == "=")


def _has_alias(tokens: list[Token], after: int) -> bool:
    if after >= len(tokens) or tokens[after].kind is not Kind.WORD:
        return False
    return tokens[after].word is None or tokens[after].word not in _GOES_ON


def _alias_width(tokens: list[Token], after: int) -> int:
    """How many tokens `AS name` takes."""
    return 0 if not _has_alias(tokens, after) else 2 if tokens[after].word == "AS" else 1


def _live(tokens: list[Token], i: int) -> LiveTable | None:
    if i + 2 >= len(tokens) or not tokens[i + 1].is_dot:
        return None
    name = tokens[i + 2].text.strip('"').lower()
    end = _empty_call(tokens, i + 3) if name == "settings" else i + 3
    if name not in LIVE or (end < len(tokens) and (tokens[end].is_dot or tokens[end].is_symbol("("))):
        return None
    return LiveTable(name, tokens[i].at, tokens[end - 1].end, _has_alias(tokens, end))


def _empty_call(tokens: list[Token], i: int) -> int:
    """Where `()` ends, if it stands here."""
    opens = i + 1 < len(tokens) and tokens[i].is_symbol("(") and tokens[i + 1].is_symbol(")")
    return i + 2 if opens else i


def refuse_arguments(call: Call, least: int, most: int, shape: str) -> None:
    """So many arguments and no others."""
    if not least <= len(call.arguments) <= most:
        raise StatementError(f"{call.name} takes other arguments", hint=shape)


def is_table_name(argument: str) -> bool:
    """Whether an argument names a table outright: `pages`, `main.pages`, `"my pages"`."""
    tokens = tokens_of(argument)
    words, dots = tokens[::2], tokens[1::2]
    return all(word.kind is Kind.WORD for word in words) and all(dot.is_dot for dot in dots)
