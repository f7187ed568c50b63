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
from amble.fetcher.kept import KeptConnections, Place, peer_of
from amble.fetcher.multi import Multi
from amble.fetcher.reader import AnswerReader
from amble.fetcher.request import FetchRequest
from amble.fetcher.result import FetchResult
from amble.fetcher.sessions import TlsSessions
from amble.fetcher.settings import FetcherSettings
from amble.fetcher.sockets import bytes_received

TCP_USER_TIMEOUT_S = 10.0  # what was sent and never acknowledged: nobody is there any more
READ_BYTES = 64 * 1024  # at once: a page comes in few pieces, and none is large enough to hold the loop
STALE = "the kept connection was closed as it was used"
REFUSED = "the request was refused, and not answered"
REPREPARED_MAX = 5  # kept connections that turned out to be closed, before a new one is made

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
        "_kept",
        "_multi",
        "_plain_headers",
        "_proxy",
        "_refused",
        "_sessions",
        "_settings",
        "_share",
        "_timeout_ms",
        "_timeout_whole_ms",
        "_uses_new",
        "_was_sent",
        "aside",
        "began",
        "easy",
        "header_timeout_s",
        "is_repeat",
        "keeps_none",
        "on_done",
        "peer_ip",
        "pin",
        "place",
        "prepared_at",
        "reused",
        "sent_at",
        "stood_still_s",
        "unusable",
        "url",
        "window_bytes",
        "window_from",
        "wire_from",
    )

    def __init__(
        self,
        settings: FetcherSettings,
        ca_file: str,
        multi: Multi[Transfer],
        clock: Clock,
        kept: KeptConnections,
        sessions: TlsSessions,
    ) -> None:
        super().__init__(clock)
        self._settings = settings
        self._multi = multi
        self._kept = kept
        self._sessions = sessions
        self._share: pycurl.CurlShare | None = None
        self._uses_new = False  # a new connection
        self.keeps_none = False  # and closes it afterwards
        self.place: Place | None = None  # the connection, once the request is written there
        self._plain_headers = _headers_of_every_request(settings)
        self._custom_headers = False
        self.pin = NO_PIN
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

    def prepare(
        self, request: FetchRequest, url: str, route: Route, left_s: float | None, keeps_none: bool = False
    ) -> None:
        """Make the handle ready for one request; nothing of the last one is left."""
        self.expect(request, self._settings.max_response_bytes)
        self.url = url
        self.prepared_at = self._clock.monotonic()
        self.aside = False  # holds no slot while it waits for its connection
        self.sent_at: float | None = None
        self.peer_ip: str | None = None
        self.reused = True
        self.window_from: float | None = None  # by a clock that stands when this process does
        self.window_bytes = 0
        self.stood_still_s = 0.0  # while it was under way
        self.wire_from: int | None = None
        self.unusable: Place | None = None  # the kept connection that was chosen, if it is not to be used
        self.is_repeat = False  # libcurl was about to write the request a second time
        self._refused = 0
        self.header_timeout_s = self._settings.header_timeout_s
        if request.header_timeout_s is not None:
            self.header_timeout_s = min(self.header_timeout_s, request.header_timeout_s)
        self._was_sent = False
        setopt = self.easy.setopt
        setopt(pycurl.URL, url)
        self._set_pin(self._kept.pin_for(route.pin))
        if keeps_none != self.keeps_none:
            self.keeps_none = keeps_none
            setopt(pycurl.FORBID_REUSE, keeps_none or not self._settings.http_keep_alive)
            self._custom_headers = True
        if request.new_connection != self._uses_new:
            self._use_new(request.new_connection)
        timeout_ms = self._timeout_whole_ms if left_s is None else _ms(left_s)
        if timeout_ms != self._timeout_ms:
            setopt(pycurl.TIMEOUT_MS, timeout_ms)
            self._timeout_ms = timeout_ms
        extra = request.extra_headers() if request.headers or request.etag or request.last_modified else None
        if extra or self._custom_headers:
            closes = keeps_none and self._settings.http_keep_alive
            lines = [*self._plain_headers, *_CLOSE] if closes else self._plain_headers
            setopt(pycurl.HTTPHEADER, _merged(lines, extra or []))
            self._custom_headers = bool(extra)
        if route.proxy != self._proxy:
            self._set_proxy(route.proxy)

    def _set_pin(self, pin: Pin) -> None:
        """libcurl holds the pins of all handles, each until its handle takes another."""
        if pin is self.pin:
            self.easy.setopt(pycurl.RESOLVE, pin.resolve)  # another handle that had it may have taken another
            return
        self.easy.setopt(pycurl.RESOLVE, self.pin.forget + pin.resolve)
        self.easy.setopt(pycurl.CONNECT_TO, pin.connect_to)
        self.pin = pin
        scheme, _, rest = self.url.partition("://")
        share = self._sessions.share_for(rest.partition("/")[0]) if scheme == "https" else self._share
        if share is not self._share:
            if self._share is not None:
                self.easy.unsetopt(pycurl.SHARE)
            self.easy.setopt(pycurl.SHARE, share)
            self._share = share

    def _use_new(self, new: bool) -> None:
        self.easy.setopt(pycurl.FRESH_CONNECT, new)
        self._uses_new = new

    def choose_anew(self) -> None:
        """Make ready to choose another connection than the one that was refused; nothing has been written."""
        place, self.unusable = self.unusable, None
        self._refused += 1
        if place is not None and self._kept.is_dead_http2(place):
            self.avoid_silent()
        if self._refused >= REPREPARED_MAX:
            self._use_new(True)

    def avoid_silent(self) -> None:
        """See to it that the host's HTTP/2 connections, which libcurl does not close, are not chosen again."""
        if self._proxy is not None:  # whose name is the key of them all
            self._kept.distrust(self.peer)
            self._use_new(True)
        else:
            self._kept.renew(self.pin)
            self._set_pin(self._kept.pin_for(self.pin))

    @property
    def peer(self) -> str:
        """Who keeps connections, or does not."""
        return peer_of(self.url, self.pin, self._proxy)

    def is_flood(self) -> bool:
        """Whether more has come since the request was written than any answer takes, where the system says how much.
        libcurl counts bodies only."""
        if self.place is None:
            return False
        received = bytes_received(self.easy.getinfo(pycurl.ACTIVESOCKET))
        if received is None:
            return False
        if self.wire_from is None:
            self.wire_from = received if self.reused else 0
        return self.is_over((received - self.wire_from) // self._kept.users(self.place))

    @property
    def may_share(self) -> bool:
        """Whether its connection may serve others, too, so that it is not closed when this ends."""
        return self._settings.http2 and self.http_version in (None, "2") and self.url.startswith("https:")

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
        try:
            return self._open_socket(wanted)
        except Exception as error:
            self.fault(error)
            return int(pycurl.SOCKET_BAD)

    def _open_socket(self, wanted: pycurl.CurlSockAddr) -> _Lent | int:
        if self._was_sent:
            self.is_repeat = True  # see `_may_send`; and no connection is opened that nothing is sent on
            return int(pycurl.SOCKET_BAD)
        if not self.pin.allows(wanted.addr[0]):
            self.stop(Failure.ADDRESS_FORBIDDEN, f"{wanted.addr[0]} was not among the checked addresses")
            return int(pycurl.SOCKET_BAD)
        self.reused = False
        self._multi.expect_socket()
        try:
            made = socket.socket(wanted.family, wanted.socktype, wanted.protocol)
            if _USER_TIMEOUT is not None:
                timeout_s = max(TCP_USER_TIMEOUT_S, self._settings.connect_timeout_s)  # it holds for connecting, too
                made.setsockopt(socket.IPPROTO_TCP, _USER_TIMEOUT, _ms(timeout_s))
            return _Lent(made.detach())
        except OSError as refused:
            name = errno.errorcode.get(refused.errno or 0, "error")
            self.stop(Failure.NETWORK_CONNECTION_REFUSED, f"no socket: {name}", local_fault=True)
            return int(pycurl.SOCKET_BAD)

    def _on_send(self, peer_ip: str, _local_ip: str, _port: int, local_port: int) -> int:
        """A connection stands, new or kept; the request is written next."""
        try:
            return self._may_send(peer_ip, local_port)
        except Exception as error:
            self.fault(error)
            return int(pycurl.PREREQFUNC_ABORT)

    def _may_send(self, peer_ip: str, local_port: int) -> int:
        self.peer_ip = peer_ip
        if self.stopped is not None and self.stopped.local_fault:
            self.stopped = None  # one address could not be tried, another was reached
        if not self.pin.allows(peer_ip):
            self.stop(Failure.ADDRESS_FORBIDDEN, f"connected to {peer_ip}, which was not checked")
            return int(pycurl.PREREQFUNC_ABORT)
        if self._was_sent:
            # libcurl repeats a request by itself when a kept connection turns out to be dead, or an HTTP/2 server
            # refuses the stream: a send that nobody has paid for. Who asked us gets to ask again, in its turn.
            self.is_repeat = True
            return int(pycurl.PREREQFUNC_ABORT)
        place = (peer_ip, local_port)
        if self.reused and not self._kept.may_use(place, self._clock.monotonic):
            self.unusable = place
            return int(pycurl.PREREQFUNC_ABORT)
        self.place = place
        self._kept.enter(place, is_new=not self.reused)
        self._was_sent = True
        self._multi.sending.append(self)
        return int(pycurl.PREREQFUNC_OK)

    def mark_sent(self, now: float) -> None:
        self.sent_at = now
        if self.request.on_sent is not None:
            try:
                self.request.on_sent(now)
            except Exception as error:
                self.fault(error)


_CLOSE = ("Connection: close",)
_USER_TIMEOUT: int | None = getattr(socket, "TCP_USER_TIMEOUT", None)


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
        lines += _CLOSE
    return lines


def _merged(lines: list[str], extra: list[str]) -> list[str]:
    """The lines of every request, save those that this request says otherwise."""
    if not extra:
        return lines
    said = {line.partition(":")[0].lower() for line in extra}
    return [line for line in lines if line.partition(":")[0].lower() not in said] + extra
