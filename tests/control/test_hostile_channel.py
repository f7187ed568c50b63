"""The control channel among strangers: who may answer and ask, what lies where a socket should, callers without end."""

from __future__ import annotations

import errno
import json
import os
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amble.control import channel
from amble.control.channel import CALLERS_MAX, Listener, Nobody, ask, caller_has_gone
from amble.control.places import places
from amble.errors import StoreError

PATIENCE_S = 30.0


def answer(question: str, details: dict[str, Any]) -> Any:
    return {"question": question, **details}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "x.duckdb"


@pytest.fixture
def listener(file: Path) -> Iterator[Listener]:
    made = Listener(file, answer)
    yield made
    made.close()


def reply_of(caller: socket.socket) -> Any:
    with caller.makefile() as lines:
        return json.loads(lines.readline())


def call(listener: Listener) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX)
    caller.settimeout(PATIENCE_S)
    caller.connect(str(listener.place))
    return caller


# --- who answers -----------------------------------------------------------------------------------------------------


def test_another_users_socket_does_not_answer_for_us(file: Path, listener: Listener) -> None:
    """In a sticky folder anybody can put one beside our file."""
    if os.getuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(listener.place, 12345, 12345)
    file.touch()
    with pytest.raises(Nobody):
        ask(file, "audit")
    os.chown(file, 12345, 12345)  # root may ask about another user's crawl; but it is root who listens here
    assert ask(file, "audit") == {"question": "audit"}


@pytest.fixture
def foreign_peer(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is at the other end, the system says it is another user."""
    monkeypatch.setattr(struct, "unpack", lambda form, told: (1, 54321, 1))


@pytest.mark.usefixtures("foreign_peer")
def test_a_process_of_another_user_is_not_believed(file: Path) -> None:
    with pytest.raises(Nobody):
        ask(file, "stop")


@pytest.mark.usefixtures("foreign_peer")
def test_a_caller_of_another_user_is_not_answered(listener: Listener) -> None:
    with call(listener) as caller:
        try:
            caller.sendall(b'{"ask": "stop"}\n')
            assert caller.recv(100) == b""
        except ConnectionError:
            pass


# --- what lies there -------------------------------------------------------------------------------------------------


THINGS: dict[str, Any] = {
    "a pipe": os.mkfifo,
    "a text": lambda place: place.write_text("my notes\n"),
    "an empty file": lambda place: place.touch(),
    "a note with a port of nonsense": lambda place: place.write_text("99999 x"),
    "bytes": lambda place: place.write_bytes(bytes(range(256))),
    "a folder": lambda place: place.mkdir(),
    "a link that leads nowhere": lambda place: place.symlink_to("/nowhere/at/all"),
    "a link to a device": lambda place: place.symlink_to("/dev/zero"),
}


@pytest.mark.timeout(60)
@pytest.mark.parametrize("thing", THINGS, ids=str)
@pytest.mark.parametrize("unix", [True, False], ids=["unix", "loopback"])
def test_what_is_no_socket_of_ours_is_passed_by_and_left_alone(thing: str, unix: bool, file: Path) -> None:
    place = next(places(file))
    THINGS[thing](place)
    before = place.lstat()
    with pytest.raises(Nobody):
        ask(file, "x")
    listener = Listener(file, answer, unix=unix)
    try:
        assert listener.place != place
        assert ask(file, "x") == {"question": "x"}
    finally:
        listener.close()
    assert place.lstat().st_ino == before.st_ino


def test_a_listener_is_never_there_before_it_listens(file: Path) -> None:
    """Who asks in between would take it for one that a killed process left, and remove it."""
    stop = threading.Event()

    def ask_all_the_time() -> None:
        while not stop.is_set():
            with suppress(Nobody):
                ask(file, "x")

    askers = [threading.Thread(target=ask_all_the_time) for _ in range(3)]
    for asker in askers:
        asker.start()
    try:
        for _ in range(150):
            listener = Listener(file, answer)
            assert ask(file, "x") == {"question": "x"}
            listener.close()
    finally:
        stop.set()
        for asker in askers:
            asker.join()


# --- callers without end ---------------------------------------------------------------------------------------------


def test_a_shortage_of_descriptors_does_not_end_the_listener(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listener = Listener(file, answer)
    real, short = listener._socket, [errno.EMFILE, errno.ENFILE]

    class Short:
        def accept(self) -> Any:
            if short:
                raise OSError(short.pop(), "too many open files")
            return real.accept()

        def __getattr__(self, name: str) -> Any:
            return getattr(real, name)

    monkeypatch.setattr(listener, "_socket", Short())
    try:
        for n in range(4):
            assert ask(file, "x", n=n) == {"question": "x", "n": n}
        assert short == []
    finally:
        listener.close()


def test_callers_are_bounded_and_those_who_say_nothing_are_let_go(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "IDLE_S", 1.0)
    listener = Listener(file, answer)
    idle = [call(listener) for _ in range(CALLERS_MAX)]
    try:
        with call(listener) as one_too_many:
            assert "too many" in reply_of(one_too_many)["error"]
        assert [caller.recv(1) for caller in idle] == [b""] * CALLERS_MAX
        assert ask(file, "x") == {"question": "x"}
    finally:
        for caller in idle:
            caller.close()
        listener.close()


def test_a_line_that_comes_byte_by_byte_has_its_time_as_a_whole(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channel, "IDLE_S", 1.0)
    listener = Listener(file, answer)
    try:
        until = time.monotonic() + PATIENCE_S
        with call(listener) as caller, suppress(OSError):
            while time.monotonic() < until:
                caller.sendall(b"x")
                time.sleep(0.1)
        assert time.monotonic() < until
    finally:
        listener.close()


def test_whoever_answers_learns_that_nobody_waits_any_more(file: Path) -> None:
    gone = threading.Event()

    def slow(question: str, details: dict[str, Any]) -> Any:
        until = time.monotonic() + PATIENCE_S
        while not caller_has_gone() and time.monotonic() < until:
            time.sleep(0.01)
        if caller_has_gone():
            gone.set()

    listener = Listener(file, slow)
    try:
        caller = call(listener)
        caller.sendall(b'{"ask": "x"}\n')
        time.sleep(0.1)
        assert not gone.is_set()
        caller.close()
        assert gone.wait(PATIENCE_S)
    finally:
        listener.close()


def test_who_asks_while_the_file_is_let_go_of_is_sent_to_the_file(file: Path) -> None:
    """An error of a store that is being closed is no answer."""
    asked, closed = threading.Event(), threading.Event()

    def slow(question: str, details: dict[str, Any]) -> Any:
        asked.set()
        closed.wait(PATIENCE_S)
        raise StoreError("the store is closed", hint="open it again")

    listener = Listener(file, slow)
    told: list[Exception] = []

    def ask_it() -> None:
        with pytest.raises(Nobody) as raised:
            ask(file, "x")
        told.append(raised.value)

    thread = threading.Thread(target=ask_it)
    thread.start()
    assert asked.wait(PATIENCE_S)
    listener.close()
    closed.set()
    thread.join(PATIENCE_S)
    assert len(told) == 1


@pytest.mark.parametrize(
    "line", [b"\n", b"[]\n", b"null\n", b'"error"\n', b"{}\n", b"\xff\xfe\n", b"[" * 100_000 + b"\n"]
)
def test_a_stranger_who_answers_nonsense_is_told_from_ours(line: bytes, file: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(str(next(places(file))))
        stranger.listen(1)

        def serve() -> None:
            caller, _ = stranger.accept()
            with caller:
                caller.recv(65536)
                caller.sendall(line)

        thread = threading.Thread(target=serve)
        thread.start()
        with pytest.raises(StoreError):
            ask(file, "x")
        thread.join()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_QUESTIONS = st.one_of(
    st.binary(max_size=200),
    _JSON.map(lambda said: json.dumps(said).encode()),
    st.fixed_dictionaries(
        {"ask": st.sampled_from(["jobs", "sql", "why", "audit", "stop", "status", "resume", 3, None]) | _JSON},
        optional={"details": _JSON, "token": _JSON},
    ).map(lambda said: json.dumps(said).encode()),
)


@given(line=_QUESTIONS)
@settings(
    max_examples=max(150, settings().max_examples),  # `make soak` asks for more
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_no_line_ends_the_listener(listener: Listener, line: bytes) -> None:
    """Fuzzed; `make soak` tries many more."""
    with call(listener) as caller:
        caller.sendall(line.replace(b"\n", b" ") + b"\n")
        reply = reply_of(caller)
    assert ("error" in reply) != ("answer" in reply)
