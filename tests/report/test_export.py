"""Pages leave the file: what stands in each format, judged by other readers, and what happens to files in the way."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from amble.errors import AmbleError, QueryRefused, StoreError
from amble.report.export import export
from amble.report.tabular import write_csv
from amble.settings import Settings
from amble.store.duckdb_store import DuckDBStore
from amble.store.seam import Batch, PageRow

NOON = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
LATIN = "<p>Grüße, \u202eevil\x1b[2J</p>\n"
PAGES = [
    PageRow("https://a.test/", http_status=200, body=LATIN, content_type="text/html; charset=iso-8859-1",
            crawl_time=NOON, final_url="https://a.test/", domain="a.test", title="=1+1", etag='"x"', elapsed_ms=12.5),
    PageRow("https://a.test/gone", http_status=404, crawl_time=NOON, error_type="http_client_error",
            error="Not\r\nWARC-Type: response", domain="a.test", title='say "hi", all', depth=1,
            parent_url="https://a.test/"),
    PageRow("https://a.test/empty", http_status=200, body="", content_type="nonsense", crawl_time=NOON),
]  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    with DuckDBStore.open(tmp_path / "x.duckdb") as opened:
        job = opened.create_job("pages", Settings().given(), [], NOON)
        opened.submit(Batch(pages=[page._replace(job_id=job.id) for page in PAGES]), urgent=True).result()
        yield opened


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# -- formats


def test_parquet_holds_the_table_as_it_is(store: DuckDBStore, tmp_path: Path) -> None:
    """[E6] Formulas are a matter of CSV: here nothing is touched."""
    done = export(store.database.connect(), tmp_path / "pages.parquet")
    assert done == (3, "parquet", tmp_path / "pages.parquet")
    with duckdb.connect() as other:
        other.execute(f"CREATE VIEW pages AS FROM '{tmp_path / 'pages.parquet'}'")
        found = other.execute("SELECT * FROM pages ORDER BY url").fetchall()
    assert found == store.database.connect().execute("SELECT * FROM pages ORDER BY url").fetchall()
    assert found[0][PageRow._fields.index("title")] == "=1+1"


def test_the_order_of_rows_is_given_up_for_an_export_alone(store: DuckDBStore, tmp_path: Path) -> None:
    connection = store.database.connect()
    export(connection, tmp_path / "pages.parquet")
    assert connection.execute("SELECT current_setting('preserve_insertion_order')").fetchall() == [(True,)]


def test_a_sealed_store_exports_parquet_nowhere_and_says_so(tmp_path: Path) -> None:
    with DuckDBStore.open(tmp_path / "sealed.duckdb", sealed=True) as sealed:
        sealed.create_job("pages", {}, [], NOON)
        with pytest.raises(QueryRefused, match="cannot be exported"):
            export(sealed.database.connect(), tmp_path / "pages.parquet")
        assert export(sealed.database.connect(), tmp_path / "pages.csv").rows == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pages.csv", "sealed.duckdb"]


def test_json_lines_are_one_object_a_line_and_harmless_to_a_terminal(store: DuckDBStore, tmp_path: Path) -> None:
    """[E7]"""
    export(store.database.connect(), tmp_path / "pages.jsonl", where="body IS NOT NULL")
    text = (tmp_path / "pages.jsonl").read_bytes()
    assert all(32 <= byte < 127 or byte == 10 for byte in text)
    found = [json.loads(line) for line in text.splitlines()]
    assert [page["body"] for page in found] == [LATIN, ""]
    assert found[0]["crawl_time"] == "2026-01-01T12:00:00.250000Z"


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "＝1", '=HYPERLINK("x")', "=,"])
def test_text_in_csv_is_never_a_formula(store: DuckDBStore, tmp_path: Path, text: str) -> None:
    """[E6]"""
    store.database.connect().execute("UPDATE pages SET title = $1", [text])
    export(store.database.connect(), tmp_path / "safe.csv")
    export(store.database.connect(), tmp_path / "raw.csv", formulas="keep")
    assert {row["title"] for row in rows_of(tmp_path / "safe.csv")} == {f"'{text}"}
    assert {row["title"] for row in rows_of(tmp_path / "raw.csv")} == {text}


def test_numbers_below_zero_and_names_of_columns_in_csv(store: DuckDBStore, tmp_path: Path) -> None:
    export(
        store.database.connect(),
        tmp_path / "x.csv",
        query="""SELECT -1.5 AS number, 'a=b' AS text, NULL AS "=none", [1] AS n""",
    )
    assert (tmp_path / "x.csv").read_bytes() == b"number,text,'=none,n\r\n-1.5,a=b,,[1]\r\n"


@pytest.mark.parametrize(("ending", "unpack"), [(".gz", gzip.decompress), (".zst", zstandard.decompress)])
def test_the_name_of_a_file_says_how_it_is_compressed(
    store: DuckDBStore, tmp_path: Path, ending: str, unpack: Any
) -> None:
    export(store.database.connect(), tmp_path / "x.csv")
    export(store.database.connect(), tmp_path / f"y.csv{ending}")
    packed = (tmp_path / f"y.csv{ending}").read_bytes()
    plain = (
        zstandard.ZstdDecompressor().decompressobj().decompress(packed) if ending == ".zst" else gzip.decompress(packed)
    )
    assert plain == (tmp_path / "x.csv").read_bytes()


# -- WARC


@pytest.mark.parametrize("name", ["pages.warc", "pages.warc.gz"])
def test_an_archive_satisfies_an_outside_judge(
    store: DuckDBStore, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert export(store.database.connect(), tmp_path / name).rows == 3
    command = type("Command", (), {"inputs": [str(tmp_path / name)], "verbose": True})()
    checker = Checker(command)
    checker.process_all()
    assert checker.exit_value == 0
    said = capsys.readouterr().out
    assert said.count("digest pass") == 6, "a warcinfo, two resources and three metadata records"
    assert "fail" not in said


def test_an_archive_holds_what_is_known_and_nothing_else(store: DuckDBStore, tmp_path: Path) -> None:
    export(store.database.connect(), tmp_path / "pages.warc")
    with (tmp_path / "pages.warc").open("rb") as file:
        records = [
            (record.rec_type, record.rec_headers, record.content_stream().read()) for record in ArchiveIterator(file)
        ]
    assert [kind for kind, _, _ in records] == ["warcinfo", "resource", "metadata", "metadata", "resource", "metadata"]
    _, head, body = records[1]
    assert head["WARC-Target-URI"] == "https://a.test/"
    assert head["WARC-Date"] == "2026-01-01T12:00:00.250000Z"
    assert head["Content-Type"] == "text/html; charset=utf-8", "as it lies here, not as it came"
    assert body.decode() == LATIN
    _, about, fields = records[2]
    assert about["WARC-Refers-To"] == head["WARC-Record-ID"]
    assert b"http-content-type: text/html; charset=iso-8859-1\r\n" in fields
    assert b"fetchTimeMs: 12.5\r\n" in fields
    _, _, fields = records[3]
    assert b"error: Not WARC-Type: response\r\n" in fields, "no server writes a line of ours"
    assert records[4][1]["Content-Type"] == "text/plain; charset=utf-8"


def test_the_same_pages_make_the_same_records(store: DuckDBStore, tmp_path: Path) -> None:
    names = []
    for name in ("one.warc", "two.warc"):
        export(store.database.connect(), tmp_path / name)
        with (tmp_path / name).open("rb") as file:
            names.append([record.rec_headers["WARC-Record-ID"] for record in ArchiveIterator(file)][1:])
    assert names[0] == names[1]
    assert len(set(names[0])) == 5


# -- what is asked for


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        ({"to": "x.txt"}, AmbleError, "does not say in which format"),
        ({"to": "x.parquet.gz"}, AmbleError, "compressed in its own way"),
        ({"to": "x.warc.zst"}, AmbleError, "compressed in its own way"),
        ({"to": "x.csv", "format": "xlsx"}, AmbleError, "no format 'xlsx'"),
        ({"to": "x.csv", "where": "1 = 1); DROP TABLE pages; SELECT (1"}, QueryRefused, "not one SELECT"),
        ({"to": "x.csv", "where": "no such thing"}, QueryRefused, "cannot be selected"),
        ({"to": "x.csv", "where": "nocolumn = 1"}, QueryRefused, "nocolumn"),
        ({"to": "x.parquet", "where": "nocolumn = 1"}, QueryRefused, "nocolumn"),
        ({"to": "x.csv", "query": "DELETE FROM pages"}, QueryRefused, "not one SELECT"),
        ({"to": "x.csv", "query": "SELECT 1", "where": "true"}, AmbleError, "both a query and a condition"),
        ({"to": "x.csv", "table": 'pages"; DROP TABLE pages; --'}, StoreError, "table"),
        ({"to": "x.warc", "query": "SELECT 1 AS one"}, AmbleError, "needs the URL"),
        ({"to": "x.warc", "query": "SELECT 'http://a/ b\n' AS url"}, AmbleError, "is no URI"),
        ({"to": "nowhere/x.csv"}, StoreError, "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_refused_and_leaves_nothing(
    store: DuckDBStore, tmp_path: Path, asked: dict[str, Any], error: type[AmbleError], says: str
) -> None:
    (tmp_path / "out").mkdir()
    to = tmp_path / "out" / asked.pop("to")
    with pytest.raises(error, match=says):
        export(store.database.connect(), to, **asked)
    assert list((tmp_path / "out").iterdir()) == []
    assert store.database.connect().execute("SELECT count(*) FROM pages").fetchall() == [(3,)]


def test_a_condition_may_end_in_a_comment(store: DuckDBStore, tmp_path: Path) -> None:
    assert export(store.database.connect(), tmp_path / "x.csv", where="http_status = 200 -- only these").rows == 2


@pytest.mark.parametrize("format", ["csv", "jsonl", "warc", "parquet"])
def test_a_stream_gets_the_same_as_a_file(store: DuckDBStore, tmp_path: Path, format: Any) -> None:
    stream = io.BytesIO()
    done = export(
        store.database.connect(), stream, format=format, query="SELECT url, body, crawl_time FROM pages ORDER BY url"
    )
    assert (done.rows, done.path) == (3, None)
    assert not stream.closed
    if format in ("csv", "jsonl"):
        export(
            store.database.connect(),
            tmp_path / f"x.{format}",
            query="SELECT url, body, crawl_time FROM pages ORDER BY url",
        )
        assert stream.getvalue() == (tmp_path / f"x.{format}").read_bytes()
    else:
        assert stream.getvalue().startswith(b"PAR1" if format == "parquet" else b"WARC/1.1\r\n")
    with pytest.raises(AmbleError, match="no name that tells the format"):
        export(store.database.connect(), stream)


# -- files


def test_nothing_is_overwritten_unless_forced(store: DuckDBStore, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("precious")
    with pytest.raises(StoreError, match="is there already"):
        export(store.database.connect(), file)
    assert file.read_text() == "precious"
    export(store.database.connect(), file, force=True)
    assert len(rows_of(file)) == 3


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    store: DuckDBStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "x.csv"

    def slowly(*given: Any, **named: Any) -> int:
        file.write_text("precious")
        return write_csv(*given, **named)

    monkeypatch.setattr("amble.report.export.write_csv", slowly)
    with pytest.raises(StoreError, match="is there already"):
        export(store.database.connect(), file)
    assert file.read_text() == "precious"
    assert not list(tmp_path.glob(".x.csv*"))


def test_an_export_that_fails_half_way_leaves_what_was_there(store: DuckDBStore, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_text("precious")
    bad = "SELECT CASE WHEN i < 5000 THEN i ELSE error('enough') END FROM range(10000) t(i)"
    with pytest.raises(QueryRefused, match="enough"):
        export(store.database.connect(), file, query=bad, force=True)
    assert file.read_text() == "precious"
    assert not list(tmp_path.glob(".x.csv*"))


def test_a_new_file_has_the_rights_of_any_other(store: DuckDBStore, tmp_path: Path) -> None:
    export(store.database.connect(), tmp_path / "x.csv")
    (tmp_path / "plain").touch()
    assert (tmp_path / "x.csv").stat().st_mode == (tmp_path / "plain").stat().st_mode


@pytest.mark.parametrize("format", ["csv", "jsonl", "warc"])
def test_memory_does_not_grow_with_the_rows(store: DuckDBStore, format: Any) -> None:
    """24 MB of text go through; what Python holds of it at any time is a few chunks. DuckDB keeps to its own limit."""
    query = "SELECT 'http://a.test/' || i AS url, repeat('text', 4000) AS body FROM range(1500) t(i)"
    tracemalloc.start()
    try:
        with open(os.devnull, "wb") as nowhere:
            done = export(store.database.connect(), nowhere, format=format, query=query)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert done.rows == 1_500
    assert peak_bytes < 10_000_000
