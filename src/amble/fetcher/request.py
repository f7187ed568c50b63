"""What is asked: one URL, what is sent with it, and how much of the answer is wanted."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from amble.core.headers import Headers
from amble.core.outcome import Failure
from amble.errors import BadHeader

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x20-\x7e\t]*")
_VALIDATOR_CHARS_MAX = 1024
# Framing and routing are the client's business; a caller who sets them builds two requests in one.
_OURS = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "accept-encoding", "proxy-authorization"}
)

KeepBody = Callable[[int, Headers], Failure | None]


class FetchRequest(NamedTuple):
    """One request. Nothing of it outlives the request: no cookie, credential or header reaches another [D8]."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    etag: str | None = None
    last_modified: str | None = None
    # Judges the answer from its headers before the body is read; a failure ends the fetch there.
    keep_body: KeepBody | None = None
    # None: as the settings say. Over it the body is discarded as too large, or cut here if `keep_prefix`.
    body_bytes_max: int | None = None
    keep_prefix: bool = False
    # The domain of the page, redirect or sitemap that led here; None only for what the user typed. A private address
    # behind a host that the user named is meant, but not for those who found its name elsewhere.
    found_on: str | None = None
    # Told the monotonic instant right after the request was written to the socket.
    on_sent: Callable[[float], None] | None = None
    new_connection: bool = False  # not a kept one: what is to be found out, or made good, is about connecting
    new_name: bool = False  # ask for the host's addresses anew, whatever is remembered of them
    is_redirect: bool = False  # it was a redirect of `found_on` that led here
    # From sending to the end of the headers, where that is less than the settings allow. None: as they say.
    header_timeout_s: float | None = None
    sent_by_private: bool = False  # and that came from a private address, whichever process was told so

    def check(self) -> None:
        """Raise what is wrong with it. Whoever fetches does this first."""
        if self.body_bytes_max is not None and self.body_bytes_max < 1:
            raise ValueError(f"body_bytes_max = {self.body_bytes_max}: at least one byte must be wanted")
        for name, value in self.headers:
            if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
                raise BadHeader(f"header {name!a}: {value!a} cannot be sent", hint="visible ASCII, no line breaks")
            if name.lower() in _OURS:
                raise BadHeader(f"header {name!a} is set by the fetcher", hint="leave it out")

    def extra_headers(self) -> list[str]:
        """The lines that this request adds to those every request carries."""
        lines = [f"{name}: {value}" if value else f"{name};" for name, value in self.headers]
        if _can_be_replayed(self.etag):
            lines.append(f"If-None-Match: {self.etag}")
        if _can_be_replayed(self.last_modified):
            lines.append(f"If-Modified-Since: {self.last_modified}")
        return lines


def _can_be_replayed(validator: str | None) -> bool:
    """Whether a server's own validator may go back to it; without it the request is merely unconditional [E4]."""
    if not validator or len(validator) > _VALIDATOR_CHARS_MAX:
        return False
    return validator.isascii() and validator.isprintable()
