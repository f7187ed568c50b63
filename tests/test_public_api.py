"""The public face of amble: these names, these shapes, and an import that costs nothing.

The functions under `if TYPE_CHECKING` are never run: the type checker holds them against the real signatures.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import amble

PUBLIC = {
    "AlreadySettled",
    "AmbleError",
    "BadDomain",
    "BadUrl",
    "CircuitOpen",
    "Connection",
    "CrawlJob",
    "Denied",
    "Failure",
    "Limiter",
    "Outcome",
    "PacingSettings",
    "PermitError",
    "Rule",
    "SettingsError",
    "StatementError",
    "StoreError",
    "TooLate",
    "__version__",
    "connect",
    "crawl",
    "crawl_async",
    "domain_of",
    "resume",
    "resume_async",
}

CRAWL = {
    "crawl": "(seeds: 'str | Iterable[str]', into: 'Path | None' = None, *, table: 'str' = 'pages',"
    " wait: 'bool' = True, **settings: 'Any') -> 'CrawlJob'",
    "crawl_async": "(seeds: 'str | Iterable[str]', into: 'Path | None' = None, *, table: 'str' = 'pages',"
    " **settings: 'Any') -> 'CrawlJob'",
    "resume": "(into: 'Path', job_id: 'int | None' = None, *, wait: 'bool' = True, trust_clauses: 'bool' = False,"
    " **own: 'Any') -> 'CrawlJob'",
    "resume_async": "(into: 'Path', job_id: 'int | None' = None, *, trust_clauses: 'bool' = False, **own: 'Any')"
    " -> 'CrawlJob'",
}

JOB = {
    "arrow", "close", "counts", "df", "done", "pages", "pause", "progress", "result", "resume", "sql", "status", "stop",
    "wait", "wait_or_stop", "why",
}  # fmt: skip

LIMITER = {
    "changed": "(self, *, force: 'bool' = False) -> 'list[dict[str, Any]]'",
    "listen": "(self, listener: 'Listener') -> 'None'",
    "load": "(self, rows: 'Iterable[Mapping[str, Any]]') -> 'None'",
    "not_before": "(self, url: 'str') -> 'float'",
    "permit": "(self, url: 'str', *, deadline_s: 'float | None' = None, wait_if_open: 'bool' = False,"
    " attempt: 'int' = 1) -> 'PermitRequest'",
    "permit_sync": "(self, url: 'str', *, deadline_s: 'float | None' = None, wait_if_open: 'bool' = False,"
    " attempt: 'int' = 1) -> 'IssuedPermit'",
    "save": "(self) -> 'list[dict[str, Any]]'",
    "set_address": "(self, url: 'str', address: 'str') -> 'None'",
    "set_crawl_delay": "(self, url: 'str', crawl_delay_s: 'float | None') -> 'None'",
    "snapshot": "(self, top: 'int' = 20) -> 'LimiterSnapshot'",
    "tell": "(self, events: 'Sequence[Event]') -> 'None'",
    "try_permit": "(self, url: 'str', *, attempt: 'int' = 1) -> 'IssuedPermit | None'",
}

PERMIT = {"cancel", "domain", "receipt", "sent", "sent_at", "settle", "settled", "waited_s"}

TREE = {
    "SettingsError": ("AmbleError", ValueError),
    "StatementError": ("AmbleError", ValueError),
    "StoreError": ("AmbleError", Exception),
    "BadDomain": ("AmbleError", ValueError),
    "BadUrl": ("AmbleError", ValueError),
    "PermitError": ("AmbleError", RuntimeError),
    "AlreadySettled": ("PermitError", RuntimeError),
    "Denied": ("AmbleError", Exception),
    "CircuitOpen": ("Denied", Exception),
    "TooLate": ("Denied", Exception),
}


def test_the_public_names_are_these() -> None:
    assert set(amble.__all__) == PUBLIC
    assert list(amble.__all__) == sorted(amble.__all__)
    assert set(dir(amble)) >= PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_can_be_had(name: str) -> None:
    value = getattr(amble, name)
    assert value is getattr(amble, name)
    assert isinstance(value, str) == (name == "__version__")


def test_a_star_import_gives_the_same_names() -> None:
    namespace: dict[str, Any] = {}
    exec("from amble import *", namespace)
    assert set(namespace) - {"__builtins__"} == PUBLIC


def test_the_type_checker_looks_at_every_public_name() -> None:
    """In the functions that are never run: they are what a user's program in strict mode may write."""
    used = set(re.findall(r"amble\.(\w+)", Path(__file__).read_text(encoding="utf-8").split("\nif TYPE_CHECKING:")[-1]))
    assert used >= PUBLIC - {"Denied"}  # of which CircuitOpen and TooLate are


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
def test_every_public_name_is_documented(name: str) -> None:
    assert inspect.getdoc(getattr(amble, name))
    page = (Path(__file__).parents[1] / "docs" / "python.md").read_text(encoding="utf-8")
    assert re.search(rf"\b{name}\b", page)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'amble' has no attribute 'Limitr'"):
        getattr(amble, "Limitr")  # noqa: B009


def test_the_version_is_the_projects() -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    assert amble.__version__ == project["version"]


def test_the_methods_of_the_limiter_are_these() -> None:
    methods = {
        name: str(inspect.signature(member))
        for name, member in inspect.getmembers(amble.Limiter, inspect.isfunction)
        if not name.startswith("_")
    }
    assert methods == LIMITER


@pytest.mark.parametrize("name", sorted(CRAWL))
def test_what_starts_a_crawl_is_called_so(name: str) -> None:
    assert str(inspect.signature(getattr(amble, name))) == CRAWL[name]


def test_the_face_of_a_job_is_this() -> None:
    assert {name for name in dir(amble.CrawlJob) if not name.startswith("_")} == JOB


def test_the_function_keeps_its_name_though_a_module_has_the_same() -> None:
    said = _modules_after("import amble; from amble.crawl import Crawl; assert callable(amble.crawl), amble.crawl")
    assert "amble.crawl" in said
    said = _modules_after("import amble; amble.crawl; from amble.crawl import Crawl; assert callable(amble.crawl)")
    assert "amble.face" in said


def test_the_face_of_a_permit_is_this() -> None:
    permit = amble.Limiter().permit_sync("https://a.test/")
    assert {name for name in dir(permit) if not name.startswith("_")} == PERMIT
    assert str(inspect.signature(permit.settle)) == (
        "(*, status: 'int | None' = None, headers: 'Headers | None' = None, elapsed_s: 'float | None' = None,"
        " error: 'BaseException | Failure | None' = None) -> 'None'"
    )


@pytest.mark.parametrize("name", sorted(TREE))
def test_the_tree_of_errors_is_as_drawn(name: str) -> None:
    parent, builtin = TREE[name]
    error = getattr(amble, name)
    assert issubclass(error, getattr(amble, parent))
    assert issubclass(error, builtin)


def _modules_after(statement: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before), sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_amble_imports_nothing_heavy() -> None:
    loaded = _modules_after("import amble")
    assert {name for name in loaded if name.startswith("amble")} == {"amble"}
    assert not loaded & {"asyncio", "pydantic", "pycurl", "duckdb", "ada_url", "logging", "email", "importlib.metadata"}


def test_the_limiter_needs_no_network_library_and_no_database() -> None:
    loaded = _modules_after("import amble; amble.Limiter")
    assert "amble.limiter" in loaded
    assert not loaded & {"pycurl", "duckdb", "uvloop", "selectolax", "httpx", "aiohttp", "zstandard", "brotli"}
    assert not {name for name in loaded if name.startswith(("amble.fetcher", "amble.testing"))}


if TYPE_CHECKING:
    from collections.abc import Mapping

    async def awaited(limiter: amble.Limiter) -> int:
        permit = await limiter.permit("https://a.test/", deadline_s=3, wait_if_open=True, attempt=2)
        permit.settle(status=200, headers={"Date": "x"}, elapsed_s=0.5)
        async with limiter.permit("https://a.test/") as permit:
            permit.settle(error=TimeoutError())
        waited_s: float = permit.waited_s
        return round(waited_s)

    def threads(limiter: amble.Limiter, headers: Mapping[str, str]) -> None:
        with limiter.permit_sync("https://a.test/", deadline_s=1.5) as permit:
            permit.settle(status=429, headers=headers)
        maybe = limiter.try_permit("https://a.test/")
        if maybe is not None:
            maybe.settle(error=amble.Failure.NETWORK_RESET)

    def settings() -> amble.Limiter:
        rules = {"*.shop.example": amble.Rule(delay=2.0, parallel=1)}
        return amble.Limiter(amble.PacingSettings(pacing="linear", rules=rules))

    async def crawled() -> tuple[int, list[str]]:
        job = amble.crawl("https://a.test/", "a.duckdb", table="t", wait=False, follow_links=True)
        job = await job
        same: amble.CrawlJob = job.wait(1.5)
        with await amble.crawl_async(["a.test"]) as other, amble.resume("a.duckdb", 1):
            titles = [str(row[0]) for row in other.sql("SELECT title FROM t").fetchall()]
        return same.counts["pages"], titles

    def queried(path: Path) -> list[tuple[Any, ...]]:
        with amble.connect(path, read_only=False) as con, con.cursor() as cursor:
            cursor.begin().execute("SELECT $1", [1]).commit().close()
            own: amble.Connection = con.register("seeds", con.sql("SELECT 'a.test' AS url", params=[]))
            first: tuple[Any, ...] | None = own.execute("CRAWL (FROM seeds) INTO pages").fetchone()
            names = [str(column[0]) for column in con.description or ()]
            frame = con.execute("FROM pages").df()
            return [*con.executemany("SELECT ?", [[1]]).fetchmany(5), first or (), tuple(names), tuple(frame.columns)]

    def asked(job: amble.CrawlJob) -> tuple[str, float | None, str, int, str]:
        progress, result = job.progress(domains=3), job.result
        return job.status.value, progress.eta_s, job.why("a.test").as_text(), result.pages, amble.domain_of("a.test")

    def refused(error: amble.SettingsError | amble.StatementError | amble.StoreError | amble.BadUrl) -> str | None:
        same: amble.AmbleError = error
        return same.hint

    def judged(outcome: amble.Outcome, error: amble.PermitError | amble.AlreadySettled | amble.BadDomain) -> bool:
        return outcome is amble.Outcome.LIMITED and error.message != amble.__version__

    async def taken_up() -> amble.CrawlJob:
        return await amble.resume_async("a.duckdb")

    def denied(error: amble.CircuitOpen | amble.TooLate) -> tuple[str, float, str | None]:
        return error.domain, error.wait_s, error.hint
