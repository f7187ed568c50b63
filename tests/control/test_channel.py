"""One process asks another about a file: whom it reaches, who may ask, and what a killed process leaves behind."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from amble.control.channel import QUESTION_BYTES_MAX, Listener, Nobody, ask
from amble.control.places import places
from amble.errors import StoreError


def answer(question: str, details: dict[str, Any]) -> Any:
    if question == "refuse":
        raise StoreError("not so", hint="but so")
    if question == "break":
        raise RuntimeError("a fault of ours")
    return {"question": question, **details}


@pytest.fixture(params=["unix", "loopback"])
def listener(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Listener]:
    made = Listener(tmp_path / "x.duckdb", answer, unix=request.param == "unix")
    yield made
    made.close()


def test_a_question_is_answered(listener: Listener, tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    assert ask(file, "why", domain="a.test", n=3) == {"question": "why", "domain": "a.test", "n": 3}
    assert ask(os.path.relpath(file), "again") == {"question": "again"}, "however the file is named"


def test_a_long_answer_arrives_whole(tmp_path: Path) -> None:
    listener = Listener(tmp_path / "x.duckdb", lambda question, details: ["ä" * 1000] * 5_000)
    try:
        assert len(ask(tmp_path / "x.duckdb", "all")) == 5_000
    finally:
        listener.close()


def test_a_refusal_arrives_with_its_hint_and_a_fault_is_not_silence(listener: Listener, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not so") as refused:
        ask(tmp_path / "x.duckdb", "refuse")
    assert refused.value.hint == "but so"
    with pytest.raises(StoreError, match="a fault of ours"):
        ask(tmp_path / "x.duckdb", "break")
    assert ask(tmp_path / "x.duckdb", "still there") == {"question": "still there"}


def test_only_the_owner_may_come_near(listener: Listener) -> None:
    assert stat.S_IMODE(listener.place.lstat().st_mode) == 0o600


def test_on_loopback_a_wrong_token_gets_nothing(tmp_path: Path) -> None:
    """E9: any user of the machine, and any page in a browser, can reach a port on loopback."""
    listener = Listener(tmp_path / "x.duckdb", answer, unix=False)
    try:
        port = int(listener.place.read_text().split()[0])
        for said in ({"ask": "x"}, {"ask": "x", "token": ""}, {"ask": "x", "token": "wrong"}, {"ask": "x", "token": 1}):
            with socket.create_connection(("127.0.0.1", port)) as caller:
                caller.sendall(json.dumps(said).encode() + b"\n")
                assert "wrong token" in json.loads(caller.makefile().readline())["error"]
    finally:
        listener.close()


@pytest.mark.parametrize(
    "line",
    [b"{}\n", b"[]\n", b"nonsense\n", b'{"ask": 3, "details": 4}\n', b'{"ask": "x", "details": []}\n', b"\xff\n"],
)
def test_nonsense_is_told_so(tmp_path: Path, line: bytes) -> None:
    listener = Listener(tmp_path / "x.duckdb", lambda question, details: question + details["x"])
    try:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(listener.place))
            caller.sendall(line)
            assert "error" in json.loads(caller.makefile().readline())
    finally:
        listener.close()


def test_a_question_without_end_is_cut_off(tmp_path: Path) -> None:
    listener = Listener(tmp_path / "x.duckdb", answer)
    try:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(listener.place))
            with pytest.raises(OSError):
                caller.sendall(b"x" * QUESTION_BYTES_MAX * 50)
    finally:
        listener.close()


def test_nobody_listens_before_and_after(tmp_path: Path) -> None:
    file = tmp_path / "x.duckdb"
    with pytest.raises(Nobody):
        ask(file, "x")
    listener = Listener(file, answer)
    listener.close()
    assert not listener.place.exists()
    with pytest.raises(Nobody):
        ask(file, "x")


@pytest.mark.parametrize("unix", [True, False], ids=["unix", "loopback"])
def test_what_a_killed_process_leaves_is_recognised_and_removed(tmp_path: Path, unix: bool) -> None:
    """F1."""
    file = tmp_path / "x.duckdb"
    script = (
        "import os, signal, sys\nfrom amble.control.channel import Listener\n"
        f"Listener(sys.argv[1], lambda question, details: 0, unix={unix})\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(file)], check=False).returncode == -9
    [left] = [place for place in places(file) if place.exists()]
    with pytest.raises(Nobody):
        ask(file, "x")
    assert not left.exists()


def test_a_listener_takes_the_place_of_one_that_was_killed(tmp_path: Path) -> None:
    place = next(places(tmp_path / "x.duckdb"))
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    listener = Listener(tmp_path / "x.duckdb", answer)
    try:
        assert ask(tmp_path / "x.duckdb", "x") == {"question": "x"}
    finally:
        listener.close()


def test_a_path_too_long_for_a_socket_has_its_place_elsewhere(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    listener = Listener(folder / "x.duckdb", answer)
    try:
        assert listener.place.parent != folder
        assert listener.place.parent.stat().st_mode & 0o077 == 0
        assert ask(folder / "x.duckdb", "x") == {"question": "x"}
    finally:
        listener.close()
