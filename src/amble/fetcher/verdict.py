"""What a finished transfer amounts to: the answer, or the failure and whose it is."""

from __future__ import annotations

from typing import NamedTuple

import pycurl

from amble.core.headers import Headers
from amble.core.outcome import Failure, Phase
from amble.fetcher.body import BodyFault
from amble.fetcher.curl import REFUSED, STALE, Transfer
from amble.fetcher.failures import blame, clean_detail
from amble.fetcher.multi import Finished
from amble.fetcher.result import FetchResult

_GATEWAY_STATUSES = frozenset({502, 504})  # what a proxy says in its own name when it cannot reach a host
_NO_HEADERS = Headers()
_BROKEN = frozenset({pycurl.E_GOT_NOTHING, pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR})


class _Verdict(NamedTuple):
    """The body, or why there is none."""

    body: bytes | None
    failure: Failure | None = None
    detail: str = ""
    local_fault: bool = False
    truncated: bool = False
    untrusted: bool = False
    stale: bool = False


def read_result(transfer: Transfer, finished: Finished, now: float) -> FetchResult:
    """The result of a transfer that libcurl, or we, have ended."""
    body, failure, detail, local_fault, truncated, untrusted, stale = _judge(transfer, finished)
    proxy_fault = transfer.proxied and _is_the_proxys(transfer, failure)
    if proxy_fault and transfer.status == 407 and failure is None:
        failure = Failure.NETWORK_CONNECTION_REFUSED  # the host was never asked, so this is not its answer
    sent_at, first_byte_at = transfer.sent_at, transfer.first_byte_at
    return FetchResult(
        transfer.url,
        transfer.status,
        transfer.headers or _NO_HEADERS,
        body,
        failure,
        detail,
        Phase.DONE if failure is None else _phase(transfer),
        None,
        proxy_fault,
        local_fault,
        truncated,
        sent_at,
        now - transfer.began,
        None if sent_at is None or first_byte_at is None else max(0.0, first_byte_at - sent_at),
        transfer.http_version,
        transfer.peer_ip,
        transfer.body_bytes,
        transfer.reused and sent_at is not None,
        untrusted,
        stale,
        proxied=transfer.proxied,
    )


def _judge(transfer: Transfer, finished: Finished) -> _Verdict:
    verdict = _judge_exchange(transfer, finished)
    if verdict.failure is None or transfer.headers is None or transfer.is_page:
        return verdict
    if transfer.stopped is not None and transfer.stopped.final:
        return verdict
    # A redirect or an error has said what it says by its status; that its body broke changes nothing.
    return _Verdict(None, detail=verdict.detail, truncated=True)


def _judge_exchange(transfer: Transfer, finished: Finished) -> _Verdict:
    stopped = transfer.stopped
    if stopped is not None:
        if stopped.failure is None:
            return _Verdict(transfer.cut_body(), detail=stopped.detail, truncated=True)
        return _Verdict(None, stopped.failure, clean_detail(stopped.detail), stopped.local_fault)
    if _wants_repeat(transfer, finished):
        stale = transfer.reused and transfer.first_byte_at is None
        return _Verdict(None, Failure.NETWORK_RESET, STALE if stale else REFUSED, stale=stale)
    if finished.code:
        fault = blame(finished.code, finished.message, transfer.easy.getinfo(pycurl.OS_ERRNO))
        return _Verdict(None, fault.failure, fault.detail, fault.local_fault, untrusted=fault.untrusted)
    if transfer.headers is None:
        # libcurl is content; but fields that would change the meaning may be missing (RFC 9112 8).
        return _Verdict(None, Failure.NETWORK_RESET, "closed before the end of the headers")
    try:
        return _Verdict(transfer.whole_body())
    except BodyFault as fault:
        return _Verdict(None, Failure.CONTENT_DECODE_ERROR, clean_detail(str(fault)))


def _wants_repeat(transfer: Transfer, finished: Finished) -> bool:
    """Whether the connection was closed, or the stream refused, before anything of an answer came: libcurl would repeat
    the request by itself. On a kept connection it is made good; a new one that does so is the site's failure."""
    if transfer.is_repeat:
        return True
    if transfer.sent_at is None or transfer.first_byte_at is not None:
        return False
    # Sent, and so connected: a name is looked up for a new connection, when the pin is not held any more.
    return finished.code == pycurl.E_COULDNT_RESOLVE_HOST or (transfer.reused and finished.code in _BROKEN)


def _phase(transfer: Transfer) -> Phase:
    if transfer.sent_at is None:
        return Phase.CONNECT
    return Phase.HEADERS if transfer.headers is None else Phase.BODY


def _is_the_proxys(transfer: Transfer, failure: Failure | None) -> bool:
    """Whether the proxy, not the host behind it, is what failed [F10].

    A plain request that is never answered could be either's doing: it counts against the host, which is the slower and
    so the politer reading.
    """
    if transfer.sent_at is None and failure is not None:
        tunnelled = transfer.easy.getinfo(pycurl.HTTP_CONNECTCODE) // 100 == 2
        return not tunnelled  # once the tunnel stands, what fails in it is the host's
    if transfer.status == 407:
        return True
    return transfer.url.startswith("http://") and transfer.status in _GATEWAY_STATUSES
