"""Scripts become statements: ours are read, everything else stays as it was, and errors say where [E1, E2]."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.errors import StatementError
from amble.sql.parse import parse
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
    Verb,
)

OURS = {"http_timeout", "user_agent"}


def only(script: str) -> Any:
    statements = parse(script, OURS)
    assert len(statements) == 1
    return statements[0]


def options(script: str) -> dict[str, Any]:
    crawl = only(f"CRAWL (SELECT 1) INTO t WITH ({script})")
    assert isinstance(crawl, Crawl)
    return {option.name: option.value for option in crawl.options}


@pytest.mark.parametrize(
    "script",
    [
        "SELECT 1",
        "SELECT crawl FROM t",
        "SELECT * FROM crawl",
        "CREATE TABLE crawl (resume INT, stop INT)",
        "SELECT 'CRAWL (SELECT 1) INTO t'",
        "-- CRAWL (SELECT 1) INTO t;\nSELECT 1",
        "/* CRAWL /* nested */ ; */ SELECT 1",
        'SELECT 1 AS "; CRAWL (SELECT 1) INTO t"',
        "SELECT $x$; CRAWL (SELECT 1) INTO t;$x$",
        "SELECT E'it\\'s; CRAWL (SELECT 1) INTO t'",
        "INSERT INTO crawl (SELECT 1)",
        "SELECT * FROM t, crawl(SELECT 1)",
        "WITH crawl AS (SELECT 1) SELECT 1 FROM crawl",
        "EXPLAIN SELECT crawl FROM t",
        "EXPLAIN ANALYZE SELECT 1",
        "SET threads = 2; SET http_proxy_nothing = 1; RESET threads",
        "UPDATE t SET http_timeout = 5",
        "SELECT 'unterminated CRAWL (",
        "",
        " ; ;",
        "-- nothing",
        "'\ud800'",
    ],
)
def test_ordinary_sql_is_untouched(script: str) -> None:
    assert parse(script, OURS) == [Plain(script)]


@given(st.text(alphabet=st.sampled_from(list("ab1 '\";-/*$()\\\n.éE😀?"))))
def test_whatever_holds_none_of_our_words_stays_the_very_text(script: str) -> None:
    assert parse(script, OURS) == [Plain(script)]


@pytest.mark.parametrize(
    ("script", "statement"),
    [
        ("CRAWL (SELECT 'a') INTO pages", Crawl("SELECT 'a'", ("pages",))),
        ("crawl(select 'a')into pages;", Crawl("select 'a'", ("pages",))),
        ("CRAWL SITES (SELECT 'a') INTO s.pages LIMIT 5", Crawl("SELECT 'a'", ("s", "pages"), limit=5, sites=True)),
        ("EXPLAIN CRAWL (SELECT 'a') INTO d.s.t", Crawl("SELECT 'a'", ("d", "s", "t"), explain=True)),
        (
            '/* first */ CRAWL -- what\n ( (SELECT \')\' AS "(") ) INTO "a""b" . ünï -- end',
            Crawl("(SELECT ')' AS \"(\")", ('a"b', "ünï")),
        ),
        ("CRAWL (SELECT 'é', 'ü;') INTO t LIMIT 1_000", Crawl("SELECT 'é', 'ü;'", ("t",), limit=1000)),
        ("CRAWL (FROM seeds SELECT url) INTO order", Crawl("FROM seeds SELECT url", ("order",))),
        (
            "CRAWL (SELECT 'a') INTO t EXTRACT (CAST(x AS INT), f(a, b) AS \"two words\", title AS t) LIMIT 1",
            Crawl(
                "SELECT 'a'",
                ("t",),
                (Extract("CAST(x AS INT)", None), Extract("f(a, b)", "two words"), Extract("title", "t")),
                limit=1,
            ),
        ),
        (
            "CRAWL (SELECT 'a') INTO t WHERE year(x::TIMESTAMP WITH TIME ZONE) > 1 WITH (log_skipped false)",
            Crawl(
                "SELECT 'a'",
                ("t",),
                where_sql="year(x::TIMESTAMP WITH TIME ZONE) > 1",
                options=(Option("log_skipped", False, 76),),
            ),
        ),
        (
            "CRAWL (SELECT 'a') INTO t WHERE extract(year FROM x) > 1",
            Crawl("SELECT 'a'", ("t",), where_sql="extract(year FROM x) > 1"),
        ),
        ("CRAWL (SELECT ? , $x) INTO t LIMIT ?", Crawl("SELECT $1 , $x", ("t",), limit=Parameter("2"))),
        ("RESUME CRAWL 7", Control(Verb.RESUME, 7)),
        ("stop crawl $job", Control(Verb.STOP, Parameter("job"))),
        ("PAUSE CRAWL ?;", Control(Verb.PAUSE, Parameter("1"))),
        ("SET http_timeout = 60", SetSetting("http_timeout", 60)),
        ("set session HTTP_TIMEOUT to 1.5", SetSetting("http_timeout", 1.5)),
        ("RESET GLOBAL user_agent", ResetSetting("user_agent")),
        (
            "CRAWLING MERGE INTO t AS x USING (CRAWL (SELECT 'a') WITH (timeout 5) LIMIT 9) AS s ON (s.url = x.url) "
            "WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT BY NAME LIMIT 3",
            Merge(
                ("t",),
                Crawl("SELECT 'a'", options=(Option("timeout", 5, 59),), limit=9),
                "(s.url = x.url)",
                "WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT BY NAME",
                "s",
                "x",
                3,
            ),
        ),
        (
            "CRAWLING MERGE INTO a.t USING (SELECT * FROM crawl('x')) s ON s.url = t.url WHEN MATCHED THEN DELETE",
            Merge(("a", "t"), "SELECT * FROM crawl('x')", "s.url = t.url", "WHEN MATCHED THEN DELETE", "s"),
        ),
    ],
)
def test_each_statement_of_ours_is_read(script: str, statement: object) -> None:
    assert only(script) == statement


@pytest.mark.parametrize("space", ["\u00a0", "\ufeff", "\u2003", "\u200b", "\u3000"])
def test_spaces_of_unicode_are_spaces_as_they_are_to_duckdb(space: str) -> None:
    """Text copied from a web page, and the mark that some editors put in front of a file."""
    assert duckdb.execute(f"{space}SELECT{space}1").fetchall() == [(1,)]
    script = f"{space}CRAWL{space}(SELECT{space}'{space}é'){space}INTO{space}t{space};{space}SELECT{space}1"
    assert parse(script) == [Crawl(f"SELECT{space}'{space}é'", ("t",)), Plain(f"{space}SELECT{space}1")]
    with pytest.raises(StatementError, match="line 1, column 33: LIMIT"):
        parse(f"{space}é;{space}CRAWL{space}(FROM x) INTO t LIMIT{space}0")


def test_ordinary_statements_between_ours_keep_their_text_and_their_order() -> None:
    script = "CREATE TABLE é (a INT); SELECT ';';CRAWL (SELECT 'ü') INTO t; -- done\n SET http_timeout = 5;\nSELECT 2;"
    assert parse(script, OURS) == [
        Plain("CREATE TABLE é (a INT); SELECT ';';"),
        Crawl("SELECT 'ü'", ("t",)),
        SetSetting("http_timeout", 5),
        Plain("\nSELECT 2;"),
    ]


def test_a_comment_after_the_last_statement_is_no_statement() -> None:
    assert parse("CRAWL (SELECT 'a') INTO t; -- the end\n/* really */ ;") == [Crawl("SELECT 'a'", ("t",))]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a 1", 1),
        ("a = 1", 1),
        ("a=-1", -1),
        ("a +1.5", 1.5),
        ("a = 1e3", 1000.0),
        ("a = true", True),
        ("a FALSE", False),
        ("a NULL", None),
        ("a = gauge", "gauge"),
        ('a = "Quoted "" word"', 'Quoted " word'),
        ("a = 'it''s; '", "it's; "),
        (r"a = E'\'\x41\n\\''q'", "'A\n\\'q"),
        ("a = $$it's$$", "it's"),
        ("a = $t$ $$ $t$", " $$ "),
        ("a = ['text/*', \"b\"]", ("text/*", "b")),
        ("a = (1, [2])", (1, (2,))),
        ("a = []", ()),
        ("a = $1", Parameter("1")),
        ("a = $name", Parameter("name")),
        ("a = ?", Parameter("1")),
        ("a = [?, $x]", (Parameter("1"), Parameter("x"))),
    ],
)
def test_options_take_literals_words_lists_and_parameters(text: str, value: object) -> None:
    found = options(text)["a"]
    assert (found, type(found)) == (value, type(value))


@given(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"])))
def test_a_string_says_what_duckdb_reads_in_it(text: str) -> None:
    quoted = "'" + text.replace("'", "''") + "'"
    assert options(f"a = {quoted}") == {"a": text}
    name = '"' + (text.replace('"', '""') or "x") + '"'
    assert only(f"CRAWL (SELECT {quoted}) INTO {name}").target == (text or "x",)


@pytest.mark.parametrize("literal", [r"E'a\tb'", r"E'\x41\102\u00e9\q'", "'a''b'", "$q$ 'x' $q$", r"E'\\'", r"E'\'q'"])
def test_strings_are_read_as_duckdb_reads_them(literal: str) -> None:
    assert options(f"a = {literal}") == {"a": duckdb.execute(f"SELECT {literal}").fetchall()[0][0]}


@pytest.mark.parametrize(
    ("script", "place", "problem"),
    [
        ("CRAWL", (1, 6), "expected ( and a SELECT"),
        ("CRAWL pages", (1, 7), "expected ( and a SELECT, found pages"),
        ("CRAWL ()", (1, 9), "a SELECT between the parentheses"),
        ("CRAWL (SELECT 1", (1, 7), "( is never closed"),
        ("CRAWL (SELECT 'x) INTO t", (1, 15), "this quote is never closed"),
        ("CRAWL (SELECT [1) INTO t", (1, 17), "expected ], found )"),
        ("CRAWL (SELECT 1)) INTO t", (1, 17), "expected INTO and a table, found )"),
        ("SELECT 1;\n CRAWL (SELECT 'é')\n  LIMIT 5", (3, 3), "expected INTO and a table, found LIMIT"),
        ("CRAWL (SELECT 'é') INTO", (1, 24), "expected the name of a table"),
        ("CRAWL (SELECT 1) INTO 'pages'", (1, 23), "expected the name of a table, found 'pages'"),
        ("CRAWL (SELECT 1) INTO a.", (1, 25), "a name after the dot"),
        ("CRAWL (SELECT 1) INTO a.b.c.d", (1, 29), "at most three parts"),
        ('CRAWL (SELECT 1) INTO "t', (1, 23), "this quote is never closed"),
        ("CRAWL (SELECT 1) INTO t; DROP TABLE y", None, ""),
        (
            "CRAWL (SELECT 1) INTO t DROP TABLE y",
            (1, 25),
            "expected EXTRACT, WHERE, WITH, LIMIT or the end, found DROP",
        ),
        ("CRAWL (SELECT 1) INTO t WITH", (1, 29), "expected ( and options"),
        ("CRAWL (SELECT 1) INTO t WITH ()", (1, 31), "something"),
        ("CRAWL (SELECT 1) INTO t WITH (a)", (1, 32), "a value for a"),
        ("CRAWL (SELECT 1) INTO t WITH (a =)", (1, 34), "a value for a"),
        ("CRAWL (SELECT 1) INTO t WITH (a = 1 b = 2)", (1, 37), "a comma or ), found b"),
        ("CRAWL (SELECT 1) INTO t WITH (a = 1,, b = 2)", (1, 37), "something before the comma"),
        ("CRAWL (SELECT 1) INTO t WITH (a = 1 + 1)", (1, 37), "a comma or ), found +"),
        ("CRAWL (SELECT 1) INTO t WITH (a = f(1))", (1, 35), "a literal, not an expression"),
        ("CRAWL (SELECT 1) INTO t WITH (a = x'00')", (1, 35), "bits and blobs"),
        ("CRAWL (SELECT 1) INTO t WITH ('a' = 1)", (1, 31), "the name of an option"),
        ("CRAWL (SELECT 1) INTO t WITH (a = *)", (1, 35), "no value"),
        ("CRAWL (SELECT 1) INTO t LIMIT", (1, 30), "a number after LIMIT"),
        ("CRAWL (SELECT 1) INTO t LIMIT -1", (1, 31), "a whole number from 1 on"),
        ("CRAWL (SELECT 1) INTO t LIMIT 0", (1, 31), "a whole number from 1 on"),
        ("CRAWL (SELECT 1) INTO t LIMIT 1.5", (1, 31), "a whole number from 1 on"),
        ("CRAWL (SELECT 1) INTO t LIMIT true", (1, 31), "a whole number from 1 on"),
        ("CRAWL (SELECT 1) INTO t LIMIT 1 LIMIT 2", (1, 33), "LIMIT stands twice or too late"),
        ("CRAWL (SELECT 1) INTO t LIMIT 1 WITH (a = 1)", (1, 33), "WITH stands twice or too late"),
        ("CRAWL (SELECT 1) INTO t WHERE WITH (a = 1)", (1, 31), "a predicate after WHERE"),
        ("CRAWL (SELECT 1) INTO t WHERE x = ?", (1, 35), "no parameters here"),
        ("CRAWL (SELECT 1) INTO t EXTRACT title", (1, 33), "( and expressions"),
        ("CRAWL (SELECT 1) INTO t EXTRACT (a AS x, b AS X)", (1, 48), "two columns the name x"),
        ("EXPLAIN ANALYZE CRAWL (SELECT 1) INTO t", (1, 9), "explained, not analyzed"),
        ("EXPLAIN CRAWLING MERGE INTO t", (1, 9), "a merge is not explained"),
        ("WITH a AS (SELECT 1) CRAWL (SELECT 1) INTO t", (1, 22), "a statement of its own"),
        ("PREPARE p AS CRAWL (SELECT ?) INTO t", (1, 14), "a statement of its own"),
        ("SELECT 1; CREATE TABLE t AS CRAWL (SELECT 1)", (1, 29), "a statement of its own"),
        ("COPY (CRAWL (SELECT 1)) TO 'x'", (1, 7), "a statement of its own"),
        ("RESUME CRAWL", (1, 13), "a number after RESUME CRAWL"),
        ("STOP CRAWL pages", (1, 12), "a whole number from 1 on"),
        ("STOP CRAWL 1 2", (1, 14), "expected the end, found 2"),
        ("CRAWLING", (1, 9), "expected MERGE"),
        ("CRAWLING MERGE INTO t", (1, 22), "expected USING ( and a crawl"),
        ("CRAWLING MERGE INTO t USING (CRAWL (SELECT 1) INTO u) ON (1)", (1, 47), "has no INTO"),
        ("CRAWLING MERGE INTO t USING (CRAWL (SELECT 1)) AS s WHEN", (1, 53), "expected ON and a condition"),
        ("CRAWLING MERGE INTO t USING (CRAWL (SELECT 1)) AS s ON (1)", (1, 59), "expected WHEN ... THEN ..."),
        ("SET http_timeout 5", (1, 18), "expected = and a value, found 5"),
        ("SET http_timeout =", (1, 19), "a value for http_timeout"),
        ("SET http_timeout = 1 + 1", (1, 22), "expected the end, found +"),
        ("SET http_timeout = $1", (1, 1), "SET takes no parameters"),
        ("RESET http_timeout = 5", (1, 20), "expected the end, found ="),
    ],
)
def test_an_error_says_where_and_what_was_expected(script: str, place: tuple[int, int] | None, problem: str) -> None:
    if place is None:
        assert len(parse(script)) == 2  # two statements: nothing to complain about
        return
    with pytest.raises(StatementError) as refused:
        parse(script, OURS)
    where, line, caret, *_ = str(refused.value).splitlines()
    assert where.startswith(f"line {place[0]}, column {place[1]}: ")
    assert problem in where
    assert line[caret.index("^") :][:20] == script.splitlines()[place[0] - 1][place[1] - 1 :][:20]


def test_the_caret_stays_under_its_place_in_a_very_long_line() -> None:
    script = "CRAWL (SELECT '" + "x" * 5000 + "') INTO t LIMIT -1"
    with pytest.raises(StatementError) as refused:
        parse(script)
    _, line, caret, *_ = str(refused.value).splitlines()
    assert len(line) < 120
    assert line[caret.index("^") :] == "-1"


def test_an_error_shows_no_control_characters() -> None:
    with pytest.raises(StatementError) as refused:
        parse("CRAWL \x1b]0;x\x07 (SELECT 1) INTO t")
    assert "\x1b" not in str(refused.value).splitlines()[1]
