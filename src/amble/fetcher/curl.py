"""One easy handle: the options every request shares, what one request adds, where it may connect, when it was sent."""

from __future__ import annotations

import errno
import os
import socket

import pycurl

from amble.clock import Clock
from amble.core.outcome import Failure
from amble.fetcher.body import ACCEPT_ENCODING
from amble.fetcher.calls import OnDone
from amble.fetcher.guard import NO_PIN, Pin, Route
from amble.fetcher.multi import Multi
from amble.fetcher.reader import AnswerReader
from amble.fetcher.request import FetchRequest
from amble.fetcher.result import FetchResult
from amble.fetcher.settings import FetcherSettings

READ_BYTES = 64 * 1024  # at once: a page comes in few pieces, and none is large enough to hold the loop
STALE = "the kept connection was closed as it was used"

_SUPPRESS_CONNECT_HEADERS = 265  # known to libcurl since 7.54, without a name in pycurl
_ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


class _Lent:
    """A descriptor for pycurl, which makes a copy of it and drops ours."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def fileno(self) -> int:
        return self._fd

    def __del__(self) -> None:
        os.close(self._fd)


def _nobody(result: FetchResult | None, error: BaseException | None) -> None:
    """Waits for an idle handle."""


class Transfer(AnswerReader):
    """An easy handle and what it is doing. Used again and again: making one costs more than a request."""

    __slots__ = (
        "_custom_headers",
        "_multi",
        "_pin",
        "_plain_headers",
        "_proxy",
        "_settings",
        "_timeout_ms",
        "_timeout_whole_ms",
        "_was_sent",
        "began",
        "easy",
        "on_done",
        "peer_ip",
        "reused",
        "sent_at",
        "url",
        "window_bytes",
        "window_from",
    )

    def __init__(self, settings: FetcherSettings, ca_file: str, multi: Multi[Transfer], clock: Clock) -> None:
        super().__init__(clock)
        self._settings = settings
        self._multi = multi
        self._plain_headers = _headers_of_every_request(settings)
        self._custom_headers = False
        self._pin = NO_PIN
        self._proxy: str | None = None
        self._timeout_ms = 0
        self._timeout_whole_ms = _ms(settings.http_timeout)
        self.began = 0.0  # monotonic instant at which it was asked for
        self.on_done: OnDone[FetchResult] = _nobody  # who waits for it
        self.easy = pycurl.Curl()
        self._set_shared_options(settings, ca_file)

    # --- What libcurl is told --------------------------------------------------------------------------------------

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
        setopt(pycurl.DNS_CACHE_TIMEOUT, -1)  # else it goes through all pins that it holds whenever a transfer ends
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
        setopt(pycurl.HEADERFUNCTION, self.on_header)
        setopt(pycurl.WRITEFUNCTION, self.on_body)
        setopt(pycurl.OPENSOCKETFUNCTION, self._on_open_socket)
        setopt(pycurl.PREREQFUNCTION, self._on_send)

    def prepare(self, request: FetchRequest, url: str, route: Route, left_s: float | None) -> None:
        """Make the handle ready for one request; nothing of the last one is left."""
        self.expect(request, self._settings.max_response_bytes)
        self.url = url
        self.sent_at: float | None = None
        self.peer_ip: str | None = None
        self.reused = True
        self.window_from: float | None = None
        self.window_bytes = 0
        self._was_sent = False
        setopt = self.easy.setopt
        setopt(pycurl.URL, url)
        self._set_pin(route.pin)
        timeout_ms = self._timeout_whole_ms if left_s is None else _ms(left_s)
        if timeout_ms != self._timeout_ms:
            setopt(pycurl.TIMEOUT_MS, timeout_ms)
            self._timeout_ms = timeout_ms
        extra = request.extra_headers() if request.headers or request.etag or request.last_modified else None
        if extra or self._custom_headers:
            setopt(pycurl.HTTPHEADER, _merged(self._plain_headers, extra or []))
            self._custom_headers = bool(extra)
        if route.proxy != self._proxy:
            self._set_proxy(route.proxy)

    def _set_pin(self, pin: Pin) -> None:
        """libcurl holds the pins of all handles, each until its handle takes another."""
        if pin is self._pin:
            self.easy.setopt(pycurl.RESOLVE, pin.resolve)  # another handle that had it may have taken another
            return
        self.easy.setopt(pycurl.RESOLVE, self._pin.forget + pin.resolve)
        self.easy.setopt(pycurl.CONNECT_TO, pin.connect_to)
        self._pin = pin

    def _set_proxy(self, proxy: str | None) -> None:
        self.easy.setopt(pycurl.PROXY, proxy or "")
        username, password = self._settings.http_proxy_username, self._settings.http_proxy_password
        if proxy is not None and username is not None:
            self.easy.setopt(pycurl.PROXYUSERNAME, username)
            self.easy.setopt(pycurl.PROXYPASSWORD, password.get_secret_value() if password else "")
        self._proxy = proxy

    def let_go(self) -> None:
        super().let_go()
        self.on_done = _nobody

    @property
    def proxied(self) -> bool:
        return self._proxy is not None

    # --- What libcurl asks -----------------------------------------------------------------------------------------

    def _on_open_socket(self, _purpose: int, wanted: pycurl.CurlSockAddr) -> _Lent | int:
        """libcurl is about to connect. The last word on addresses, whatever was decided before [D5]."""
        if not self._pin.allows(wanted.addr[0]):
            self.stop(Failure.ADDRESS_FORBIDDEN, f"{wanted.addr[0]} was not among the checked addresses")
            return int(pycurl.SOCKET_BAD)
        self.reused = False
        self._multi.expect_socket()
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
            self.stop(Failure.NETWORK_RESET, STALE, local_fault=True)
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


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))  # zero would mean: for ever


def _headers_of_every_request(settings: FetcherSettings) -> list[str]:
    lines = [
        f"User-Agent: {settings.identity}",
        f"Accept: {_ACCEPT}",
        f"Accept-Encoding: {ACCEPT_ENCODING if settings.compress else 'identity'}",
    ]
    if settings.from_header is not None:
        lines.append(f"From: {settings.from_header}")
    if not settings.http_keep_alive:
        lines.append("Connection: close")
    return lines


def _merged(lines: list[str], extra: list[str]) -> list[str]:
    """The lines of every request, save those that this request says otherwise."""
    if not extra:
        return lines
    said = {line.partition(":")[0].lower() for line in extra}
    return [line for line in lines if line.partition(":")[0].lower() not in said] + extra
