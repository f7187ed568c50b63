"""A sample of the catalogue of damaged files; `make soak` runs all of it, every verb on every damage."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amble.cli.main import _unforeseen
from amble.report.words import safe_lines
from tests.cli.damaged import DAMAGES, VERBS, run_all

LOOK = [
    verb for verb in VERBS if verb not in ("crawl", "plan", "resume", "doctor", "doctor FILE")
]  # those that use no network
EVERY = 2
PAIRS = [(LOOK[n % len(LOOK)], damage) for n, damage in enumerate(DAMAGES)][::EVERY]


@pytest.mark.timeout(300)
def test_every_damage_ends_in_an_error_with_a_hint_and_an_exit_code() -> None:
    wrong = [(each.verb, each.damage, each.fault, each.said) for each in run_all(PAIRS) if each.fault is not None]
    assert wrong == []


def amble(folder: Path, script: str) -> tuple[int, str]:
    """A line of a shell, in which `amble` is the program."""
    line = script.replace("amble ", f"{sys.executable} -m amble ")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "XDG_CONFIG_HOME": str(folder)}
    done = subprocess.run(
        ["/bin/sh", "-c", line], cwd=folder, env=environ, capture_output=True, timeout=120, check=False
    )  # fmt: skip
    return done.returncode, (done.stdout + done.stderr).decode(errors="replace")


ODD = [
    # where                        the line                                                 what is said
    ("a full output", "amble config show > /dev/full", "No space left"),
    ("a closed output", "amble config show >&-", ""),
    ("everything closed", "amble config show <&- >&- 2>&-", ""),
    ("no descriptors", "ulimit -n 16; amble jobs x.duckdb", "amble: "),
    ("a crawl without descriptors", "ulimit -n 16; amble crawl http://127.0.0.1:1/", "ulimit -n 1024"),
    ("a crawl with hardly any descriptors", "ulimit -n 20; amble crawl http://127.0.0.1:1/", "and needs 32"),
    (
        "a crawl with as few descriptors as it needs",
        "ulimit -n 32; amble crawl http://127.0.0.1:1/ --robots-retries 0; test $? = 3",
        "job 1 failed",
    ),
    (
        "a crawl into a full output",
        "amble crawl http://127.0.0.1:1/ --robots-retries 0 --json > /dev/full",
        "free some",
    ),
    (
        "a crawl in a folder that is gone",
        "mkdir gone && cd gone && rmdir ../gone && amble crawl http://127.0.0.1:1/ --robots-retries 0",
        "hint: ",
    ),
    ("too little memory", "ulimit -v 300000; amble jobs x.duckdb", "needs 1074"),
    ("a crawl with too little memory", "ulimit -v 600000; amble crawl http://127.0.0.1:1/", "ulimit -v unlimited"),
    ("too little memory for data", "ulimit -d 100000; amble crawl http://127.0.0.1:1/", "needs 268"),
    ("little memory where much is not needed", "ulimit -v 300000; amble config show", "max_rate"),
    ("a long name", f"amble jobs {'x' * 257}", "amble: "),
    ("a name that is not UTF-8", "amble jobs \"$(printf 'a\\377b')\"", "amble: "),
    ("into a name that is not UTF-8", "amble crawl http://127.0.0.1:1/ --into \"$(printf 'a\\377b')\"", "not UTF-8"),
    ("a folder that is gone", "mkdir gone && cd gone && rmdir ../gone && amble config show", ""),
    ("a config that is a folder", "mkdir amble.toml; amble config show", ""),
    ("a config that is no text", "printf '\\377' > amble.toml; amble config show", "no TOML"),
    ("into memory", "amble crawl http://127.0.0.1:1/ --into :memory:", "gone with the command"),
    ("a terminal of ASCII", "PYTHONIOENCODING=ascii amble jobs 'fil\u00e9'", "no file"),
]


@pytest.mark.parametrize(("line", "said"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
def test_odd_surroundings_end_in_words(line: str, said: str, tmp_path: Path) -> None:
    code, told = amble(tmp_path, line)
    assert code in (0, 1, 2), told
    assert "Traceback" not in told
    assert "a fault of ours" not in told
    assert said in told


def test_what_a_crawl_writes_is_for_whoever_crawls(tmp_path: Path) -> None:
    code, told = amble(tmp_path, "umask 022; amble crawl http://127.0.0.1:1/ --into x.duckdb --robots-retries 0")
    assert code in (0, 3), told
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.iterdir()} == {"x.duckdb": "0o600"}


HOSTILE = "\x1b]0;title\x07 \x1b[31m \r \u202e \u2066 \u200f \x9b1m \u2028 \udcff"


def test_one_function_takes_the_power_from_text() -> None:
    assert safe_lines(HOSTILE).isascii()
    assert safe_lines(f"a\n{HOSTILE}").count("\n") == 1
    assert safe_lines("Grüße, 世界 – …") == "Grüße, 世界 – …"


@pytest.mark.parametrize(
    "line",
    [
        "amble sql x.duckdb -c \"SELECT error(chr(27) || '[31m' || chr(8238) || chr(13))\"",
        "amble sql x.duckdb -c \"SELECT chr(27) || '[31m' AS a, chr(8238) AS b\"",
        "amble sql x.duckdb -c \"SELECT (chr(27) || 'x')::INTEGER\"",
        'amble export x.duckdb o.csv --query "SELECT error(chr(27) || chr(8238) || chr(13))"',
        "amble export x.duckdb o.csv --query \"SELECT (chr(27) || 'x')::INTEGER\"",
        "amble jobs \"$(printf 'no\\033[31mfile\\r')\"",
        "amble why \"$(printf 'a\\033[31m.test')\" x.duckdb",
        "amble crawl \"$(printf 'a\\033[31m b')\"",
        "amble crawl --seeds \"$(printf 'no\\033[31m')\"",
        "amble \"$(printf 'ver\\033[31mb')\"",
        "amble jobs x.duckdb \"$(printf '\\033[31m')\"",
        "amble crawl a.test \"$(printf -- '--fla\\033[31mg')\"",
    ],
)
def test_no_verb_lets_escapes_through_to_a_terminal_e7(line: str, tmp_path: Path) -> None:
    _, told = amble(tmp_path, "amble sql x.duckdb -c 'CREATE TABLE pages (url VARCHAR)'; " + line)
    assert not {"\x1b", "\r", "\u202e"} & set(told), told


@pytest.mark.parametrize("said", ["can't start new thread", "initializing curl-multi failed"])
def test_what_the_machine_lacks_is_no_fault_of_ours(said: str) -> None:
    told = _unforeseen(RuntimeError(said))
    assert "hint: " in told
    assert "a fault of ours" not in told
