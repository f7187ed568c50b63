"""What came back from one request: an answer or the reason there is none. Whose fault it was is told, not raised."""

from __future__ import annotations

from typing import NamedTuple

from amble.core.headers import Headers
from amble.core.outcome import Failure, Phase
from amble.fetcher.resolver import DnsError


class FetchResult(NamedTuple):
    """One answer. `failure` speaks of the exchange; what a status means is decided by `amble.core.outcome`."""

    url: str
    status: int | None = None
    headers: Headers = Headers()
    body: bytes | None = None  # decoded; None where it was not read, not wanted, or cannot be trusted
    failure: Failure | None = None
    detail: str = ""  # why, in words without control characters
    phase: Phase = Phase.DONE  # where it ended
    dns_error: DnsError | None = None
    proxy_fault: bool = False  # the proxy failed, not the host: no domain learns from it
    local_fault: bool = False  # this machine failed (no descriptors, no ports, a connection kept too long): likewise
    truncated: bool = False  # the body was cut at its limit and the rest not read
    started_at: float | None = None  # monotonic instant right after the request was written; None: never sent
    elapsed_s: float = 0.0  # from the call to the last byte
    ttfb_s: float | None = None  # from sending to the first byte of the answer
    http_version: str | None = None
    peer_ip: str | None = None
    body_bytes: int = 0  # on the wire, before decoding
    reused: bool = False  # came over a connection that was already open
    untrusted: bool = False  # the certificate is another's, or nobody vouches for it: a failure that lasts
    stale: bool = False  # a kept connection broke before the first byte of an answer (RFC 9110 9.2.2)
    repeated: bool = False  # timed out on a connection on which another request had timed out already
    proxied: bool = False  # so that `peer_ip` is the proxy's

    @property
    def date(self) -> str | None:
        """The server's clock as it wrote it."""
        return self.headers.get("date")

    def __repr__(self) -> str:
        said = self.status if self.failure is None else f"{self.failure.value} in {self.phase.value}"
        size = "no body" if self.body is None else f"{len(self.body)} bytes"
        whose = " (proxy)" if self.proxy_fault else " (local)" if self.local_fault else ""
        return f"<FetchResult {said}{whose} {self.url} {size} in {self.elapsed_s:.3f}s {self.http_version or '-'}>"
