"""Every verb on every kind of damaged or foreign file: an error with a hint and an exit code, never a traceback.

python -m tests.cli.damaged          the whole catalogue, which `make soak` runs
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import duckdb

PATIENCE_S = 120.0
CODES = frozenset({0, 1, 2, 3, 4, 5})
_SEED = "http://127.0.0.1:1/"  # nobody listens there
_QUICK = ["--max-retries", "0", "--robots-retries", "0", "--connect-timeout-s", "1", "--http-timeout", "2"]

# Words after `amble`; FILE is the file, OUT a place for what is written.
VERBS: dict[str, list[str]] = {
    "crawl": ["crawl", _SEED, "--into", "FILE", *_QUICK],
    "plan": ["plan", _SEED, "--into", "FILE", *_QUICK],
    "resume": ["resume", "FILE"],
    "pause": ["pause", "FILE"],
    "stop": ["stop", "FILE"],
    "jobs": ["jobs", "FILE"],
    "domains": ["domains", "FILE", "--json"],
    "audit": ["audit", "FILE", "--html", "OUT"],
    "why": ["why", "a.test", "FILE"],
    "sql": ["sql", "FILE", "-c", "FROM amble.jobs; FROM pages"],
    "export": ["export", "FILE", "OUT.csv"],
    "export --query": ["export", "FILE", "-", "--format", "csv", "--query", "SELECT * FROM pages"],
    "rehearse": ["rehearse", "a.test", "FILE"],
    "doctor FILE": ["doctor", "FILE", "--host", "localhost"],
    "doctor --salvage": ["doctor", "FILE", "--salvage", "OUT.duckdb"],
    "doctor": ["doctor", "--into", "FILE", "--host", "localhost"],
}

Damage = Callable[[Path], object]


def _sql(*statements: str) -> Damage:
    def damage(file: Path) -> None:
        with duckdb.connect(str(file)) as con:
            for statement in statements:
                con.execute(statement)

    return damage


def _bytes_at(share: float, new: bytes) -> Damage:
    def damage(file: Path) -> None:
        with file.open("r+b") as raw:
            raw.seek(int(share * file.stat().st_size))
            raw.write(new)

    return damage


def _instead(make: Callable[[Path], object]) -> Damage:
    def damage(file: Path) -> None:
        file.unlink()
        make(file)

    return damage


def _log(content: bytes) -> Damage:
    return lambda file: _wal(file).write_bytes(content)


def _wal(file: Path) -> Path:
    return file.with_name(f"{file.name}.wal")


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _log_with_zeros(file: Path) -> None:
    """As a power cut leaves it: the length is there, the content is not."""
    subprocess.run(
        [sys.executable, "-c", "import duckdb, os, sys\n"
         "con = duckdb.connect(sys.argv[1])\ncon.execute('PRAGMA disable_checkpoint_on_shutdown')\n"
         "con.execute('CREATE TABLE late AS FROM range(100)')\ncon.execute('INSERT INTO late VALUES (1)')\n"
         "os._exit(0)", str(file)], check=True)  # fmt: skip
    log = _wal(file)
    size = log.stat().st_size
    os.truncate(log, size // 2)
    os.truncate(log, size)


def _listening(place: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(place))


DAMAGES: dict[str, Damage] = {
    "nothing": lambda file: file.unlink(),
    "empty": lambda file: os.truncate(file, 0),
    "text": lambda file: file.write_text("my notes\n" * 100),
    "zeros": lambda file: file.write_bytes(bytes(100_000)),
    "noise": lambda file: file.write_bytes(os.urandom(100_000)),
    "folder": _instead(Path.mkdir),
    "pipe": _instead(os.mkfifo),
    "socket": _instead(_listening),
    "link to nowhere": _instead(lambda file: file.symlink_to("/nowhere/at/all")),
    "link to itself": _instead(lambda file: file.symlink_to(file)),
    "device": _instead(lambda file: file.symlink_to("/dev/zero")),
    "sqlite": lambda file: file.write_bytes(b"SQLite format 3\0" + bytes(4096)),
    "cut": _cut,
    "head gone": _bytes_at(0.0, bytes(4096)),
    "head flipped": _bytes_at(0.0, b"\xff" * 16),
    "second block gone": _bytes_at(0.05, bytes(8192)),
    "middle flipped": _bytes_at(0.5, os.urandom(64)),
    "tail flipped": _bytes_at(0.9, os.urandom(64)),
    "log of noise": _log(os.urandom(5_000)),
    "log of zeros": _log(bytes(5_000)),
    "empty log": _log(b""),
    "log with a zeroed tail": _log_with_zeros,
    "log is a folder": lambda file: _wal(file).mkdir(),
    "place of the socket is a folder": lambda file: file.with_name(f"{file.name}.control").mkdir(),
    "place of the socket is a pipe": lambda file: os.mkfifo(file.with_name(f"{file.name}.control")),
    "place of the socket is a text": lambda file: file.with_name(f"{file.name}.control").write_text("x\n"),
    "no schema of ours": _sql("DROP SCHEMA amble CASCADE"),
    "no pages": _sql("DROP TABLE pages CASCADE"),
    "pages are a view": _sql("DROP TABLE pages CASCADE", "CREATE VIEW pages AS SELECT 1 AS url"),
    "pages of other columns": _sql("DROP TABLE pages CASCADE", "CREATE TABLE pages (n INTEGER)"),
    "no jobs": _sql("DROP TABLE amble.jobs CASCADE"),
    "no tasks": _sql("DROP TABLE amble.settled CASCADE"),
    "no receipts": _sql("DROP TABLE amble.requests CASCADE"),
    "settings of nonsense": _sql("UPDATE amble.jobs SET settings = '{\"max_rat\": []}', status = 'paused'"),
    "settings that are no JSON": _sql("UPDATE amble.jobs SET settings = 'x', status = 'paused'"),
    "seeds that are no URLs": _sql("""UPDATE amble.jobs SET seeds = '["a b", 3]', status = 'paused'"""),
    "seeds that are no list": _sql("UPDATE amble.jobs SET seeds = '7', status = 'paused'"),
    "a status nobody knows": _sql("UPDATE amble.jobs SET status = 'dreaming'"),
    "counters of nonsense": _sql("UPDATE amble.jobs SET counters = '[]', status = 'paused'"),
    "a target of nonsense": _sql("""UPDATE amble.jobs SET target = '";;', status = 'paused'"""),
    "clauses of nonsense": _sql("INSERT INTO amble.clauses VALUES (1, '{}')"),
    "clauses that are hostile": _sql(
        """INSERT INTO amble.clauses VALUES (1, '["(SELECT 1)", false, []]')""", "UPDATE amble.jobs SET status='paused'"
    ),
    "a macro in place of a function": _sql("CREATE MACRO lower(x) AS 'evil'"),
    "escapes in a job": _sql(
        """UPDATE amble.jobs SET error = 'a' || chr(27) || '[31mred' || chr(13) || chr(8238), status = 'failed'"""
    ),
}


class Ended(NamedTuple):
    verb: str
    damage: str
    code: int | None  # None: it did not end
    said: str

    @property
    def fault(self) -> str | None:
        """What is wrong with how it ended."""
        if self.code is None:
            return "hangs"
        if "Traceback" in self.said:
            return "a traceback"
        if "a fault of ours" in self.said:
            return "an error that nobody foresaw"
        if self.code not in CODES:
            return f"ends with {self.code}"
        if any(sign in self.said.replace("\r\n", "\n") for sign in ("\x1b", "\r", "\u202e")):
            return "escapes reach the terminal"
        return "no hint" if self.code == 1 and "amble: " in self.said and "hint: " not in self.said else None


def make_good(file: Path) -> None:
    """A file as a crawl leaves it, made without any network."""
    from amble.sql.connection import connect

    with connect(file) as con:
        con.execute("CRAWL (SELECT NULL::VARCHAR) INTO pages WITH (max_rate = 5)")
        con.execute("INSERT INTO pages (url, title) SELECT 'http://a.test/' || range, 'title' FROM range(500)")
        con.execute("UPDATE amble.jobs SET seeds = $1, status = 'paused'", [json.dumps(["http://a.invalid/"])])


def run(verb: str, damage: str, good: Path, folder: Path) -> Ended:
    """One verb on one damaged copy, in a process of its own."""
    folder.mkdir(parents=True)
    file = folder / "x.duckdb"
    shutil.copy(good, file)
    DAMAGES[damage](file)
    names = {"FILE": "x.duckdb", "OUT": "out.html", "OUT.csv": "out.csv", "OUT.duckdb": "out.duckdb"}
    words = [sys.executable, "-m", "amble", *(names.get(word, word) for word in VERBS[verb])]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_CONFIG_HOME": str(folder)}
    try:
        done = subprocess.run(
            words, cwd=folder, env=environ, capture_output=True, timeout=PATIENCE_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as late:
        return Ended(verb, damage, None, (late.stderr or b"").decode(errors="replace"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return Ended(verb, damage, done.returncode, (done.stdout + done.stderr).decode(errors="replace"))


def run_all(pairs: Sequence[tuple[str, str]], at_once: int = 2) -> Iterator[Ended]:
    with tempfile.TemporaryDirectory() as name:
        good = Path(name, "good.duckdb")
        make_good(good)
        with ThreadPoolExecutor(at_once) as pool:
            found = [pool.submit(run, *pair, good, Path(name, str(n))) for n, pair in enumerate(pairs)]
            for each in found:
                yield each.result()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    pairs = [(verb, damage) for damage in DAMAGES for verb in VERBS]
    wrong = 0
    for ended in run_all(pairs):
        if ended.fault is not None:
            wrong += 1
            last = "\n    ".join(ended.said.strip().splitlines()[-6:])
            _say(f"amble {ended.verb} on {ended.damage!r}: {ended.fault} (code {ended.code})\n    {last}")
    _say(f"{len(pairs)} runs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
