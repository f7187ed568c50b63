"""From a script to its statements. What is not ours stays the text it was, for DuckDB to judge."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from amble.sql.reader import Reader
from amble.sql.statements import (
    Control,
    Crawl,
    Extract,
    Merge,
    Option,
    Parameter,
    Plain,
    ResetSetting,
    SetSetting,
    Statement,
    TablePath,
    Verb,
)
from amble.sql.tokens import Kind, Token, fault, tokens_of

_CLAUSES = ("EXTRACT", "WHERE", "WITH", "LIMIT")
_SCOPES = ("GLOBAL", "SESSION", "LOCAL")
_SHAPE = "CRAWL (SELECT 'https://example.com/') INTO pages"
_FROM = "crawl() may stand in a FROM: FROM crawl('https://example.com/')"
# Statements that people may expect to hold a CRAWL, and what they can write.
_LEADS = {
    "WITH": "put the WITH into the parentheses: CRAWL (WITH ... SELECT ...) INTO pages",
    "PREPARE": "give parameters to execute(sql, parameters)",
    "CREATE": _FROM,
    "INSERT": _FROM,
    "COPY": _FROM,
    "SELECT": _FROM,
}


def parse(script: str, settings: Collection[str] = ()) -> list[Statement]:
    """The statements of a script in their order, ordinary ones that stand together as one.

    `settings` are the names that `SET` and `RESET` hand to us.
    """
    try:
        tokens = tokens_of(script)
    except UnicodeEncodeError:  # half a character: DuckDB will say so
        return [Plain(script)]
    statements: list[Statement] = []
    begin, plain = 0, False  # where the ordinary SQL before this statement begins, and whether there is any
    for ours, first, end in _parts(script, tokens, settings):
        if ours is None:
            plain = True
            continue
        if plain:
            statements.append(Plain(script[begin:first]))
        statements.append(ours)
        begin, plain = end, False
    if plain or not statements:
        statements.append(Plain(script[begin:]))
    return statements


def _parts(script: str, tokens: list[Token], settings: Collection[str]) -> Iterator[tuple[Statement | None, int, int]]:
    """Each statement: what it is to us, where it begins and ends."""
    part: list[Token] = []
    for token in tokens:
        if token.kind is Kind.COMMENT:
            continue
        if not token.is_symbol(";"):
            part.append(token)
        elif part:
            yield _statement(Reader(script, part), settings), part[0].at, token.end
            part = []
    if part:
        yield _statement(Reader(script, part), settings), part[0].at, len(script)


def _statement(read: Reader, settings: Collection[str]) -> Statement | None:
    """The statement, where it is one of ours: no statement of SQL begins with these words."""
    first, second = read.word(0), read.word(1)
    if first == "CRAWL" or (first == "EXPLAIN" and second == "CRAWL"):
        return _crawl(read)
    if first == "EXPLAIN" and second == "ANALYZE" and read.word(2) == "CRAWL":
        raise read.fault("a crawl can be explained, not analyzed", read.at(1), hint="EXPLAIN CRAWL ...")
    if first == "EXPLAIN" and second == "CRAWLING":
        raise read.fault("a merge is not explained", read.at(1), hint="EXPLAIN CRAWL tells what its crawl would do")
    if first in _LEADS and (place := _crawl_inside(read)) is not None:
        raise read.fault("CRAWL is a statement of its own", place, hint=_LEADS[first])
    if first == "CRAWLING":
        return _merge(read)
    if first in Verb.__members__ and second == "CRAWL":
        return _control(read)
    if first in ("SET", "RESET"):
        return _setting(read, settings)
    return None


def _crawl_inside(read: Reader) -> Token | None:
    """`CRAWL (SELECT` where SQL expects a query: behind AS or a parenthesis. `INSERT INTO crawl (SELECT ...` is SQL."""
    for n in range(1, read.size - 2):
        is_crawl = read.word(n) == "CRAWL" and read.sees_symbol("(", n + 1) and read.word(n + 2) in ("SELECT", "WITH")
        before = read.at(n - 1)
        if is_crawl and (before.word == "AS" or before.is_symbol("(") or before.is_symbol(")")):
            return read.at(n)
    return None


# --- CRAWL ---------------------------------------------------------------------------------------------------------


def _crawl(read: Reader, *, inside_merge: bool = False) -> Crawl:
    explain = read.take_word("EXPLAIN")
    read.expect_word("CRAWL")
    sites = read.take_word("SITES")
    if not read.sees_symbol("("):
        raise read.expected("( and a SELECT", hint=_SHAPE)
    select = read.group_sql(parameters=True)
    if not select:
        raise read.expected("a SELECT between the parentheses", hint=_SHAPE)
    target: TablePath = ()
    if inside_merge:
        if read.sees_word("INTO"):
            raise read.fault("the crawl of a MERGE has no INTO", hint="CRAWLING MERGE INTO names the table")
    else:
        target = _into(read)
    extract = _extract(read) if read.sees_word("EXTRACT") else ()
    where_sql = _where(read) if read.take_word("WHERE") else None
    options = _options(read) if read.take_word("WITH") else ()
    limit = _whole(read, "LIMIT") if read.take_word("LIMIT") else None
    if not read.at_end():
        raise _misplaced(read)
    return Crawl(select, target, extract, where_sql, options, limit, sites, explain)


def _into(read: Reader) -> TablePath:
    if not read.take_word("INTO"):
        raise read.expected("INTO and a table", hint=_SHAPE)
    return _table(read)


def _table(read: Reader) -> TablePath:
    parts: list[str] = []
    while True:
        # Reserved words are taken as names, except those that go on with the statement.
        if read.at_end() or read.word(0) in _CLAUSES or read.at(0).kind is not Kind.WORD:
            raise read.expected(
                "the name of a table" if not parts else "a name after the dot",
                hint='put a name with odd characters in double quotes: INTO "my pages"',
            )
        parts.append(read.name())
        if not read.take_dot():
            break
    if len(parts) > 3:
        raise read.fault("a table has at most three parts", read.at(-1), hint="write database.schema.table")
    return tuple(parts)


def _extract(read: Reader) -> tuple[Extract, ...]:
    read.expect_word("EXTRACT")
    if not read.sees_symbol("("):
        raise read.expected("( and expressions", hint="EXTRACT (css_select(body, 'h1') AS heading)")
    columns: list[Extract] = []
    for item in read.group_items():
        name = None
        if item.size >= 3 and item.word(item.size - 2) == "AS" and item.at(item.size - 1).kind is Kind.WORD:
            name = item.name_at(item.size - 1)
            item = item.part(0, item.size - 2)
        columns.append(Extract(item.rest_sql(parameters=False), name))
    names = [column.name.casefold() for column in columns if column.name is not None]
    double = next((name for name in names if names.count(name) > 1), None)
    if double is not None:
        raise read.fault(f"EXTRACT gives two columns the name {double}", read.at(-1), hint="rename one of them")
    return tuple(columns)


def _where(read: Reader) -> str:
    """Up to WITH ( or LIMIT: `TIMESTAMP WITH TIME ZONE` belongs to the predicate."""
    sql = read.sql_until(lambda: read.word(0) == "LIMIT" or (read.word(0) == "WITH" and read.sees_symbol("(", 1)))
    if not sql:
        raise read.expected("a predicate after WHERE", hint="WHERE path LIKE '/news/%'")
    return sql


def _options(read: Reader) -> tuple[Option, ...]:
    if not read.sees_symbol("("):
        raise read.expected("( and options", hint="WITH (max_crawl_pages = 100)")
    options: list[Option] = []
    for item in read.group_items():
        at = item.at(0)
        if at.kind is not Kind.WORD:
            raise item.expected("the name of an option", hint="WITH (max_crawl_pages = 100)")
        name = item.name().lower()
        item.take_symbol("=")
        if item.at_end():
            raise item.expected(f"a value for {name}", hint=f"write {name} = value")
        options.append(Option(name, item.value(), at.at))
        if not item.at_end():
            raise item.expected("a comma or )", hint=f"one value for {name}; strings stand in single quotes")
    return tuple(options)


def _whole(read: Reader, what: str) -> int | Parameter:
    """A whole number, or a parameter in its place."""
    if read.at_end():
        raise read.expected(f"a number after {what}")
    at = read.at(0)
    value = read.value()
    if isinstance(value, Parameter):
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise read.fault(f"{what} takes a whole number from 1 on", at, hint=f"{what} 10")
    return value


def _misplaced(read: Reader) -> Exception:
    word = read.word(0)
    if word in ("INTO", *_CLAUSES):
        return read.fault(f"{word} stands twice or too late", hint=f"the order is INTO, {', '.join(_CLAUSES)}")
    return read.expected("EXTRACT, WHERE, WITH, LIMIT or the end")


# --- the others ----------------------------------------------------------------------------------------------------


def _merge(read: Reader) -> Merge:
    read.expect_word("CRAWLING")
    read.expect_word("MERGE")
    target_ = (_into(read), _alias(read))
    if not read.take_word("USING") or not read.sees_symbol("("):
        raise read.expected("USING ( and a crawl", hint="USING (CRAWL (SELECT ...)) AS s ON (...)")
    inner = read.group()
    source: Crawl | str = (
        _crawl(inner, inside_merge=True) if inner.sees_word("CRAWL") else inner.rest_sql(parameters=False)
    )
    alias = _alias(read)
    if not read.take_word("ON"):
        raise read.expected("ON and a condition", hint="ON (s.url = pages.url)")
    on_sql = read.sql_until(lambda: read.word(0) == "WHEN")
    if not on_sql:
        raise read.expected("a condition after ON", hint="ON (s.url = pages.url)")
    clauses_sql = read.sql_until(lambda: read.word(0) == "LIMIT")
    if not clauses_sql:
        raise read.expected("WHEN ... THEN ...", hint="WHEN NOT MATCHED THEN INSERT BY NAME")
    limit = _whole(read, "LIMIT") if read.take_word("LIMIT") else None
    if not read.at_end():
        raise read.expected("the end")
    return Merge(target_[0], source, on_sql, clauses_sql, alias, target_[1], limit)


def _alias(read: Reader) -> str | None:
    if read.take_word("AS"):
        if read.at_end() or read.at(0).kind is not Kind.WORD:
            raise read.expected("a name after AS")
        return read.name()
    if not read.at_end() and read.at(0).kind is Kind.WORD and read.word(0) not in ("USING", "ON"):
        return read.name()
    return None


def _control(read: Reader) -> Control:
    verb = Verb[read.name().upper()]
    read.expect_word("CRAWL")
    job = _whole(read, f"{verb} CRAWL")
    options = _options(read) if verb is Verb.RESUME and read.take_word("WITH") else ()
    if not read.at_end():
        raise read.expected("the end")
    return Control(verb, job, options)


def _setting(read: Reader, settings: Collection[str]) -> SetSetting | ResetSetting | None:
    """`SET` and `RESET` of names that are ours; any other is DuckDB's."""
    begin = 2 if read.word(1) in _SCOPES else 1
    if read.size <= begin or read.at(begin).kind is not Kind.WORD:
        return None
    name = read.name_at(begin).lower()
    if name not in settings:
        return None
    rest = read.part(begin + 1, read.size)
    if read.word(0) == "RESET":
        if not rest.at_end():
            raise rest.expected("the end")
        return ResetSetting(name)
    if not rest.take_symbol("=") and not rest.take_word("TO"):
        raise rest.expected("= and a value", hint=f"SET {name} = value")
    if rest.at_end():
        raise rest.expected(f"a value for {name}", hint=f"SET {name} = value")
    value = rest.value()
    if not rest.at_end():
        raise rest.expected("the end", hint="one value; strings stand in single quotes")
    if isinstance(value, Parameter):
        raise fault(read.script, read.at(0).at, "SET takes no parameters", hint="write the value, or use WITH (...)")
    return SetSetting(name, value)
