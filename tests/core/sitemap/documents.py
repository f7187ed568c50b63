"""Small sitemaps to build tests from."""

from __future__ import annotations

SITEMAP = "https://example.com/maps/sitemap.xml"
NAMESPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


def urlset(*entries: str, attributes: str = f'xmlns="{NAMESPACE}"') -> bytes:
    """A urlset of the given insides of `<url>`."""
    return f"<urlset {attributes}>{''.join(f'<url>{entry}</url>' for entry in entries)}</urlset>".encode()


def locs(*urls: str) -> bytes:
    """A urlset of bare locations."""
    return urlset(*(f"<loc>{url}</loc>" for url in urls))


def index(*urls: str) -> bytes:
    """A sitemap index."""
    return f"<sitemapindex>{''.join(f'<sitemap><loc>{url}</loc></sitemap>' for url in urls)}</sitemapindex>".encode()
