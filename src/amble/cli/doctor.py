"""Whether everything is in place for a crawl: who we say we are, names, proxy, disk, DuckDB, open files."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote

import duckdb
import pycurl

from amble.cli.exits import Exit
from amble.cli.look import must_exist
from amble.cli.shown import command, say, show, show_json
from amble.core.robots.parse import product_token
from amble.errors import AmbleError, SettingsError, StoreLocked
from amble.fetcher.authorities import default_ca_file
from amble.fetcher.descriptors import raise_limit
from amble.report.words import safe
from amble.settings import Settings
from amble.settings_sources import resolve
from amble.store.duckdb_store import DuckDBStore
from amble.store.salvage import check_whole, salvage

PATIENCE_S = 10.0
DISK_BYTES_MIN = 1 << 30
FILES_BESIDES = 64  # standard streams, the database, the event loop, libraries


@dataclass(frozen=True, slots=True)
class Finding:
    what: str
    state: str  # good, warning, bad
    found: str
    hint: str = ""


def doctor(arguments: argparse.Namespace) -> Exit:
    """0 unless something stands in the way of a crawl."""
    if arguments.salvage is not None:
        return _salvage(arguments)
    findings = list(_look(arguments.host, Path(arguments.into), arguments.file))
    if arguments.json:
        show_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            show(f"{finding.state:<8} {finding.what:<12} {safe(finding.found)}")
            if finding.hint:
                show(f"{'':<21} hint: {safe(finding.hint)}")
    return Exit.ERROR if any(finding.state == "bad" for finding in findings) else Exit.DONE


def _salvage(arguments: argparse.Namespace) -> Exit:
    """A new file with what a damaged one still holds."""
    if arguments.file is None:
        raise SettingsError("--salvage needs the damaged file", hint="amble doctor FILE --salvage TO")
    must_exist(arguments.file)
    found = salvage(Path(arguments.file), Path(arguments.salvage))
    if arguments.json:
        show_json(found and found._asdict())
    elif found is None:
        say(f"{safe(arguments.file)} is whole: there is nothing to salvage")
    else:
        rows = ", ".join(f"{count:,} rows of {table}" for table, count in found.rows.items()) or "no table of a crawl"
        kept = f"{found.kept_bytes:,} of {found.log_bytes:,} bytes of the log were kept"
        say(f"{safe(arguments.salvage)} has {rows}; {kept}")
        say(f"what came later is lost; a job goes on with: {command()} resume {safe(quote(arguments.salvage))}")
    return Exit.DONE


def _look(host: str, into: Path, file: str | None) -> Iterator[Finding]:
    yield versions()
    try:
        settings = resolve().settings
    except AmbleError as error:
        yield Finding("settings", "bad", error.message, error.hint or "")
        settings = Settings()
    checks: list[tuple[str, Callable[[], Finding]]] = [
        ("identity", lambda: identity(settings)),
        ("contact", lambda: contact(settings)),
        ("names", lambda: names(host)),
        ("proxy", lambda: proxy(settings)),
        ("certificates", lambda: certificates(settings)),
        *([("file", lambda: whole(Path(file)))] if file is not None else []),
        ("disk", lambda: disk(into)),
        ("duckdb", lambda: database(into)),
        ("open files", lambda: open_files(settings.fetching.max_total_connections)),
    ]
    for what, check in checks:
        try:
            yield check()
        except (AmbleError, OSError, ValueError) as error:
            yield Finding(what, "bad", str(getattr(error, "message", error)), getattr(error, "hint", "") or "")


def versions() -> Finding:
    import amble

    curl = pycurl.version_info()
    return Finding(
        "versions",
        "good",
        f"amble {amble.__version__}, Python {platform.python_version()}, DuckDB {duckdb.__version__},"
        f" libcurl {curl[1]} ({curl[5]})",
    )


def identity(settings: Settings) -> Finding:
    fetching = settings.fetching
    token = product_token(fetching.user_agent)
    if not token:
        return Finding("identity", "bad", fetching.identity, "begin user_agent with a name, such as yourbot/1.0")
    said = f"User-Agent: {fetching.identity}; robots.txt addresses it as {token!r}"
    return Finding("identity", "good", said + (f"; From: {fetching.from_header}" if fetching.from_header else ""))


def contact(settings: Settings) -> Finding:
    if settings.fetching.is_anonymous:
        return Finding(
            "contact", "warning", "none: a site owner cannot tell whom to write to",
            "set contact to a page or a mail address of yours",
        )  # fmt: skip
    return Finding("contact", "good", settings.fetching.contact or "named in the User-Agent")


def names(host: str) -> Finding:
    began = time.monotonic()
    pool = ThreadPoolExecutor(1)
    try:
        found = pool.submit(socket.getaddrinfo, host, 443, type=socket.SOCK_STREAM).result(PATIENCE_S)
    except TimeoutError:
        return Finding(
            "names", "bad", f"no answer about {host} in {PATIENCE_S:.0f} s", "see the resolver of this machine"
        )
    except OSError as error:
        return Finding(
            "names", "bad", f"{host} was not found: {error.strerror or error}", "see the network and resolver"
        )
    finally:
        pool.shutdown(wait=False)
    addresses = sorted({entry[4][0] for entry in found}, key=str)
    return Finding("names", "good", f"{host} is {addresses[0]}, found in {1000 * (time.monotonic() - began):.0f} ms")


def proxy(settings: Settings) -> Finding:
    url = settings.fetching.http_proxy
    if url is None:
        return Finding("proxy", "good", "none")
    host, _, port = url.removeprefix("http://").rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), PATIENCE_S).close()
    except OSError as error:
        return Finding("proxy", "bad", f"{url} cannot be reached: {error.strerror or error}", "see http_proxy")
    return Finding("proxy", "good", f"{url} can be reached")


def certificates(settings: Settings) -> Finding:
    file = settings.fetching.ca_file or default_ca_file()
    if not Path(file).is_file():
        return Finding("certificates", "bad", f"there is no file {file}", "see ca_file")
    return Finding("certificates", "good", file)


def whole(file: Path) -> Finding:
    must_exist(str(file))
    try:
        check_whole(file)
    except StoreLocked as locked:
        return Finding("file", "good", f"{locked.message}, so it can be opened", "")
    return Finding("file", "good", f"{file} is whole")


def disk(into: Path) -> Finding:
    folder = _folder(into)
    free = shutil.disk_usage(folder).free
    with tempfile.TemporaryFile(dir=folder):
        pass  # raises where nothing can be written
    said = f"{free / 1e9:.1f} GB free in {folder.resolve()}"
    if free < DISK_BYTES_MIN:
        return Finding("disk", "warning", said, "a crawl pauses when the disk is full, and goes on when it is not")
    return Finding("disk", "good", said)


def database(into: Path) -> Finding:
    """Make one where a crawl would, and throw it away."""
    with tempfile.TemporaryDirectory(dir=_folder(into)) as folder:
        began = time.monotonic()
        with DuckDBStore.open(Path(folder, "doctor.duckdb")) as store:
            store.flush().result(PATIENCE_S)
        return Finding(
            "duckdb", "good", f"a file can be made and written, in {1000 * (time.monotonic() - began):.0f} ms"
        )


def open_files(connections: int) -> Finding:
    soft = raise_limit()  # as a crawl does
    if soft is None:
        return Finding("open files", "good", "no limit that could be asked for")
    needed = connections + FILES_BESIDES
    if soft < needed:
        return Finding(
            "open files", "bad", f"{soft} may be open; {needed} are needed for max_total_connections = {connections}",
            f"ulimit -n {needed}, or max_total_connections = {max(1, soft - FILES_BESIDES)}",
        )  # fmt: skip
    return Finding("open files", "good", f"{soft} may be open, {needed} are needed")


def _folder(into: Path) -> Path:
    folder = into if into.is_dir() else into.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise OSError(f"{folder} is no folder that can be written")
    return folder
