"""The reader alone: whatever libcurl hands over, it answers or stops, and never raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amble.clock import SystemClock
from amble.core.outcome import Failure
from amble.fetcher import FetchRequest
from amble.fetcher.body import BodyFault
from amble.fetcher.reader import AnswerReader

URL = "http://site.test/"


def reader(request: FetchRequest | None = None, bytes_max: int = 1000) -> AnswerReader:
    made = AnswerReader(SystemClock())
    made.expect(request or FetchRequest(URL), bytes_max)
    return made


@pytest.mark.parametrize(
    ("length", "failure"),
    [
        ("1000", None),
        ("0001000", None),
        ("1001", Failure.CONTENT_TOO_LARGE),
        ("0" * 50 + "1001", Failure.CONTENT_TOO_LARGE),
        ("9" * 6000, Failure.CONTENT_TOO_LARGE),
        ("²²²²", None),
        ("١٢٣٤٥", None),
        ("-5000", None),
        ("", None),
        ("0", None),
    ],
    ids=[
        "fits",
        "zeros",
        "over",
        "over with zeros",
        "6000 digits",
        "superscript",
        "Arabic",
        "negative",
        "empty",
        "zero",
    ],
)
def test_announced_lengths(length: str, failure: Failure | None) -> None:
    """A10: no length, however written, costs more than a look at it."""
    answer = reader()
    answer.on_header(b"HTTP/1.1 200 OK\r\n")
    answer.on_header(f"Content-Length: {length}\r\n".encode())
    answer.on_header(b"\r\n")
    assert (answer.stopped.failure if answer.stopped else None) is failure


LINES = st.one_of(
    st.binary(max_size=60).map(lambda line: line.replace(b"\n", b"") + b"\r\n"),
    st.sampled_from([b"\r\n", b"\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 103 Hints\r\n", b"HTTP/2 404 \r\n"]),
    st.tuples(
        st.sampled_from([b"Content-Length", b"Content-Encoding", b"Transfer-Encoding", b"A"]), st.binary(max_size=20)
    ).map(lambda field: field[0] + b": " + field[1].replace(b"\n", b"") + b"\r\n"),
)


@given(st.lists(LINES, max_size=12), st.lists(st.binary(min_size=1, max_size=600), max_size=4))
def test_nothing_that_a_server_sends_raises(lines: list[bytes], pieces: list[bytes]) -> None:
    answer = reader()
    for line in lines:
        if answer.on_header(line) is not None:
            break
    for piece in pieces:
        if answer.on_body(piece) is not None:
            break
    try:
        body = answer.whole_body()
    except BodyFault:
        return
    assert len(body) <= 1000
    assert (answer.status is None) == (answer.headers is None)


def test_the_first_reason_stands() -> None:
    answer = reader()
    answer.stop(Failure.ADDRESS_FORBIDDEN, "first")
    answer.stop(Failure.NETWORK_TIMEOUT, "second")
    assert answer.stopped is not None
    assert answer.stopped.detail == "first"


def test_nothing_is_kept_of_an_answer_that_was_let_go() -> None:
    answer = reader()
    for line in (b"HTTP/1.1 200 OK\r\n", b"\r\n"):
        answer.on_header(line)
    answer.on_body(b"x" * 500)
    answer.let_go()
    assert (answer.headers, answer.body_bytes, answer.request.url) == (None, 0, "")


def test_at_least_one_byte_must_be_wanted() -> None:
    with pytest.raises(ValueError):
        FetchRequest(URL, body_bytes_max=0).check()
