"""Which characters the bytes of a sitemap are: byte order mark, then XML declaration, then UTF-8; in pieces. Pure."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from amble.core.body_kind import Kind
from amble.core.charset import charset_of
from amble.core.encodings import codec_of, decode


def decoded(head: bytes, rest: Iterable[bytes]) -> Iterator[str]:
    """The characters of a body that begins with `head`. What does not decode becomes U+FFFD, and so does U+0000.

    A text sitemap must be UTF-8 (sitemaps.org), and so is XML that does not say otherwise.
    """
    encoding, _, mark_bytes = charset_of(head.lstrip(b" \t\r\n"), kind=Kind.XML)
    head = head[mark_bytes:]
    codec = codec_of(encoding)
    if codec is None:
        yield decode(head, encoding)
        for piece in rest:
            yield decode(piece, encoding)
        return
    spanning = codecs.getincrementaldecoder(codec)(errors="replace")  # a piece may end inside a character
    yield spanning.decode(head).replace("\0", "\ufffd")
    for piece in rest:
        yield spanning.decode(piece).replace("\0", "\ufffd")
    yield spanning.decode(b"", final=True)
