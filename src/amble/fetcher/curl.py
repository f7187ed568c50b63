"""One easy handle: the options every request shares, what one request adds, and what it answers libcurl's questions.

Every callback may end the transfer; it then leaves the reason in `stopped`, since libcurl only learns that we stopped.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import NamedTuple

import pycurl

from amble.clock import Clock
from amble.core.headers import HeaderBlock, Headers, Malformed, read_header_block
from amble.core.outcome import Failure
from amble.fetcher.body import ACCEPT_ENCODING, Body, BodyFault, BodyOverflow, decoders_for
from amble.fetcher.guard import Pin
from amble.fetcher.multi import Multi
from amble.fetcher.request import FetchRequest, KeepBody
from amble.fetcher.settings import FetcherSettings

HEADER_BYTES_MAX = 64 * 1024  # of one exchange, interim answers and trailers included [A12]
HEADER_LINES_MAX = 256
INTERIM_ANSWERS_MAX = 10  # [A13]
READ_BYTES = 64 * 1024  # at once: a page comes in few pieces, and none is large enough to hold the loop
ERROR_BODY_BYTES_MAX = 64 * 1024  # of an answer that is no page: enough to see what it says [A6]

_ABORT = -1  # any number but the one libcurl expects
_SUPPRESS_CONNECT_HEADERS = 265  # known to libcurl since 7.54, without a name in pycurl
_EMPTY_LINES = (b"\r\n", b"\n")
_NOTHING = FetchRequest("")
_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


class Stop(NamedTuple):
    """Why we ended a transfer ourselves. No failure: we had read what we wanted."""

    failure: Failure | None
    detail: str
    local_fault: bool = False
    final: bool = False  # stands whatever the status said


class Route(NamedTuple):
    """Where a transfer may connect to."""

    pin: Pin
    proxy: str | None = None


class _Lent:
    """A descriptor for pycurl, which makes a copy of it and drops ours."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def __del__(self) -> None:
        os.close(self._fd)


class Transfer:
    """An easy handle and what it is doing. Used again and again: making one costs more than a request."""

    __slots__ = (
        "_body",
        "_clock",
        "_custom_headers",
        "_header_bytes",
        "_interim",
        "_lines",
        "_multi",
        "_pin",
        "_plain_headers",
        "_proxy",
        "_settings",
        "_timeout_ms",
        "_was_sent",
        "easy",
        "error",
        "first_byte_at",
        "headers",
        "http_version",
        "peer_ip",
        "request",
        "reused",
        "sent_at",
        "status",
        "stopped",
        "window_bytes",
        "window_from",
    )

    def __init__(self, settings: FetcherSettings, ca_file: str, multi: Multi, clock: Clock) -> None:
        self._settings = settings
        self._multi = multi
        self._clock = clock
        self._plain_headers = _headers_of_every_request(settings)
        self._custom_headers = False
        self._proxy: str | None = None
        self._timeout_ms = 0
        self.easy = pycurl.Curl()
        self._set_shared_options(settings, ca_file)

    def _set_shared_options(self, settings: FetcherSettings, ca_file: str) -> None:
        setopt = self.easy.setopt
        setopt(pycurl.NOSIGNAL, 1)
        setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        setopt(pycurl.REDIR_PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        setopt(pycurl.FOLLOWLOCATION, 0)  # a redirect is another visit, of another pace
        setopt(pycurl.PATH_AS_IS, 1)  # the URL was parsed once, by the standard
        setopt(pycurl.HTTP09_ALLOWED, 0)
        setopt(pycurl.HTTP_CONTENT_DECODING, 0)  # libcurl takes a gzip body cut short for a whole one
        setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS if settings.http2 else pycurl.CURL_HTTP_VERSION_1_1)
        setopt(pycurl.BUFFERSIZE, READ_BYTES)
        setopt(pycurl.FORBID_REUSE, 0 if settings.http_keep_alive else 1)
        setopt(pycurl.CAINFO, ca_file)
        setopt(pycurl.SSL_VERIFYPEER, 1)
        setopt(pycurl.SSL_VERIFYHOST, 2)
        setopt(pycurl.CONNECTTIMEOUT_MS, _ms(settings.connect_timeout_s))
        # Not the environment's: which proxy is used is a setting like any other [D7].
        setopt(pycurl.PROXY, "")
        setopt(pycurl.NOPROXY, "")
        setopt(pycurl.PROXYAUTH, pycurl.HTTPAUTH_BASIC)
        setopt(pycurl.HEADEROPT, pycurl.HEADER_SEPARATE)  # what is meant for the host is not shown to the proxy
        setopt(_SUPPRESS_CONNECT_HEADERS, 1)
        setopt(pycurl.HTTPHEADER, self._plain_headers)
        setopt(pycurl.HEADERFUNCTION, self._on_header)
        setopt(pycurl.WRITEFUNCTION, self._on_body)
        setopt(pycurl.OPENSOCKETFUNCTION, self._on_open_socket)
        setopt(pycurl.PREREQFUNCTION, self._on_send)

    def prepare(self, request: FetchRequest, url: str, route: Route, timeout_s: float) -> None:
        """Make the handle ready for one request; nothing of the last one is left."""
        self.request = request
        self.status: int | None = None
        self.headers: Headers | None = None
        self.stopped: Stop | None = None
        self.error: Exception | None = None
        self.sent_at: float | None = None
        self.first_byte_at: float | None = None
        self.http_version: str | None = None
        self.peer_ip: str | None = None
        self.reused = True
        self.window_from: float | None = None
        self.window_bytes = 0
        self._lines: list[bytes] = []
        self._header_bytes = 0
        self._interim = 0
        self._was_sent = False
        self._body: Body | None = None
        self._pin = route.pin
        setopt = self.easy.setopt
        setopt(pycurl.URL, url)
        timeout_ms = _ms(timeout_s)
        if timeout_ms != self._timeout_ms:
            setopt(pycurl.TIMEOUT_MS, timeout_ms)
            self._timeout_ms = timeout_ms
        setopt(pycurl.RESOLVE, route.pin.resolve)
        setopt(pycurl.CONNECT_TO, route.pin.connect_to)
        extra = request.extra_headers() if request.headers or request.etag or request.last_modified else None
        if extra or self._custom_headers:
            setopt(pycurl.HTTPHEADER, _merged(self._plain_headers, extra or []))
            self._custom_headers = bool(extra)
        if route.proxy != self._proxy:
            self._set_proxy(route.proxy)

    def _set_proxy(self, proxy: str | None) -> None:
        self.easy.setopt(pycurl.PROXY, proxy or "")
        username, password = self._settings.http_proxy_username, self._settings.http_proxy_password
        if proxy is not None and username is not None:
            self.easy.setopt(pycurl.PROXYUSERNAME, username)
            self.easy.setopt(pycurl.PROXYPASSWORD, password.get_secret_value() if password else "")
        self._proxy = proxy

    def let_go(self) -> None:
        """Forget the request, so that an idle handle keeps neither a body nor a caller alive."""
        self.request = _NOTHING
        self.headers = None
        self._body = None

    def stop(self, failure: Failure | None, detail: str, *, local_fault: bool = False, final: bool = False) -> int:
        """End the transfer from a callback: the first reason stands."""
        if self.stopped is None:
            self.stopped = Stop(failure, detail, local_fault, final)
        return _ABORT

    # --- Connecting ------------------------------------------------------------------------------------------------

    def _on_open_socket(self, _purpose: int, wanted: pycurl.CurlSockAddr) -> _Lent | int:
        """libcurl is about to connect. The last word on addresses, whatever was decided before [D5]."""
        if not self._pin.allows(wanted.addr[0]):
            self.stop(Failure.ADDRESS_FORBIDDEN, f"{wanted.addr[0]} was not among the checked addresses")
            return int(pycurl.SOCKET_BAD)
        self.reused = False
        try:
            return _Lent(socket.socket(wanted.family, wanted.socktype, wanted.protocol).detach())
        except OSError as refused:
            name = errno.errorcode.get(refused.errno or 0, "error")
            self.stop(Failure.NETWORK_CONNECTION_REFUSED, f"no socket: {name}", local_fault=True)
            return int(pycurl.SOCKET_BAD)

    def _on_send(self, peer_ip: str, _local_ip: str, _port: int, _local_port: int) -> int:
        """A connection stands, new or kept; the request is written next."""
        self.peer_ip = peer_ip
        if self.stopped is not None and self.stopped.local_fault:
            self.stopped = None  # one address could not be tried, another was reached
        if not self._pin.allows(peer_ip):
            self.stop(Failure.ADDRESS_FORBIDDEN, f"connected to {peer_ip}, which was not checked")
            return int(pycurl.PREREQFUNC_ABORT)
        if self._was_sent:
            # libcurl repeats a request by itself when a kept connection turns out to be dead, or an HTTP/2 server
            # refuses the stream: a send that nobody has paid for. Who asked us gets to ask again, in its turn.
            self.stop(Failure.NETWORK_RESET, "the kept connection was closed as it was used", local_fault=True)
            return int(pycurl.PREREQFUNC_ABORT)
        self._was_sent = True
        self._multi.sending.append(self)
        return int(pycurl.PREREQFUNC_OK)

    def mark_sent(self, now: float) -> None:
        self.sent_at = now
        if self.request.on_sent is not None:
            try:
                self.request.on_sent(now)
            except Exception as error:
                self.error = error

    # --- Headers ---------------------------------------------------------------------------------------------------

    def _on_header(self, line: bytes) -> int | None:
        size = self._header_bytes
        if not size:
            self.first_byte_at = self._clock.monotonic()
        size += len(line)
        self._header_bytes = size
        if size > HEADER_BYTES_MAX:
            return self.stop(Failure.NETWORK_PROTOCOL_ERROR, f"more than {HEADER_BYTES_MAX} bytes of headers")
        self._lines.append(line)
        return self._on_header_block() if line in _EMPTY_LINES else None

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
        if block.status < 200:
            return self._on_interim(block.status)
        self.http_version = lines[0].partition(b" ")[0][5:].decode()
        self.status, self.headers = block
        if self.request.keep_body is not None and (refused := self._ask_judge(self.request.keep_body, block)):
            return refused
        length = self.headers.get("content-length")
        if length is not None and self.is_page and length.isdigit() and int(length) > self._bytes_max():
            return (
                None
                if self.request.keep_prefix
                else self.stop(Failure.CONTENT_TOO_LARGE, f"{length[:20]} bytes announced")
            )
        return None

    def _ask_judge(self, keep_body: KeepBody, block: HeaderBlock) -> int | None:
        try:
            refused = keep_body(*block)
        except Exception as error:
            self.error = error  # ours, not the server's: raised again when libcurl has let go
            return _ABORT
        return None if refused is None else self.stop(refused, "refused by its headers", final=True)

    def _on_interim(self, status: int) -> int | None:
        """1xx: not the answer yet; its fields mean nothing to us (RFC 9110 15.2)."""
        self._interim += 1
        if status == 101 or self._interim > INTERIM_ANSWERS_MAX:
            return self.stop(
                Failure.NETWORK_PROTOCOL_ERROR, "switched protocols unasked" if status == 101 else "1xx storm"
            )
        return None

    # --- Body ------------------------------------------------------------------------------------------------------

    @property
    def is_page(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    def _bytes_max(self) -> int:
        if self.request.body_bytes_max is not None:
            wanted = self.request.body_bytes_max
        else:
            wanted = self._settings.max_response_bytes
        return wanted if self.is_page else min(wanted, ERROR_BODY_BYTES_MAX)

    def _on_body(self, data: bytes) -> int | None:
        try:
            if self._body is None:
                if self.headers is None:
                    return self.stop(Failure.NETWORK_PROTOCOL_ERROR, "a body before the end of the headers")
                codings = self.headers.elements("content-encoding")
                self._body = Body(decoders_for(codings) if codings else (), self._bytes_max())
            self._body.write(data)
        except BodyOverflow:
            if self.is_page and not self.request.keep_prefix:
                return self.stop(Failure.CONTENT_TOO_LARGE, f"more than {self._bytes_max()} bytes")
            return self.stop(None, f"cut at {self._bytes_max()} bytes")
        except BodyFault as fault:
            return self.stop(Failure.CONTENT_DECODE_ERROR, str(fault))
        return None

    @property
    def body_bytes(self) -> int:
        """Of the body, on the wire, so far."""
        return self._body.wire_bytes if self._body is not None else 0

    def whole_body(self) -> bytes:
        """The body after libcurl saw its end. Raises BodyFault where a coding was cut short."""
        return self._body.finish() if self._body is not None else b""

    def cut_body(self) -> bytes:
        """The body up to where we stopped reading."""
        return self._body.prefix() if self._body is not None else b""


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))  # zero would mean: for ever


def _headers_of_every_request(settings: FetcherSettings) -> list[str]:
    lines = [
        f"User-Agent: {settings.user_agent}",
        f"Accept: {_ACCEPT}",
        f"Accept-Encoding: {ACCEPT_ENCODING if settings.compress else 'identity'}",
    ]
    if settings.from_address is not None:
        lines.append(f"From: {settings.from_address}")
    if not settings.http_keep_alive:
        lines.append("Connection: close")
    return lines


def _merged(lines: list[str], extra: list[str]) -> list[str]:
    """The lines of every request, save those that this request says otherwise."""
    if not extra:
        return lines
    said = {line.partition(":")[0].lower() for line in extra}
    return [line for line in lines if line.partition(":")[0].lower() not in said] + extra
