"""Which sitemaps of a site to read, each once, and which of the URLs they list belong to the site. Pure.

    walk = SitemapWalk("https://example.com", robots_sitemaps)
    while (url := walk.next_sitemap()) is not None:
        ...fetch it, asking `walk.redirected` before each hop, then one of:
        entries = walk.settle(url, read_sitemap(body, final_url))
        walk.failed(url, "http_server_error")

Indexes may point at themselves, at each other, or at names made up for ever [B9, B10]: every sitemap is handed out
once, and depth, number, URLs and bytes have limits. Whatever is left out is counted by its reason.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

from amble.core.seen import SeenSet
from amble.core.sitemap.document import Drop, DropReason, SitemapDocument, SitemapEntry, SitemapKind
from amble.core.sites import registrable_domain
from amble.core.urls import Refusal, domain_of, normalize, origin_of
from amble.errors import AmbleError

USUAL_PATHS = ("/sitemap.xml", "/sitemap_index.xml")
SITEMAP_INVALID = "sitemap_invalid"  # the failure of a sitemap that was fetched and is none [B14]


class WalkLimits(NamedTuple):
    """How much of a site's sitemaps is read."""

    depth_max: int = 3  # the first is 1: an index of indexes of sitemaps
    under_way_max: int = 2  # more would wait in memory, fifty thousand URLs each, until the ones before are taken in
    sitemap_count_max: int = 1_000
    url_count_max: int = 1_000_000
    body_bytes_max: int = 1024 * 1024 * 1024  # decoded, all sitemaps together


DEFAULT_LIMITS = WalkLimits()


class SitemapWalk:
    """The state of one site's discovery. Told what robots.txt lists and what each fetch brought; says what is next."""

    def __init__(
        self,
        origin: str,
        robots_sitemaps: Iterable[str] = (),
        *,
        more_paths: Iterable[str] = (),
        late_guesses: bool = False,
        limits: WalkLimits = DEFAULT_LIMITS,
    ) -> None:
        """With `late_guesses` no page waits for a sitemap that nobody named."""
        self.origin = origin_of(origin)
        self.found = False  # at least one sitemap could be read
        self.read_count = 0
        self.url_count = 0
        self.body_bytes = 0
        self.failures: Counter[str] = Counter()
        self.dropped_urls: Counter[DropReason] = Counter()
        self.dropped_sitemaps: Counter[DropReason] = Counter()
        self._limits = limits
        self._domain = domain_of(self.origin)
        self._prefix = f"{self.origin}/"
        self._queue: deque[tuple[str, int]] = deque()
        self._under_way: dict[str, int] = {}  # handed out, with its depth
        self._seen: set[str] = set()
        self._read: set[str] = set()
        self._met = SeenSet()  # URLs listed, of which there may be a million
        # A host's robots.txt may name a sitemap anywhere, and thereby lets it speak for the host (sitemaps.org,
        # "cross submits"). Nothing else may send us to a stranger.
        for url in robots_sitemaps:
            self._enqueue(url, depth=1)
        # Spelled as the standard spells them: they are asked for as they stand.
        usual = () if self._queue else (*USUAL_PATHS, *more_paths)
        self._guesses = deque(f"{self.origin}{path}" for path in usual)
        self._guesses_late = late_guesses and bool(usual)

    def __repr__(self) -> str:
        waiting = len(self._queue) + len(self._guesses)
        return f"<SitemapWalk {self.origin} {self.read_count} read, {waiting} waiting, {self.url_count} URLs>"

    # --- Which sitemap is next -------------------------------------------------------------------------------------

    @property
    def finished(self) -> bool:
        """Whether nothing is left to hand out and nothing under way could still add to it."""
        return not (self._queue or self._guesses or self._under_way)

    @property
    def holds_pages(self) -> bool:
        """Whether pages wait until it is known whether a sitemap lists them."""
        return not (self.found or self._guesses_late or self.finished)

    def is_late(self, url: str) -> bool:
        """Whether a sitemap that was handed out is a guess for which no page waits."""
        return self._guesses_late and self._under_way.get(url) == 1

    def next_sitemap(self) -> str | None:
        """The next sitemap to fetch; None while there is none, for now or (see `finished`) for good."""
        if not self._queue and self._guesses and not self._under_way:
            # One guess after the other, so that a site which has the first is not asked for the second.
            self._queue_up(self._guesses.popleft(), depth=1)
            return self.next_sitemap()
        if not self._queue or len(self._under_way) >= self._limits.under_way_max:
            return None
        url, depth = self._queue.popleft()
        self._under_way[url] = depth
        return url

    def redirected(self, url: str, target: str) -> bool:
        """The sitemap handed out as `url` redirects to `target`, an absolute URL: follow? If not, it is settled."""
        self._depth_of(url)
        where = normalize(target)
        if isinstance(where, str) and where not in self._seen:
            self._seen.add(where)
            return True
        self.dropped_sitemaps[where if isinstance(where, Refusal) else Drop.DUPLICATE] += 1
        self._under_way.pop(url)
        return False

    def failed(self, url: str, reason: str) -> None:
        """The sitemap handed out as `url` could not be had."""
        self._depth_of(url)
        self._under_way.pop(url)
        self.failures[reason] += 1

    # --- What a sitemap brought ------------------------------------------------------------------------------------

    def settle(self, url: str, document: SitemapDocument) -> list[SitemapEntry]:
        """The sitemap handed out as `url` has been read as `document`: its entries that are the site's own and new.

        Of an index there are none; the sitemaps that it lists are queued.
        """
        depth = self._depth_of(url)
        if document.url in self._read:
            self.dropped_sitemaps[Drop.DUPLICATE] += 1  # reached through a redirect nobody asked about
            self._under_way.pop(url)
            return []
        self._read.add(document.url)
        self.body_bytes += document.body_bytes
        self.dropped_urls.update(document.dropped)
        if document.kind is None or document.is_none:
            self.failed(url, SITEMAP_INVALID)
            return []
        self.found = True
        self.read_count += 1
        self._guesses.clear()
        self._under_way.pop(url)
        admitted = []
        if document.kind is SitemapKind.INDEX:
            for entry in document.entries:
                self._enqueue(entry.url, depth + 1, listed_at=document.url)
        else:
            admitted = [entry for entry in document.entries if self._admits(entry.url)]
        self._stop_if_over()
        return admitted

    def _admits(self, url: str) -> bool:
        reason = self._reason_against(url)
        if reason is None:
            self.url_count += 1
            return True
        self.dropped_urls[reason] += 1
        return False

    def _reason_against(self, url: str) -> Drop | None:
        if not self._is_own(url):
            return Drop.OTHER_SITE
        if self.url_count >= self._limits.url_count_max:
            return Drop.DUPLICATE if url in self._met else Drop.TOO_MANY_URLS
        return None if self._met.add(url) else Drop.DUPLICATE

    # --- Helpers ---------------------------------------------------------------------------------------------------

    def _enqueue(self, listed: str, depth: int, listed_at: str | None = None) -> None:
        url = normalize(listed, self.origin)
        if isinstance(url, Refusal):
            self.dropped_sitemaps[url] += 1
        else:
            self._queue_up(url, depth, listed_at)

    def _queue_up(self, url: str, depth: int, listed_at: str | None = None) -> None:
        if (reason := self._reason_to_skip(url, depth, listed_at)) is not None:
            self.dropped_sitemaps[reason] += 1
        else:
            self._seen.add(url)
            self._queue.append((url, depth))

    def _reason_to_skip(self, url: str, depth: int, listed_at: str | None) -> Drop | None:
        if url in self._seen:
            return Drop.DUPLICATE
        if depth > self._limits.depth_max:
            return Drop.TOO_DEEP
        # An index that robots.txt named on another host may list its neighbours there, but nobody else's sitemaps:
        # a site must not be able to send us to a victim.
        if listed_at is not None and not self._is_own(url) and domain_of(url) != domain_of(listed_at):
            return Drop.OTHER_SITE
        if len(self._seen) >= self._limits.sitemap_count_max:
            return Drop.TOO_MANY_SITEMAPS
        return None

    def _is_own(self, url: str) -> bool:
        """Whether a URL lies on the origin's site: the same domain, or one under the same registered name."""
        if url.startswith(self._prefix):
            return True
        domain = domain_of(url)
        if domain == self._domain:
            return True
        site = registrable_domain(domain)
        return site is not None and site == registrable_domain(self._domain)

    def _stop_if_over(self) -> None:
        """Once enough URLs or bytes have come, the sitemaps still waiting are dropped."""
        if self.url_count >= self._limits.url_count_max:
            reason = Drop.TOO_MANY_URLS
        elif self.body_bytes >= self._limits.body_bytes_max:
            reason = Drop.TOO_MANY_BYTES
        else:
            return
        self.dropped_sitemaps[reason] += len(self._queue)
        self._queue.clear()

    def _depth_of(self, url: str) -> int:
        try:
            return self._under_way[url]
        except KeyError:
            raise AmbleError(
                f"the sitemap {url} is not under way", hint="settle each URL from next_sitemap exactly once"
            ) from None
