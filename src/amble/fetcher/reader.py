"""How an answer is read as libcurl hands it over: line by line, then piece by piece, and stopped where it must be.

Every call may end the transfer; the reason is then left in `stopped`, since libcurl only learns that we stopped.
"""

from __future__ import annotations

from typing import NamedTuple

from amble.clock import Clock
from amble.core.headers import Headers, Malformed, read_header_block
from amble.core.outcome import Failure
from amble.fetcher.body import Body, BodyFault, BodyOverflow, decoders_for
from amble.fetcher.request import FetchRequest

HEADER_BYTES_MAX = 64 * 1024  # of one exchange, interim answers and trailers included [A12]
HEADER_LINES_MAX = 256
FRAMING_PART = 8  # of a body is the most that honest chunks, frames and records add to it: an eighth
INTERIM_ANSWERS_MAX = 10  # [A13]
ERROR_BODY_BYTES_MAX = 64 * 1024  # of an answer that is no page: enough to see what it says [A6]

_ABORT = -1  # any number but the one libcurl expects
_EMPTY_LINES = (b"\r\n", b"\n")
_NOTHING = FetchRequest("")


class Stop(NamedTuple):
    """Why we ended a transfer ourselves. No failure: we had read what we wanted."""

    failure: Failure | None
    detail: str
    local_fault: bool = False
    final: bool = False  # stands whatever the status said


class AnswerReader:
    """Reads one answer after another."""

    __slots__ = (
        "_body",
        "_bytes_max",
        "_clock",
        "_header_bytes",
        "_interim",
        "_lines",
        "error",
        "first_byte_at",
        "headers",
        "http_version",
        "is_page",
        "request",
        "status",
        "stopped",
    )

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def expect(self, request: FetchRequest, body_bytes_max: int) -> None:
        """Make ready for the answer to a request; nothing of the last one is left."""
        self.request = request
        self.status: int | None = None
        self.is_page = False  # whether the body is what was asked for, and not merely what a refusal says
        self.headers: Headers | None = None
        self.http_version: str | None = None
        self.first_byte_at: float | None = None
        self.stopped: Stop | None = None
        self.error: Exception | None = None  # a fault of our own, or raised by what the caller gave us
        self._lines: list[bytes] = []
        self._header_bytes = 0
        self._interim = 0
        self._body: Body | None = None
        self._bytes_max = request.body_bytes_max or body_bytes_max

    def let_go(self) -> None:
        """Forget the answer, so that an idle reader keeps neither a body nor a caller alive."""
        self.request = _NOTHING
        self.headers = None
        self._body = None

    def stop(self, failure: Failure | None, detail: str, *, local_fault: bool = False, final: bool = False) -> int:
        """End the transfer: the first reason stands."""
        if self.stopped is None:
            self.stopped = Stop(failure, detail, local_fault, final)
        return _ABORT

    def fault(self, error: Exception) -> int:
        """End the transfer for a fault of our own, which libcurl would swallow; raised when it has let go."""
        self.error = self.error or error
        return _ABORT

    # --- Headers ---------------------------------------------------------------------------------------------------

    def on_header(self, line: bytes) -> int | None:
        try:
            size = self._header_bytes
            if not size:
                self.first_byte_at = self._clock.monotonic()
            size += len(line)
            self._header_bytes = size
            if size > HEADER_BYTES_MAX:
                return self.stop(Failure.NETWORK_PROTOCOL_ERROR, f"more than {HEADER_BYTES_MAX} bytes of headers")
            self._lines.append(line)
            return self._on_header_block() if line in _EMPTY_LINES else None
        except Exception as error:
            return self.fault(error)

    def _on_header_block(self) -> int | None:
        lines = self._lines
        self._lines = []
        if self.headers is not None:
            return None  # trailers: counted, not believed
        if len(lines) > HEADER_LINES_MAX:
            return self.stop(Failure.NETWORK_PROTOCOL_ERROR, f"more than {HEADER_LINES_MAX} header lines")
        block = read_header_block(lines)
        if isinstance(block, Malformed):
            return self.stop(Failure.NETWORK_PROTOCOL_ERROR, block.reason)
        (version, status), headers = block
        if status < 200:
            return self._on_interim(status)
        self.http_version, self.status, self.headers = version, status, headers
        self.is_page = status < 300
        if not self.is_page:
            self._bytes_max = min(self._bytes_max, ERROR_BODY_BYTES_MAX)
        keep_body = self.request.keep_body
        if keep_body is not None and (refused := keep_body(status, headers)) is not None:
            return self.stop(refused, "refused by its headers", final=True)
        length = headers.get("content-length") if self.is_page else None
        return None if length is None else self._on_length(length)

    def _on_interim(self, status: int) -> int | None:
        """1xx: not the answer yet; its fields mean nothing to us (RFC 9110 15.2)."""
        self._interim += 1
        if status == 101:
            return self.stop(Failure.NETWORK_PROTOCOL_ERROR, "switched protocols unasked")
        if self._interim > INTERIM_ANSWERS_MAX:
            return self.stop(Failure.NETWORK_PROTOCOL_ERROR, f"more than {INTERIM_ANSWERS_MAX} interim answers")
        return None

    def _on_length(self, length: str) -> int | None:
        """A body that is announced to be too long is not begun. Whether the length makes sense, libcurl decides."""
        chars_max = len(str(self._bytes_max))
        if len(length) < chars_max or self.request.keep_prefix:
            return None
        digits = length.lstrip("0")
        if not digits.isascii() or not digits.isdigit() or len(digits) < chars_max:
            return None
        if len(digits) > chars_max or int(digits) > self._bytes_max:
            return self.stop(Failure.CONTENT_TOO_LARGE, f"{digits[:20]} bytes announced")
        return None

    # --- Body ------------------------------------------------------------------------------------------------------

    def on_body(self, data: bytes) -> int | None:
        try:
            body = self._body
            if body is None:
                if self.headers is None:
                    return self.stop(Failure.NETWORK_PROTOCOL_ERROR, "a body before the end of the headers")
                codings = self.headers.elements("content-encoding")
                self._body = body = Body(decoders_for(codings) if codings else (), self._bytes_max)
            body.write(data)
        except BodyOverflow:
            if self.is_page and not self.request.keep_prefix:
                return self.stop(Failure.CONTENT_TOO_LARGE, f"more than {self._bytes_max} bytes")
            return self.stop(None, f"cut at {self._bytes_max} bytes")
        except BodyFault as fault:
            return self.stop(Failure.CONTENT_DECODE_ERROR, str(fault))
        except Exception as error:
            return self.fault(error)
        return None

    def is_over(self, wire_bytes: int) -> bool:
        """Whether more has come over the wire than the longest body takes, framed as it may be: chunk extensions, empty
        frames and records hide from whoever counts the body. If so, the transfer is to end."""
        most = self._bytes_max + self._bytes_max // FRAMING_PART + HEADER_BYTES_MAX
        if wire_bytes <= most:
            return False
        if self.is_page and not self.request.keep_prefix:
            self.stop(Failure.CONTENT_TOO_LARGE, f"more than {most} bytes on the wire")
        else:
            self.stop(None, f"cut at {most} bytes on the wire")
        return True

    @property
    def body_bytes(self) -> int:
        """Of the body, on the wire, so far."""
        return self._body.wire_bytes if self._body is not None else 0

    def whole_body(self) -> bytes:
        """The body after its end was seen. Raises BodyFault where a coding was cut short."""
        return self._body.finish() if self._body is not None else b""

    def cut_body(self) -> bytes:
        """The body up to where we stopped reading."""
        return self._body.prefix() if self._body is not None else b""
