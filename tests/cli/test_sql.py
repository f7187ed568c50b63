"""SQL as a person types it: a command, a script, a pipe, a prompt; as a table, as JSON, as CSV."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import duckdb
import pytest

from amble.cli import main
from amble.cli.prompt import complete
from amble.cli.sql import is_complete
from amble.control import Desk
from amble.sql.calls import pieces_of
from amble.store.duckdb_store import DuckDBStore


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "x.duckdb")
    with duckdb.connect(path) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS n, '=1+1' AS title UNION ALL SELECT -2, chr(27) || '[2Jx'")
    return path


@pytest.mark.parametrize(
    ("script", "parts"),
    [
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT ';' ;\n-- only a comment;\n", ["SELECT 1", "SELECT ';'"]),
        ("SELECT $$;$$; /* ; */ SELECT \";\" FROM t", ["SELECT $$;$$", "/* ; */ SELECT \";\" FROM t"]),
        ("SELECT 'ä;'; CRAWL (SELECT 'a.test') INTO p;", ["SELECT 'ä;'", "CRAWL (SELECT 'a.test') INTO p"]),
        (" ;; ", []),
    ],
)  # fmt: skip
def test_a_script_is_taken_apart_at_semicolons_that_are_such(script: str, parts: list[str]) -> None:
    assert [piece.strip().removesuffix(";").rstrip() for piece in pieces_of(script)] == parts


@pytest.mark.parametrize(
    ("text", "complete"),
    [("SELECT 1", False), ("SELECT 1;", True), ("SELECT ';", False), ("SELECT 1; -- done", True), ("", True)],
)
def test_a_statement_is_typed_until_its_semicolon(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def test_a_command_gives_a_table_in_which_nothing_moves_the_cursor(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """E7."""
    assert main(["sql", file, "-c", "SELECT * FROM t ORDER BY n DESC; SELECT count(*) AS c FROM t"]) == 0
    assert capsys.readouterr().out == " n  title\n 1  =1+1\n-2  \\x1b[2Jx\nc\n2\n"


def test_csv_holds_no_formulas_and_json_everything(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """E6."""
    query = "SELECT n, title, [1, 2] AS l, 'a'::BLOB AS b, DATE '2026-01-02' AS d FROM t ORDER BY n DESC"
    assert main(["sql", file, "--csv", "-c", query]) == 0
    assert capsys.readouterr().out.splitlines()[1] == """1,'=1+1,"[1, 2]",61,2026-01-02"""
    assert main(["sql", file, "--json", "-c", query]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert rows[0] == {"n": 1, "title": "=1+1", "l": [1, 2], "b": "61", "d": "2026-01-02"}
    assert main(["sql", file, "--json", "-c", "SELECT 1 AS x WHERE false"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_a_script_or_a_pipe(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "x.sql"
    script.write_text("CREATE TABLE u (x INT);\nINSERT INTO u VALUES (5);\nSELECT x FROM u;\n")
    assert main(["sql", file, str(script), "--csv"]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == ["x", "5"]
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT x + 1 AS y FROM u"))
    assert main(["sql", file, "--csv"]) == 0
    assert capsys.readouterr().out == "y\n6\n"


@pytest.mark.parametrize("words", [["-c", "SELECT nope FROM t"], ["-c", "CRAWL nothing"], ["no such script"]])
def test_a_mistake_ends_with_1(file: str, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", file, *words]) == 1
    assert capsys.readouterr().err.startswith("amble: ")


def test_while_a_crawl_has_the_file_open_it_is_asked(tmp_path: Path) -> None:
    file = str(tmp_path / "x.duckdb")
    with DuckDBStore.open(file, sealed=True) as store, Desk(store):
        words = [sys.executable, "-m", "amble", "sql", file, "--csv", "-c"]
        ran = subprocess.run([*words, "SELECT 41 + 1 AS n"], capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout) == (0, "n\n42\n"), ran.stderr
        assert f"process {os.getpid()} crawls into" in ran.stderr
        ran = subprocess.run([*words, "CREATE TABLE x (i INT)"], capture_output=True, text=True, check=False)
        assert ran.returncode == 1
        assert "not allowed" in ran.stderr


def test_at_a_prompt_mistakes_are_told_and_the_history_is_kept(file: str, tmp_path: Path) -> None:
    here, there = pty.openpty()
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "dumb"}
    words = [sys.executable, "-m", "amble", "sql", file]
    out = b""
    typed = [b"SELECT n\n", b"FROM t WHERE n > 0;\n", b"SELECT nope;\n", b"SELECT 7 AS seven;\n"]
    with subprocess.Popen(words, stdin=there, stdout=there, stderr=subprocess.PIPE, env=environ) as process:
        os.close(there)
        try:
            for line in typed:
                while not out.endswith((b"amble> ", b"...> ")):
                    out += os.read(here, 1 << 16)
                os.write(here, line)
                out += os.read(here, 1)
            while not out.endswith((b"amble> ", b"...> ")):
                out += os.read(here, 1 << 16)
            os.write(here, b"\x04")
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    os.close(here)
    assert process.returncode == 0, said
    assert b"seven\r\n    7" in out
    assert b"nope" in said
    assert "SELECT 7 AS seven;" in (tmp_path / "state" / "amble" / "sql_history").read_text()


@pytest.mark.parametrize(
    ("typed", "offered"),
    [("sel", ["select"]), ("SEL", ["SELECT"]), ("pag", ["page_info", "pages"]), ("PAGES", ["pages"]), ("zz", [])],
)
def test_words_are_completed_in_the_case_in_which_they_were_begun(typed: str, offered: list[str]) -> None:
    assert complete(typed, ["SELECT", "page_info", "pages", "pages"]) == offered


def test_a_crawl_into_a_pipe_tells_what_to_check_where_nobody_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """https on an http port."""

    class Plain(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Plain) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        port, file = server.server_address[1], str(tmp_path / "y.duckdb")
        assert main(["sql", file, "-c", f"CRAWL (SELECT 'https://127.0.0.1:{port}/') INTO p"]) == 0
        server.shutdown()
    said = capsys.readouterr().err
    assert f"nobody answers at https://127.0.0.1:{port} (" in said
    assert said.count("http:// answers there") == 1
    with duckdb.connect(file) as connection:
        [(rows,)] = connection.execute("SELECT count(*) FROM p WHERE error_type IS NOT NULL").fetchall()
        why = connection.execute("SELECT why_sent FROM amble.requests WHERE starts_with(url, 'http://')").fetchall()
    assert (rows, why) == (1, [("nobody answered with the other scheme",)])
