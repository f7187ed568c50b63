"""A body as it was before gzip, by its first bytes whatever its name says, in bounded pieces. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

PIECE_BYTES = 64 * 1024
GZIP_MAGIC = b"\x1f\x8b"

# One member is the rule and a few thousand the most that block compressors write for 50 MiB; more is an attack on the
# fixed cost of starting one [A5].
_MEMBERS_MAX = 2_000


class BrokenGzip(Exception):
    """The compression breaks off; what came before is good."""


def unpacked(body: bytes, *, cut: bool) -> Iterator[bytes]:
    """Pieces of at most PIECE_BYTES, and then perhaps BrokenGzip. A body that was `cut` may end anywhere."""
    if not body.startswith(GZIP_MAGIC):
        for at in range(0, len(body), PIECE_BYTES):
            yield body[at : at + PIECE_BYTES]
        return
    for _ in range(_MEMBERS_MAX):
        member = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        is_whole = False
        while not is_whole:
            before = member.copy()
            try:
                piece = member.decompress(body, PIECE_BYTES)
            except zlib.error as error:
                yield _up_to_the_fault(before, body)
                raise BrokenGzip(f"gzip: {error}") from None
            is_whole = member.eof
            body = member.unused_data if is_whole else member.unconsumed_tail
            if piece:
                yield piece
            elif not body and not is_whole:
                if cut:
                    return
                raise BrokenGzip("gzip: the data ends too early")
        if not body.startswith(GZIP_MAGIC):  # padding after the last one, or nothing
            return
    raise BrokenGzip(f"gzip: more than {_MEMBERS_MAX} members")


def _up_to_the_fault(member: zlib._Decompress, data: bytes) -> bytes:
    """What zlib had unpacked before it met the fault, which it keeps to itself; a wrong checksum comes last of all."""
    unpacked = bytearray()
    try:
        for at in range(len(data)):
            unpacked += member.decompress(data[at : at + 1])
    except zlib.error:
        pass
    return bytes(unpacked)
