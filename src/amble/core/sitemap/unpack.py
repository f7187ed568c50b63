"""Whether a body is gzip, by its first bytes whatever its name says, and its contents in bounded pieces. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

PIECE_BYTES = 64 * 1024
GZIP_MAGIC = b"\x1f\x8b"

# One member is the rule and a few thousand the most that block compressors write for 50 MiB; more is an attack on the
# fixed cost of starting one [A5].
_MEMBERS_MAX = 2_000


class Unpacker:
    """Bytes as they arrive to bytes as they were before gzip, never more than PIECE_BYTES at a time."""

    def __init__(self) -> None:
        self.broken: str | None = None
        self._start = b""
        self._gzip: zlib._Decompress | None = None
        self._plain = False
        self._members = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces that `data` adds. Stops early, with `broken` set, where the compression breaks off."""
        if not self._plain and self._gzip is None:
            self._start += data
            if len(self._start) < len(GZIP_MAGIC):
                return
            data, self._start = self._start, b""
            self._plain = not data.startswith(GZIP_MAGIC)
        yield from _pieces(data) if self._plain else self._inflated(data)

    def close(self, *, cut: bool = False) -> Iterator[bytes]:
        """What is left at the end of the body; a gzip member without an end is `broken`, unless we cut it off."""
        if self._start:
            yield self._start
        if self._gzip is not None and not self._gzip.eof and self.broken is None and not cut:
            self.broken = "gzip: the data ends too early"

    def _inflated(self, data: bytes) -> Iterator[bytes]:
        while data and (member := self._member(data)) is not None:
            before = member.copy()
            try:
                piece = member.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                self.broken = f"gzip: {error}"
                yield _up_to_the_fault(before, data)
                return
            data = member.unused_data if member.eof else member.unconsumed_tail
            if piece:
                yield piece

    def _member(self, data: bytes) -> zlib._Decompress | None:
        """The gzip member that `data` goes on with, or begins; None for padding after the last one."""
        if self.broken is not None:
            return None
        if self._gzip is not None and not self._gzip.eof:
            return self._gzip
        if self._gzip is not None and not data.startswith(GZIP_MAGIC[: len(data)]):
            return None
        self._members += 1
        if self._members > _MEMBERS_MAX:
            self.broken = f"gzip: more than {_MEMBERS_MAX} members"
            return None
        self._gzip = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        return self._gzip


def _up_to_the_fault(member: zlib._Decompress, data: bytes) -> bytes:
    """What zlib had unpacked before it met the fault, which it keeps to itself; a wrong checksum comes last of all."""
    unpacked = bytearray()
    try:
        for at in range(len(data)):
            unpacked += member.decompress(data[at : at + 1])
    except zlib.error:
        pass
    return bytes(unpacked)


def _pieces(data: bytes) -> Iterator[bytes]:
    if len(data) <= PIECE_BYTES:
        yield data
        return
    for at in range(0, len(data), PIECE_BYTES):
        yield data[at : at + PIECE_BYTES]
