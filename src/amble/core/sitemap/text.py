"""What a plain text sitemap lists: one URL per line. Pure."""

from __future__ import annotations

from amble.core.sitemap.collect import Collector
from amble.core.sitemap.document import Invalid, SitemapKind, Verdict
from amble.core.urls import Refusal

_LINE_CHARS_MAX = 16_384  # longer than any URL that could pass the gate


class TextBody:
    """Reads lines; those that name an address go to the collector, prose is counted and left."""

    def __init__(self, collector: Collector, verdict: Verdict) -> None:
        self._collector = collector
        self._verdict = verdict
        self._rest = ""

    def feed(self, text: str) -> bool:
        """Read on; text goes on until its end."""
        lines = (self._rest + text).splitlines(keepends=True)
        self._rest = ""
        if lines and lines[-1][-1] not in "\r\n":
            self._rest = lines.pop()[:_LINE_CHARS_MAX]
        for line in lines:
            self._take(line)
        return True

    def close(self, *, complete: bool) -> None:
        """The end of the body. The last line of a body that was cut may be half a URL, so it is left."""
        if complete:
            self._take(self._rest)
        if self._verdict.kind is None:
            self._verdict.invalid = Invalid.NO_URLS

    def _take(self, line: str) -> None:
        line = line.strip()
        if not line:
            return
        if not self._collector.names_host(line):
            self._collector.dropped[Refusal.NOT_A_URL] += 1
            return
        self._verdict.kind = SitemapKind.TEXT
        self._collector.add(line)
