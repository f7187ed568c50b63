"""The words on the pages: titles, names of paths and running text, the same for the same number."""

from __future__ import annotations

from functools import cache
from random import Random

ADJECTIVES = (
    "quiet", "amber", "northern", "hollow", "gentle", "crooked", "silver", "early", "distant", "patient", "narrow",
    "copper", "late", "hidden", "salt", "winter", "open", "second", "little", "high",
)  # fmt: skip
NOUNS = (
    "river", "garden", "lantern", "harbour", "orchard", "station", "meadow", "letter", "window", "bridge", "island",
    "kitchen", "engine", "valley", "market", "mirror", "forest", "compass", "tower", "road", "clock", "library", "well",
)  # fmt: skip
SECTIONS = ("stories", "places", "people", "notes", "things", "essays")
_PLAIN = (
    "the", "of", "and", "to", "in", "a", "is", "that", "for", "it", "as", "was", "with", "on", "by", "at",
    "from", "or", "an", "be", "this", "which", "not", "are", "but", "had", "his", "they", "were", "have", "one",
    "all", "their", "there", "been", "would", "when", "more", "no", "if", "out", "so", "said", "what", "up",
    "its", "about", "into", "than", "them", "can", "only", "other", "time", "new", "some", "could", "these",
    "two", "may", "first", "then", "do", "any", "like", "my", "now", "over", "such", "our", "man", "me", "even",
    "most", "made", "after", "also",
)  # fmt: skip

BLOCK_BYTES = 512
BLOCKS = 64


def title_of(page: int) -> str:
    return f"The {ADJECTIVES[page * 7 % len(ADJECTIVES)]} {NOUNS[page * 5 % len(NOUNS)]} {page}"


def slug_of(page: int) -> str:
    """A name for a path: words, then the number that tells pages apart."""
    return f"{ADJECTIVES[page * 7 % len(ADJECTIVES)]}-{NOUNS[page * 5 % len(NOUNS)]}-{page}"


def section_of(page: int) -> str:
    return SECTIONS[page % len(SECTIONS)]


@cache
def _text() -> memoryview:
    """Paragraphs of one length, twice over, so that any stretch of them is a slice that starts and ends cleanly."""
    random = Random("the text of all pages")
    return memoryview(b"".join(_paragraph(random) for _ in range(BLOCKS)) * 2)


def _paragraph(random: Random) -> bytes:
    close = b".</p>\n"
    text = b"<p>" + random.choice(NOUNS).title().encode()
    while len(text) < BLOCK_BYTES - 40:
        word = random.choice(random.choice((_PLAIN, _PLAIN, NOUNS, ADJECTIVES)))
        text += f" <em>{word}</em>".encode() if random.random() < 0.03 else b" " + word.encode()
    return text + close.rjust(BLOCK_BYTES - len(text), b" ")


def running_text(size_bytes: int, start: int) -> tuple[memoryview, ...]:
    """About so many bytes of paragraphs (whole ones, rounded down), another stretch for another start."""
    text, blocks, parts = _text(), max(0, size_bytes) // BLOCK_BYTES, []
    at = start % BLOCKS
    while blocks > 0:
        take = min(blocks, BLOCKS)
        parts.append(text[at * BLOCK_BYTES : (at + take) * BLOCK_BYTES])
        blocks -= take
    return tuple(parts)
