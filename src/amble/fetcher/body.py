"""How a body is read: decoded as it comes, counted, and given up the moment it is more than was asked for."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

import brotli
import zstandard

CODINGS_MAX = 2  # more than one is already odd; each further one multiplies what a bomb can do [A4]
MEMBERS_MAX = 4096  # of one gzip body: block-wise gzip needs hundreds, only an attack needs more [A5]
PIECES_MAX = 100_000  # in which one body may arrive: about a tenth of a second of work [A5]
STEP_BYTES = 256 * 1024  # most that one step of a decoder gives, so that no bomb is unpacked in one go

_ZSTD_WINDOW_BYTES_MAX = 8 * 1024 * 1024  # what a decoder must accept at most (RFC 9659 3)
# zstandard cannot bound its output, but a block of 4 bytes yields at most 128 KiB (RFC 8878 3.1.1.2): feed few at once.
_ZSTD_BITE_BYTES = 64


class BodyFault(Exception):
    """The body cannot be decoded. Never leaves the fetcher."""


class BodyOverflow(Exception):
    """The body is longer than wanted. Never leaves the fetcher."""


class Decoder(Protocol):
    complete: bool

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What `data` decodes to, in pieces of bounded size."""


class GzipDecoder:
    """gzip, in any number of members (RFC 1952 2.2); what follows the last is ignored, as browsers do."""

    __slots__ = ("_inflate", "_members", "_over", "complete")

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(31)
        self._members = 1
        self._over = False
        self.complete = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data and not self._over:
            if self.complete and not self._begin_member(data):
                return
            piece = self._inflate.decompress(data, STEP_BYTES)
            if piece:
                yield piece
            self.complete = self._inflate.eof
            data = self._inflate.unused_data if self.complete else self._inflate.unconsumed_tail

    def _begin_member(self, data: bytes) -> bool:
        if data[0] != 0x1F:
            self._over = True
            return False
        self._members += 1
        if self._members > MEMBERS_MAX:
            raise BodyFault(f"more than {MEMBERS_MAX} gzip members")
        self._inflate = zlib.decompressobj(31)
        return True


class DeflateDecoder:
    """deflate as the standard has it (a zlib stream, RFC 9110 8.4.1.2) and as old servers send it (bare)."""

    __slots__ = ("_head", "_inflate", "complete")

    def __init__(self) -> None:
        self._head = b""
        self._inflate: zlib._Decompress | None = None
        self.complete = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._inflate is None:
            data = self._head + data
            if len(data) < 2:
                self._head = data
                return
            self._inflate = zlib.decompressobj(15 if _is_zlib_header(data) else -15)
        while data and not self.complete:
            piece = self._inflate.decompress(data, STEP_BYTES)
            if piece:
                yield piece
            self.complete = self._inflate.eof
            data = self._inflate.unconsumed_tail


def _is_zlib_header(data: bytes) -> bool:
    """RFC 1950 2.2. A bare stream would have to open with an odd stored block to look like this."""
    return data[0] & 0x0F == 8 and data[0] >> 4 <= 7 and (data[0] << 8 | data[1]) % 31 == 0


class BrotliDecoder:
    """br (RFC 7932)."""

    __slots__ = ("_decoder", "complete")

    def __init__(self) -> None:
        self._decoder = brotli.Decompressor()
        self.complete = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self.complete:
            raise BodyFault("data behind the end of a brotli body")
        # Once all input is taken there may still be output: ask until nothing comes.
        while piece := self._decoder.process(data, output_buffer_limit=STEP_BYTES):
            yield piece
            data = b""
            if self._decoder.is_finished():
                break
        self.complete = self._decoder.is_finished()


class ZstdDecoder:
    """zstd (RFC 8878) with the window that RFC 9659 sets for the web [A3]."""

    __slots__ = ("_decoder", "_new", "complete")

    def __init__(self) -> None:
        self._new = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX).decompressobj
        self._decoder = self._new()
        self.complete = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), _ZSTD_BITE_BYTES):
            bite = data[at : at + _ZSTD_BITE_BYTES]
            while bite:
                if self.complete:
                    self._decoder = self._new()
                piece = self._decoder.decompress(bite)
                if piece:
                    yield piece
                self.complete = self._decoder.eof
                bite = self._decoder.unused_data if self.complete else b""


DECODERS: dict[str, Callable[[], Decoder]] = {
    "gzip": GzipDecoder,
    "x-gzip": GzipDecoder,
    "deflate": DeflateDecoder,
    "br": BrotliDecoder,
    "zstd": ZstdDecoder,
}
ACCEPT_ENCODING = "gzip, deflate, br, zstd"

_LIBRARY_FAULTS = (zlib.error, brotli.error, zstandard.ZstdError)


# What says that nothing was done: the name for it, a charset or a transfer encoding in the wrong field. Browsers and
# curl take such a body as it is.
_NO_CODING = frozenset({"identity", "none", "utf-8", "utf8", "iso-8859-1", "us-ascii", "7bit", "8bit", "binary"})


def _coding_of(coding: str) -> str | None:
    """The name of a coding, which has no parameters though some servers give it one; None where it is none."""
    name = coding.partition(";")[0].strip().lower()
    return None if name in _NO_CODING else name


def decoders_for(codings: list[str]) -> tuple[Decoder, ...]:
    """Decoders in the order they are undone: the last coding listed was applied last (RFC 9110 8.4)."""
    named = [coding for coding in map(_coding_of, codings) if coding]
    if len(named) > CODINGS_MAX:
        raise BodyFault(f"{len(named)} content codings in a row")
    unknown = next((coding for coding in named if coding not in DECODERS), None)
    if unknown is not None:
        raise BodyFault(f"unknown content coding {unknown[:40]!a}")
    return tuple(DECODERS[coding]() for coding in reversed(named))


class Body:
    """The bytes of one body: no stage of its decoding, and not the wire, may exceed `bytes_max`."""

    __slots__ = ("_decoders", "_parts", "_pieces", "_room", "wire_bytes")

    def __init__(self, decoders: tuple[Decoder, ...], bytes_max: int) -> None:
        self._decoders = decoders
        self._room = [bytes_max] * (len(decoders) + 1)
        self._parts: list[bytes] = []
        self._pieces = 0
        self.wire_bytes = 0

    def write(self, data: bytes) -> None:
        """Take what came. Raises BodyFault or BodyOverflow; up to `bytes_max` bytes are kept in the latter case."""
        size = len(data)
        self.wire_bytes += size
        self._pieces += 1
        if self._pieces > PIECES_MAX:
            raise BodyFault(f"came in more than {PIECES_MAX} pieces")
        if not self._decoders and size <= self._room[0]:
            self._room[0] -= size
            self._parts.append(data)
            return
        try:
            self._pass(data, 0)
        except _LIBRARY_FAULTS as refused:
            raise BodyFault(str(refused)) from None

    def _pass(self, data: bytes, stage: int) -> None:
        room = self._room[stage]
        overflow = len(data) > room
        if overflow:
            data = data[:room]
        self._room[stage] = room - len(data)
        if stage == len(self._decoders):
            self._parts.append(data)
        else:
            for piece in self._decoders[stage].feed(data):
                self._pass(piece, stage + 1)
        if overflow:
            raise BodyOverflow

    def finish(self) -> bytes:
        """The whole body. Raises BodyFault where a coding was cut short [A7]."""
        if self._decoders and not all(decoder.complete for decoder in self._decoders):
            raise BodyFault("compressed body is cut short")
        return self.prefix()

    def prefix(self) -> bytes:
        """What was kept of a body that is too long or broken."""
        self._decoders = ()  # with their windows, which may be larger than the body
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
