"""TLS sessions of many hosts. libcurl remembers those of 25 in one place, so each host has its place among many."""

from __future__ import annotations

from zlib import crc32

import pycurl

SHARES = 128  # 25 hosts each, and some are fuller than others: enough for all that are asked at a time


class TlsSessions:
    """Where the handles of one event loop find sessions. Made as they are needed: 5 KB each, and 2 KB a session."""

    def __init__(self) -> None:
        self._shares: list[pycurl.CurlShare | None] = [None] * SHARES

    def share_for(self, name: str) -> pycurl.CurlShare:
        """The same one for the same name."""
        at = crc32(name.encode()) % SHARES
        share = self._shares[at]
        if share is None:
            share = self._shares[at] = pycurl.CurlShare()
            share.setopt(pycurl.SH_SHARE, pycurl.LOCK_DATA_SSL_SESSION)
        return share
