"""What a libcurl error means: a kind of failure from the closed set, and whether the host can be blamed for it."""

from __future__ import annotations

import errno
import re
from typing import NamedTuple

import pycurl

from amble.core.outcome import Failure
from amble.fetcher.routes import OFFLINE, is_online

_E_HTTP2_STREAM = 92
_E_PROXY = 97
_E_TOO_LARGE = 100

_BY_CODE: dict[int, Failure] = {
    pycurl.E_COULDNT_RESOLVE_PROXY: Failure.NETWORK_DNS_FAILURE,
    pycurl.E_COULDNT_RESOLVE_HOST: Failure.NETWORK_DNS_FAILURE,
    pycurl.E_COULDNT_CONNECT: Failure.NETWORK_CONNECTION_REFUSED,
    _E_PROXY: Failure.NETWORK_CONNECTION_REFUSED,
    pycurl.E_PARTIAL_FILE: Failure.NETWORK_RESET,
    pycurl.E_GOT_NOTHING: Failure.NETWORK_RESET,
    pycurl.E_SEND_ERROR: Failure.NETWORK_RESET,
    pycurl.E_RECV_ERROR: Failure.NETWORK_RESET,
    pycurl.E_ABORTED_BY_CALLBACK: Failure.NETWORK_RESET,
    _E_HTTP2_STREAM: Failure.NETWORK_RESET,
    pycurl.E_OPERATION_TIMEDOUT: Failure.NETWORK_TIMEOUT,
    pycurl.E_SSL_CONNECT_ERROR: Failure.NETWORK_TLS_ERROR,
    pycurl.E_SSL_CERTPROBLEM: Failure.NETWORK_TLS_ERROR,
    pycurl.E_SSL_CIPHER: Failure.NETWORK_TLS_ERROR,
    pycurl.E_PEER_FAILED_VERIFICATION: Failure.NETWORK_TLS_ERROR,
    pycurl.E_SSL_CACERT_BADFILE: Failure.NETWORK_TLS_ERROR,
    pycurl.E_SSL_ISSUER_ERROR: Failure.NETWORK_TLS_ERROR,
    pycurl.E_BAD_CONTENT_ENCODING: Failure.CONTENT_DECODE_ERROR,
    # Everything else is an answer that is not HTTP, among it: HTTP/0.9 and ICY [A13], bad framing, a header too long.
    pycurl.E_UNSUPPORTED_PROTOCOL: Failure.NETWORK_PROTOCOL_ERROR,
    pycurl.E_FTP_WEIRD_SERVER_REPLY: Failure.NETWORK_PROTOCOL_ERROR,
    pycurl.E_HTTP2: Failure.NETWORK_PROTOCOL_ERROR,
    _E_TOO_LARGE: Failure.NETWORK_PROTOCOL_ERROR,
}

_BY_ERRNO: dict[int, Failure] = {
    errno.ETIMEDOUT: Failure.NETWORK_TIMEOUT,
    errno.ECONNRESET: Failure.NETWORK_RESET,
    errno.EPIPE: Failure.NETWORK_RESET,
    errno.ECONNREFUSED: Failure.NETWORK_CONNECTION_REFUSED,
}

# This machine ran out of something: no host is to blame, and a little later it may work [F11].
EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})
_UNREACHABLE = frozenset({errno.ENETUNREACH, errno.ENETDOWN})
_OURS = frozenset({pycurl.E_SSL_CACERT_BADFILE, pycurl.E_OUT_OF_MEMORY, pycurl.E_FAILED_INIT})
_UNTRUSTED = frozenset({pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_ISSUER_ERROR})

# libcurl reports a malformed chunk as a failure to receive.
_BAD_CHUNK = re.compile(r"chunk|Malformed encoding", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
_PIN = re.compile(r" via [0-9a-f]{20}\.invalid:\d+")
DETAIL_CHARS_MAX = 200


class Blame(NamedTuple):
    """A kind of failure, why in words, whether it was this machine that failed, or a certificate."""

    failure: Failure
    detail: str
    local_fault: bool = False
    untrusted: bool = False


def blame(code: int, message: str, os_errno: int) -> Blame:
    """What one libcurl error says."""
    detail = clean_detail(_PIN.sub("", message)) or clean_detail(pycurl.easy_strerror(code))
    if code in _OURS or os_errno in EXHAUSTED or _got_no_socket(code, message, os_errno):
        return Blame(_BY_CODE.get(code, Failure.NETWORK_CONNECTION_REFUSED), detail, local_fault=True)
    if os_errno in _UNREACHABLE and not is_online():  # otherwise it is this host that no way leads to
        return Blame(Failure.NETWORK_CONNECTION_REFUSED, OFFLINE, local_fault=True)
    if code == pycurl.E_RECV_ERROR and _BAD_CHUNK.search(message):
        return Blame(Failure.NETWORK_PROTOCOL_ERROR, detail)
    if code in (pycurl.E_COULDNT_CONNECT, pycurl.E_SSL_CONNECT_ERROR) and os_errno in _BY_ERRNO:
        return Blame(_BY_ERRNO[os_errno], detail)
    return Blame(_BY_CODE.get(code, Failure.NETWORK_PROTOCOL_ERROR), detail, untrusted=code in _UNTRUSTED)


def _got_no_socket(code: int, message: str, os_errno: int) -> bool:
    """Whether connecting failed before it was tried: pycurl duplicates the socket it is given, and does not say when
    there was no descriptor left for the copy. The network's own refusals carry an errno."""
    return code == pycurl.E_COULDNT_CONNECT and os_errno == 0 and "Could not connect" in message


def clean_detail(text: str) -> str:
    """Words of unknown origin, fit for a log line and a database [E7]."""
    text = _CONTROL.sub(" ", text)
    return text if len(text) <= DETAIL_CHARS_MAX else f"{text[:DETAIL_CHARS_MAX]}..."
