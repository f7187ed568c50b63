"""Every setting of the fetcher: its range, its default and why; what the environment says about proxies.

Durations are seconds. Names follow the options of `CRAWL ... WITH (...)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from urllib.parse import unquote

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from amble.core.addresses import AddressPolicy
from amble.core.checked import CheckedModel
from amble.errors import SettingsError

MIB = 1024 * 1024

# What may stand in a header value that we send: visible ASCII and single spaces between (RFC 9110 5.5).
_SENDABLE = re.compile(r"[!-~]+(?: [!-~]+)*")
_URL = re.compile(r"https?://[^\s()<>]+")
_MAIL = re.compile(r"[^\s()<>@,;:]+@[^\s()<>@,;:]+\.[^\s()<>@,;:]+")
_PROXY = re.compile(r"(?:http://)?(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})/?")


def _sendable(value: str) -> str:
    if not _SENDABLE.fullmatch(value):
        raise ValueError("must be visible ASCII without line breaks")
    return value


def _reachable(value: str) -> str:
    if not _URL.fullmatch(value) and not _MAIL.fullmatch(value):
        raise ValueError("must be a page that says who crawls (https://...) or a mail address")
    return value


def _proxy(value: str) -> str:
    match = _PROXY.fullmatch(value)
    if match is None or not 0 < int(match[2]) < 65536:
        raise ValueError("must be written http://host:port, with the user name and password in their own settings")
    return f"http://{match[1].lower()}:{match[2]}"


def _names(value: Any) -> Any:
    """Names separated by commas or spaces, as environment variables give them."""
    return tuple(name for name in re.split(r"[\s,]+", value) if name) if isinstance(value, str) else value


def _allowed(value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        AddressPolicy.of(opened=value)
    except SettingsError as refused:
        raise ValueError(refused.message) from None
    return value


Timeout = Annotated[float, Field(ge=0.05, le=3_600, allow_inf_nan=False)]
Sendable = Annotated[str, Field(min_length=1, max_length=512), AfterValidator(_sendable)]
Contact = Annotated[str, Field(max_length=256), AfterValidator(_sendable), AfterValidator(_reachable)]
ProxyUrl = Annotated[str, AfterValidator(_proxy)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]
Allowed = Annotated[tuple[str, ...], BeforeValidator(_names), AfterValidator(_allowed)]


class FetcherSettings(CheckedModel):
    """How one request is made and how much of an answer is read."""

    user_agent: Sendable = Field(
        default="amble/0.1", description="product token and contact, such as amble/1.0 (+https://you)"
    )
    contact: Contact | None = Field(
        default=None,
        description="where a site owner finds you: a page or a mail address; added to the User-Agent, a mail address"
        " also sent as From",
    )
    from_address: Sendable | None = Field(default=None, description="mail address sent as the From header")

    http_timeout: Timeout = Field(
        default=30.0, description="longest that one request may take, from connecting to the last byte"
    )
    connect_timeout_s: Timeout = Field(default=10.0, description="longest until a connection stands, TLS included")
    header_timeout_s: Timeout = Field(
        default=20.0,
        description="longest from sending to the end of the headers; for a page, the first tries have less time where "
        "its domain usually answers much sooner",
    )
    min_throughput_bytes_s: Annotated[int, Field(ge=0, le=10**9)] = Field(
        default=64,
        description="a body that comes slower than this is given up; 64 lets a slow line live and a drip die",
    )
    min_throughput_window_s: Timeout = Field(default=10.0, description="over which the throughput of a body is judged")

    max_response_bytes: Annotated[int, Field(ge=1, le=1024 * MIB)] = Field(
        default=10 * MIB, description="longest body, decoded or on the wire; a longer one is discarded"
    )
    compress: bool = Field(default=True, description="false asks for bodies without compression")

    http_keep_alive: bool = Field(default=True, description="false closes the connection after each answer")
    http2: bool = Field(default=True, description="HTTP/2 where a TLS server offers it")
    max_total_connections: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=256,
        description="most requests under way at once; one that waits longer than a second to connect does not count",
    )
    max_kept_connections: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1_024,
        description="most connections kept open for what comes next, over all processes; fewer where this process may"
        " open few files; an idle one takes up to 190 KB",
    )
    threads: Annotated[int, Field(ge=1, le=32)] | None = Field(
        default=None,
        description="most processes that fetch and read pages, each for some of the domains; they begin when there is"
        " more to do than one can; none: as many as processors",
    )

    http_proxy: ProxyUrl | None = Field(default=None, description="proxy for every request, written http://host:port")
    http_proxy_username: str | None = Field(default=None, max_length=256, description="user name at the proxy")
    http_proxy_password: SecretStr | None = Field(default=None, max_length=1024, description="password at the proxy")
    no_proxy: Names = Field(default=(), description="hosts asked directly: a name covers its subdomains, * covers all")

    ca_file: str | None = Field(
        default=None, description="PEM file of trusted authorities; none: the system's, else certifi's"
    )

    allow_private: Allowed = Field(
        default=(),
        description="private networks (10.0.0.0/8), hosts (intra.example) and hosts at a port (localhost:8000) that may"
        " be crawled although nobody typed them; never taken from a file of a crawl or of a project",
    )

    dns_timeout_s: Timeout = Field(
        default=10.0,
        description="longest that a name may take to resolve, once it is asked for; at most `http_timeout`",
    )
    dns_cache_s: Annotated[float, Field(ge=0, le=3_600, allow_inf_nan=False)] = Field(
        default=60.0,
        description="longest that an address is remembered, if its lifetime is not shorter, or that there is none",
    )
    dns_lookups: Annotated[int, Field(ge=1, le=4_096)] = Field(default=512, description="most names asked for at once")

    def contradictions(self) -> Iterable[tuple[bool, str]]:
        login = self.http_proxy_username or self.http_proxy_password
        return (
            (
                bool(self.http_proxy is None and login),
                "http_proxy_username and http_proxy_password mean nothing without http_proxy",
            ),
            (
                self.http_proxy_username is None and self.http_proxy_password is not None,
                "http_proxy_password means nothing without http_proxy_username",
            ),
        )

    @property
    def identity(self) -> str:
        """The User-Agent as it is sent: with the contact, where it does not name it already."""
        if self.contact is None or self.contact in self.user_agent:
            return self.user_agent
        return f"{self.user_agent} (+{self.contact})"

    @property
    def from_header(self) -> str | None:
        """RFC 9110 10.1.2: a robot should send the mail address of whoever is responsible for it."""
        return self.from_address or (self.contact if self.contact and _MAIL.fullmatch(self.contact) else None)

    @property
    def is_anonymous(self) -> bool:
        """Whether nothing that is sent tells a site owner whom to write to."""
        return self.from_header is None and not re.search(r"https?://|@", self.identity)

    def proxy_for(self, host: str) -> str | None:
        """The proxy that a request to this host goes through."""
        if self.http_proxy is None or any(_covers(name, host) for name in self.no_proxy):
            return None
        return self.http_proxy


def _covers(name: str, host: str) -> bool:
    name = name.lower().lstrip(".")
    return name == "*" or host == name or host.endswith(f".{name}")


def proxy_from_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The proxy settings that the usual environment variables stand for. libcurl itself never reads them [D7].

    `HTTP_PROXY` in capitals is not read: a CGI server sets it from a request header (httpoxy).
    """
    url = next((environ[name] for name in ("http_proxy", "https_proxy", "HTTPS_PROXY") if environ.get(name)), None)
    if url is None:
        return {}
    scheme, _, rest = url.rpartition("://")
    userinfo, _, place = rest.rpartition("@")
    found = {"http_proxy": f"{scheme or 'http'}://{place}"}
    username, colon, password = userinfo.partition(":")
    if username:
        found["http_proxy_username"] = unquote(username)
    if colon:
        found["http_proxy_password"] = unquote(password)
    no_proxy = environ.get("no_proxy") or environ.get("NO_PROXY")
    return {**found, "no_proxy": no_proxy} if no_proxy else found
