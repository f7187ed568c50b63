"""What a simulated site says in its robots.txt, and what the judge knows of it without reading a line of the file."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

PRIVATE, OPEN = "/private/", "/private/open/"

Says = Literal["rules", "missing", "forbidden", "broken", "shaky", "limited", "away", "far", "loop", "chain", "page"]
SAYS: tuple[Says, ...] = ("rules",) * 12 + (
    "missing", "missing", "forbidden", "broken", "shaky", "limited", "away", "far", "loop", "chain", "page",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """The rules of one origin. Paths below /private/ may be closed, with a door in them; or everything is."""

    closed: Literal["nothing", "private", "all"] = "nothing"
    delay_s: float | None = None
    sitemaps: tuple[str, ...] = ()
    version: int = 1

    def allows(self, path: str) -> bool:
        if self.closed == "all":
            return path == "/robots.txt"
        return self.closed == "nothing" or not path.startswith(PRIVATE) or path.startswith(OPEN)

    @property
    def etag(self) -> str:
        return f'"v{self.version}"'

    def body(self) -> bytes:
        lines = [f"# version {self.version}", "User-agent: nobody", "Disallow: /", "", "User-agent: *"]
        if self.closed == "all":
            lines.append("Disallow: /")
        elif self.closed == "private":
            lines += [f"Disallow: {PRIVATE}", f"Allow: {OPEN}"]
        else:
            lines.append("Disallow:")
        if self.delay_s is not None:
            lines.append(f"Crawl-delay: {self.delay_s:g}")
        lines += ["", *(f"Sitemap: {url}" for url in self.sitemaps)]
        return "\n".join(lines).encode()


def make_file(random: Random, sitemaps: tuple[str, ...], version: int) -> RobotsFile:
    return RobotsFile(
        random.choice(("nothing", "nothing", "private", "private", "private", "all" if version > 1 else "nothing")),
        random.choice((None, None, None, 0.0, 0.4, 2.0, 7.5, 90.0, 9_000.0 if random.random() < 0.3 else None)),
        sitemaps,
        version,
    )
