"""Every setting about what is visited: its range, its default and why; contradictions are refused with a hint. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from amble.core.checked import CheckedModel

Names = tuple[str, ...]
Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
_PATH = re.compile(r"/(?!/)[!\"$-~]*")  # as it is asked for, so nothing that would have to be escaped


class VisitSettings(CheckedModel):
    """Which URLs a crawl visits, and what it keeps of them."""

    follow_links: Literal["auto", True, False] = Field(
        default="auto",
        description="auto: links are followed where a site has no sitemap; true: and no page waits for a sitemap that "
        "robots.txt does not name",
    )
    discover: bool | None = Field(
        default=None, description="look for sitemaps; none: for a host or a root URL, not for a page"
    )
    sitemap_paths: Names = Field(
        default=(),
        description="where else to look for a sitemap, such as /sitemap.txt, if robots.txt names none and "
        "/sitemap.xml and /sitemap_index.xml are none",
    )
    allow_subdomains: bool = Field(default=False, description="subdomains of the seeds belong to the crawl")
    max_crawl_depth: Annotated[int, Field(ge=0, le=1_000)] | None = Field(
        default=None, description="most links from a seed to a page"
    )
    max_crawl_pages: Count | None = Field(default=None, description="most pages that are asked for")
    max_pages_per_domain: Count | None = Field(default=None, description="most pages of one domain")
    max_redirects: Annotated[int, Field(ge=0, le=50)] = Field(default=10, description="longest chain of redirects")
    max_links_per_page: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=5_000, description="links taken from one page"
    )
    respect_nofollow: bool = Field(default=True, description="links and pages marked nofollow are not followed")
    follow_canonical: bool = Field(default=False, description="a page's canonical URL is visited as well")
    noindex: Literal["drop_body", "keep", "drop_row"] = Field(
        default="drop_body", description="what is kept of a page that asks not to be indexed"
    )
    store_body: bool = Field(default=True, description="keep the text of pages, not only what is read from it")
    batch_size: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=100,
        description="so many pages are stored together, and can then be queried; fewer where a second brings fewer, "
        "more where half a second brings more",
    )
    log_skipped: bool = Field(default=True, description="URLs that robots.txt or the scope refuses get a row as well")
    accept_content_types: Names = Field(default=(), description="only these types, such as text/*; none: all")
    reject_content_types: Names = Field(default=(), description="never these types; judged after the accepted ones")
    update_stale: bool = Field(
        default=False, description="ask again for pages in the table that their sitemap, or no sitemap, calls stale"
    )
    sitemap_cache_hours: Annotated[float, Field(ge=0, le=8_760, allow_inf_nan=False)] = Field(
        default=24.0,
        description="how long what a sitemap said, or that there is none, is used before it is asked for again",
    )
    retry_statuses: tuple[Annotated[int, Field(ge=400, le=599)], ...] = Field(
        default=(), description="statuses tried again besides 429 and 5xx"
    )
    domain_stall_timeout: Annotated[float, Field(gt=0, le=604_800, allow_inf_nan=False)] = Field(
        default=1_800.0, description="a domain blocked this long without a success hands its URLs back as deferred"
    )
    max_tail: Annotated[float, Field(gt=0, le=604_800, allow_inf_nan=False)] = Field(
        default=120.0,
        description="when nothing but failing domains is left, those without a page in this run are waited for so long",
    )
    job_failure_threshold: Count = Field(
        default=20,
        description="so many failed URLs of one domain in a row end its remaining ones; those that are missing, too "
        "large or of a type that is not wanted do not count",
    )
    cancel_on_limit_streak: Count | None = Field(
        default=None,
        description="give up a domain after so many refusals in a row at the longest delay, and end the job as "
        "cancelled when the others are done; none: never",
    )

    def contradictions(self) -> Iterable[tuple[bool, str]]:
        yield (
            self.follow_links is False and bool(self.max_crawl_depth),
            "max_crawl_depth means nothing while follow_links is false",
        )
        for path in self.sitemap_paths:
            yield not _PATH.fullmatch(path), f"sitemap_paths: {path!r} is no path of a site; write it as /sitemap.txt"
        for both in sorted(set(self.accept_content_types) & set(self.reject_content_types)):
            yield True, f"content type {both} is both accepted and rejected"
