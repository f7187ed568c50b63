"""Which characters the bytes of a sitemap are: byte order mark, then XML declaration, then UTF-8; in pieces. Pure."""

from __future__ import annotations

import codecs

from amble.core.body_kind import Kind
from amble.core.charset import charset_of
from amble.core.encodings import codec_of, decode


class Decoder:
    """Decodes pieces that may end inside a character. What does not decode becomes U+FFFD, and so does U+0000."""

    def __init__(self, encoding: str) -> None:
        codec = codec_of(encoding)
        self._encoding = encoding
        self._spanning = None if codec is None else codecs.getincrementaldecoder(codec)(errors="replace")

    def decode(self, piece: bytes, *, final: bool = False) -> str:
        """The characters that `piece` completes."""
        if self._spanning is None:
            return decode(piece, self._encoding)
        return self._spanning.decode(piece, final).replace("\0", "\ufffd")


def decoder_for(head: bytes) -> tuple[Decoder, int]:
    """A decoder for a body that starts with `head`, and the length of the byte order mark to skip.

    A text sitemap must be UTF-8 (sitemaps.org), and so is XML that does not say otherwise.
    """
    charset = charset_of(head.lstrip(b" \t\r\n"), kind=Kind.XML)
    return Decoder(charset.encoding), charset.mark_bytes
