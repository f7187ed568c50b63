"""CRAWL, EXPLAIN CRAWL and RESUME, PAUSE, STOP CRAWL: from a statement to a job, and from its end to a row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from duckdb import DuckDBPyConnection

from amble.errors import SettingsError, StoreError
from amble.jobs import JobResult
from amble.jobs.identity import warn_if_anonymous
from amble.jobs.runner import RunningJob, running, start, take_up
from amble.report.plan import HEADS, explain
from amble.settings import OWN, SYNONYMS, Settings
from amble.settings_sources import Resolved
from amble.sql import options
from amble.sql.caller import Caller
from amble.sql.homes import JobHome, find_job, in_use, stopped
from amble.sql.on_engine import Working, on_engine
from amble.sql.parameters import named_by, refuse_mismatch
from amble.sql.progress import NoBar, make_bar, wait_or_stop
from amble.sql.result import Table
from amble.sql.seeds import Seeds, most_seeds, read_seeds
from amble.sql.session import Session
from amble.sql.statements import Control, Crawl, Verb
from amble.sql.stores import open_store, store_in_use
from amble.sql.targets import check_target, held_in, resolve_target
from amble.sql.temporary import Temporaries
from amble.sql.transactions import refuse_transaction
from amble.store.clauses import Clauses
from amble.store.duckdb_store import DuckDBStore
from amble.store.judge import WhereJudge
from amble.store.seam import UNFINISHED, JobStatus

COLUMNS = (
    ("job_id", "BIGINT"),
    ("pages", "BIGINT"),
    ("errors", "BIGINT"),
    ("skipped", "BIGINT"),
    ("bytes", "BIGINT"),
    ("seconds", "DOUBLE"),
)
_KINDS = {"domain": "VARCHAR", "why": "VARCHAR", "note": "VARCHAR", "delay_s": "DOUBLE", "expected_s": "DOUBLE"}
_PLAN = tuple((head, _KINDS.get(head, "BIGINT")) for head in HEADS)
TRUST = "trust_clauses"
_STATE = (("job_id", "BIGINT"), ("status", "VARCHAR"))


@dataclass(slots=True)
class Place:
    """Where a statement runs: a connection of the user, and whoever called it."""

    connection: DuckDBPyConnection
    session: Session
    caller: Caller
    watch: Callable[[RunningJob | Working | None], None]  # told what this connection waits for
    tables: Temporaries = field(default_factory=Temporaries)

    def bar(self) -> NoBar:
        return make_bar() if self.session.shows_bar(self.connection) else NoBar()


def run_crawl(place: Place, crawl: Crawl, values: Mapping[str, Any]) -> Table:
    """Everything that can be refused is refused before a table is made or a request is sent."""
    refuse_transaction(place.connection, "CRAWL")
    clauses = Clauses.of(place.connection, crawl.where_sql, crawl.extract)
    limit = options.whole(crawl.limit, values, "LIMIT")
    settings = settings_here(place, crawl, values, limit)
    target = resolve_target(place.connection, crawl.target)
    check_target(place.connection, target)
    most = most_seeds(crawl, limit)
    held = held_in(place.connection, target) if most is not None else ()
    seeds = read_seeds(place.connection, crawl.select, values, place.caller, sites=crawl.sites, most=most, held=held,
                       typed=crawl.typed)  # fmt: skip
    _refuse_unused(place.connection, crawl, values)
    with open_store(place.connection, target.database, place.session) as store:
        if crawl.explain:
            return _explained(place, store, seeds, settings, str(target.table), clauses)
        ways = {**place.session.ways, "typed": seeds.typed}
        job = start(store, list(seeds.urls), settings, str(target.table), clauses=clauses, **ways)
        return _row(wait(place, job), seeds.nulls)


def run_control(place: Place, control: Control, values: Mapping[str, Any]) -> Table:
    """`RESUME` waits for the job as CRAWL does; `PAUSE` and `STOP` are for a job that runs on another cursor."""
    job_id = options.whole(control.job, values, f"{control.verb} CRAWL")
    assert job_id is not None
    if control.verb is Verb.RESUME:
        refuse_transaction(place.connection, "RESUME CRAWL")
    home = find_job(place.connection, job_id, control.verb)
    database = home.database
    if control.verb is not Verb.RESUME and store_in_use(place.connection, database, place.session) is None:
        return _resting(home, control.verb)
    with open_store(place.connection, database, place.session) as store:
        found = running(store).get(job_id)
        if control.verb is Verb.RESUME:
            if found is None:
                _resting(home, control.verb)
                found = take_up(store, job_id, **_told_here(place, control, values), **place.session.ways)
            found.resume()
            return _row(wait(place, found), 0)
        if found is None:
            return _resting(home, control.verb)
        if control.verb is Verb.PAUSE:
            found.pause()
            return Table(_STATE, [(job_id, JobStatus.PAUSED.value)])
        found.stop()
        return Table(_STATE, [(job_id, found.wait().status.value)])


def _told_here(place: Place, control: Control, values: Mapping[str, Any]) -> dict[str, Any]:
    """What holds here and is never taken from the file, what stands in for settings that are refused today, and whether
    the job's own SQL is to be trusted."""
    trusts = [option for option in control.options if option.name == TRUST]
    others = [option for option in control.options if option.name != TRUST]
    own = tuple(option for option in others if option.name in OWN)
    repairs = options.said([option for option in others if option.name not in OWN], values)
    trust = options.bound(trusts[-1].value, values) if trusts else False
    if not isinstance(trust, bool):
        raise SettingsError(f"{TRUST} = {trust!r}: write true or false", hint=f"{TRUST} = true")
    return {"here": settings_here(place, Crawl("", options=own), values, None), "repairs": repairs, TRUST: trust}


def settings_here(place: Place, crawl: Crawl, values: Mapping[str, Any], limit: int | None) -> Settings:
    duck = options.from_duckdb(place.connection, place.session.threads_at_first)
    return options.resolved_of(crawl, values, limit, place.session.kept, duck).settings


def resolved_here(place: Place) -> Resolved:
    """What a crawl on this connection would have without any options, and who said so."""
    with place.connection.cursor() as cursor:  # what the connection itself has to be fetched stays
        duck = options.from_duckdb(cursor, place.session.threads_at_first)
    found = options.resolved_of(Crawl(""), {}, None, place.session.kept, duck)
    by_set = {**dict.fromkeys(duck, "SET, to DuckDB"), **dict.fromkeys(place.session.kept, "SET")}
    return replace(found, sources={**found.sources, **by_set})


def setting_here(place: Place, name: str) -> Any:
    """What a crawl on this connection would have it set to."""
    return resolved_here(place).settings.value(SYNONYMS.get(name, name))


# --- waiting -------------------------------------------------------------------------------------------------------


def wait(place: Place, job: RunningJob) -> JobResult:
    bar = place.bar()
    place.watch(job)
    try:
        result = wait_or_stop(job, bar)
        warn_if_anonymous(job)
        return result
    except KeyboardInterrupt:
        raise KeyboardInterrupt(stopped(place.connection, job)) from None
    finally:
        bar.close()
        place.watch(None)


# --- answers -------------------------------------------------------------------------------------------------------


def _row(result: JobResult, nulls: int) -> Table:
    skipped = result.skipped + nulls
    return Table(
        COLUMNS, [(result.job_id, result.pages, result.failed, skipped, result.body_bytes, round(result.seconds, 3))]
    )


def _explained(
    place: Place, store: DuckDBStore, seeds: Seeds, settings: Settings, table: str, clauses: Clauses
) -> Table:
    judge = WhereJudge(store.database, clauses) if clauses.where_sql is not None else None
    try:
        found = on_engine(
            lambda shared: explain(
                store,
                list(seeds.urls),
                settings,
                table=table,
                shared=shared,
                judge=judge,
                typed=seeds.typed,
                **_ways(place),
            ),
            place.watch,
        )
    finally:
        if judge is not None:
            judge.close()
    rows = [[round(value, 3) if isinstance(value, float) else value for value in row] for row in found.as_rows()]
    return Table(_PLAN, rows)


def _ways(place: Place) -> dict[str, Any]:
    return {name: way for name, way in place.session.ways.items() if name in ("clock", "policy", "resolver")}


def _resting(home: JobHome, verb: Verb) -> Table:
    """Nothing of this job runs here: there is nothing to do, unless it is over."""
    if home.status not in UNFINISHED:
        hint = "CRAWL the same seeds again to go on from the table"
        if home.elsewhere:
            hint = f"another job of this number can go on: {in_use(home.elsewhere[0], f'{verb} CRAWL {home.job_id}')}"
        raise StoreError(f"job {home.job_id} is over: {home.status}", hint=hint)
    if verb is Verb.PAUSE or home.status != JobStatus.RUNNING:
        return Table(_STATE, [(home.job_id, home.status)])
    return Table(_STATE, [(home.job_id, JobStatus.PAUSED.value)])


# --- parameters ----------------------------------------------------------------------------------------------------


def _refuse_unused(connection: DuckDBPyConnection, crawl: Crawl, values: Mapping[str, Any]) -> None:
    used = set(connection.extract_statements(crawl.select)[0].named_parameters)
    for value in (crawl.limit, *(option.value for option in crawl.options)):
        used |= named_by(value)
    refuse_mismatch(values, used)
