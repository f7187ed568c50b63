"""What a site's robots.txt says, how it is served, and what the judge holds a client to."""

from __future__ import annotations

from dataclasses import dataclass

from amble.testing.farm.exchange import Request, Response, redirect

PATH = "/robots.txt"


@dataclass(frozen=True, slots=True)
class Robots:
    """Rules for everyone. `text` replaces what the fields would say; the judge still goes by the fields."""

    disallow: tuple[str, ...] = ()  # beginnings of paths, without wildcards
    crawl_delay_s: float | None = None
    lines: tuple[str, ...] = ()  # further lines, as they are
    text: str | None = None
    status: int = 200
    delay_s: float = 0.0
    location: str | None = None  # with a status of redirection

    def answer(self, request: Request, sitemap: str | None) -> Response:
        if self.location is not None:
            return redirect(self.status, self.location)
        text = self.written(request.url(request.host, sitemap) if sitemap else None)
        return Response(self.status, {"Content-Type": "text/plain; charset=utf-8"}, (text.encode(),), self.delay_s)

    def written(self, sitemap_url: str | None = None) -> str:
        if self.text is not None:
            return self.text
        lines = ["User-agent: *", *(f"Disallow: {path}" for path in self.disallow)]
        if self.crawl_delay_s is not None:
            lines.append(f"Crawl-delay: {self.crawl_delay_s:g}")
        lines += self.lines
        if sitemap_url:
            lines += ["", f"Sitemap: {sitemap_url}"]
        return "\n".join(lines) + "\n"

    def forbids(self, path: str) -> bool:
        return path != PATH and path.startswith(self.disallow)
