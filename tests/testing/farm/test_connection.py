"""The wire: requests in pieces, in pairs and in error; answers in turn, in full and not at all."""

from __future__ import annotations

import socket
import time
from email.utils import parsedate_to_datetime

import pytest

from amble.testing.farm import Pages, Site
from amble.testing.farm.connection import read_head
from amble.testing.farm.faults import Slow
from amble.testing.farm.outages import Outage
from amble.testing.lab.servers import LogNormal

from .conftest import Start
from .helpers import Client, eventually, raw, read_until_closed, send, settled

FOREVER = 1e9


def exchange(port: int, *pieces: bytes) -> bytes:
    """Write these pieces with pauses between them; read until the farm closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.01)
        return read_until_closed(connection)


def test_one_connection_serves_many_requests_and_many_sites(start: Start) -> None:
    farm = start(Site(name="a.test"), Site(name="b.test", pages=Pages(3)))
    with Client(farm) as client:
        pages = [client.get(host, path) for host, path in [("a.test", "/"), ("b.test", "/"), ("A.test", "/robots.txt")]]
    assert [page.status for page in pages] == [200, 200, 200]
    assert b"a.test" in pages[0].body
    assert b"b.test" in pages[1].body
    log = farm.log()
    assert [entry.host for entry in log] == ["a.test", "b.test", "a.test"]
    assert len({entry.connection for entry in log}) == 1


def test_requests_written_at_once_are_answered_in_turn(start: Start) -> None:
    farm = start(Site(name="a.test", pages=Pages(4, 3_000), features=(Slow(every=2, delay_s=0.05),)))
    pages = list(Pages(4).paths())
    with raw(farm, *(("a.test", path) for path in (pages[2], pages[1], pages[2]))) as connection:
        send(connection, ("a.test", "/nothing"))
        connection.sendall(b"GET / HTTP/1.0\r\nHost: a.test\r\n\r\n")
        answers = read_until_closed(connection).decode().split("HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == ["200", "200", "200", "404", "200"]
    assert [f"{path}" in answer for path, answer in zip((pages[2], pages[1]), answers, strict=False)] == [True, True]
    log = settled(farm, 5)
    assert [entry.target for entry in log] == [pages[2], pages[1], pages[2], "/nothing", "/"]
    assert all(entry.in_flight == 1 and entry.complete for entry in log)


def test_a_head_may_come_in_pieces(start: Start) -> None:
    farm = start()
    answer = exchange(farm.port, b"GET / HT", b"TP/1.1\r\nHost: a.t", b"est\r\nConnection: close\r\n\r", b"\n")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"</html>\n")


BAD = {
    # what is written, status
    "no request at all": (b"hello\r\n\r\n", 400),
    "an address of another kind": (b"GET ftp://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 400),
    "a header without a colon": (b"GET / HTTP/1.1\r\nHost: a.test\r\nbroken\r\n\r\n", 400),
    "a name the farm does not have": (b"GET / HTTP/1.0\r\nHost: c.test\r\n\r\n", 421),
    "no name": (b"GET / HTTP/1.0\r\n\r\n", 421),
    "another method": (b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 2\r\n\r\nxx", 405),
}


@pytest.mark.parametrize(("written", "status"), BAD.values(), ids=BAD)
def test_what_no_site_answers(start: Start, written: bytes, status: int) -> None:
    farm = start()
    assert exchange(farm.port, written).startswith(f"HTTP/1.1 {status} ".encode())
    assert farm.log() == []


def test_endless_heads_are_cut(start: Start) -> None:
    farm = start()
    with socket.create_connection(("127.0.0.1", farm.port), timeout=10) as connection, pytest.raises(OSError):
        connection.sendall(b"x" * 20_000_000)


def test_head_is_get_without_a_body(start: Start) -> None:
    farm = start()
    with Client(farm) as client:
        got, head, after = client.get("a.test"), client.get("a.test", method="HEAD"), client.get("a.test")
    assert head.status == 200
    assert head.body == b""
    assert int(head.headers["content-length"]) == len(got.body) == len(after.body)
    assert [entry.body_bytes for entry in farm.log()] == [len(got.body), 0, len(got.body)]


def test_not_modified_has_no_body_and_the_connection_lives_on(start: Start) -> None:
    farm = start()
    with Client(farm) as client:
        first = client.get("a.test")
        again = client.get("a.test", If_None_Match=first.headers["etag"])
        third = client.get("a.test")
    assert (again.status, again.body, third.body) == (304, b"", first.body)
    assert farm.log()[1].headers == {"accept-encoding": "identity", "if-none-match": first.headers["etag"]}


def test_the_date_is_told_and_is_todays(start: Start) -> None:
    with Client(start()) as client:
        said = parsedate_to_datetime(client.get("a.test").headers["date"]).timestamp()
    assert abs(said - time.time()) < 5


def test_an_answer_larger_than_the_kernel_takes_is_sent_as_the_client_reads(start: Start) -> None:
    farm = start(Site(name="a.test", pages=Pages(1, 20_000_000, validators=False)))
    with raw(farm, ("a.test", "/")) as connection:
        connection.sendall(b"GET / HTTP/1.0\r\nHost: a.test\r\n\r\n")
        eventually(farm.log)
        (waiting,) = farm.log()
        assert waiting.ended is None
        data = read_until_closed(connection)
    first, second = settled(farm, 2)
    assert first.complete
    assert second.complete
    assert first.ended is not None
    assert second.ended is not None
    assert first.ended < second.ended
    assert data.count(b"</html>\n") == 2
    assert len(data) > 2 * first.body_bytes > 39_000_000


def test_the_service_takes_its_time_and_counts_as_in_flight(start: Start) -> None:
    farm = start(Site(name="a.test", latency=LogNormal(0.1, 0.0)))
    connections = [raw(farm, ("a.test", "/")) for _ in range(3)]
    log = settled(farm, 3)
    for connection in connections:
        connection.close()
    assert [entry.in_flight for entry in log] == [1, 2, 3]
    assert all(entry.ended is not None and entry.ended - entry.arrived >= 0.1 for entry in log)
    with Client(farm) as client:
        client.get("a.test")
    assert farm.log()[-1].in_flight == 1


def test_a_client_that_goes_early_is_noted(start: Start) -> None:
    farm = start(Site(name="a.test", latency=LogNormal(30.0, 0.0)))
    raw(farm, ("a.test", "/")).close()
    (entry,) = settled(farm, 1)
    assert not entry.complete
    assert entry.body_bytes == 0


def test_a_site_that_resets(start: Start) -> None:
    farm = start(Site(name="a.test", outages=(Outage(0.0, FOREVER),)))
    with raw(farm, ("a.test", "/")) as connection, pytest.raises(ConnectionResetError):
        read_until_closed(connection)
    (entry,) = settled(farm, 1)
    assert (entry.status, entry.outage, entry.complete) == (None, True, False)


def test_a_site_that_says_nothing(start: Start) -> None:
    farm = start(Site(name="a.test", outages=(Outage(0.0, FOREVER, "hang"),)))
    with raw(farm, ("a.test", "/")) as connection:
        connection.settimeout(0.1)
        with pytest.raises(TimeoutError):
            connection.recv(1)
        eventually(farm.log)
        assert farm.log()[0].ended is None
    (entry,) = settled(farm, 1)
    assert (entry.status, entry.complete) == (None, False)


def test_reading_a_head() -> None:
    read = read_head(b"GET /a?b=c HTTP/1.1\r\nHost: A.Test:81\r\nX-Y:  z \r\nx-y: w", 7.0)
    assert read is not None
    assert (read.method, read.target, read.path, read.query) == ("GET", "/a?b=c", "/a", "b=c")
    assert (read.host, read.port, read.arrived) == ("a.test", ":81", 7.0)
    assert read.headers == {"host": "A.Test:81", "x-y": "w"}
    assert read.url("b.test", "/x") == "http://b.test:81/x"
