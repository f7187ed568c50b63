"""One exchange as a site sees it: what was asked, and what is answered."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(slots=True)
class Request:
    """A request that has arrived. Header names are in lower case."""

    method: str
    target: str  # as on the request line: path and query
    host: str  # without port, in lower case
    port: str  # as the client wrote it, with its colon; empty where there was none
    headers: dict[str, str]
    arrived: float  # monotonic instant at which the kernel had it
    path: str = ""
    query: str = ""
    now: float = 0.0  # seconds since this host was first asked
    memory: dict[str, int] = field(default_factory=dict)  # what the host remembers from one request to the next

    def __post_init__(self) -> None:
        self.path, _, self.query = self.target.partition("?")

    def url(self, name: str, path: str) -> str:
        """The URL of a page on this or another site of the farm, at the port that this client uses."""
        return f"http://{name}{self.port}{path}"


Broken = Literal["reset", "hang"]


@dataclass(slots=True)
class Response:
    """An answer, as parts that are written to the socket without being joined."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: tuple[bytes | memoryview, ...] = ()
    wait_s: float = 0.0  # spent inside the server before the answer leaves
    broken: Broken | None = None  # no answer: the connection is cut, or nothing ever comes
    refused: bool = False  # by the limiter
    not_before: float | None = None  # with a Retry-After: the monotonic instant before which nobody should ask
    outage: bool = False


HTML = "text/html; charset=utf-8"


def html(text: str, status: int = 200, **headers: str) -> Response:
    """A short page; underscores in the names of headers stand for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, {"Content-Type": HTML, **named}, (text.encode(),))


def redirect(status: int, location: str) -> Response:
    return html(f'<p>moved to <a href="{location}">{location}</a></p>', status, Location=location)


def not_found() -> Response:
    return html("<!doctype html><title>Not found</title><h1>Nothing here</h1>", 404)
