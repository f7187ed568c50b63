"""Which characters the bytes of a sitemap are: byte order mark, then XML declaration, then UTF-8. Pure."""

from __future__ import annotations

import codecs
import re

_DECLARED = re.compile(rb"\s*<\?xml[^>]{0,200}?\bencoding\s*=\s*[\"']\s*([A-Za-z0-9._:-]{1,40})\s*[\"']")

# Labels of the WHATWG Encoding Standard, by the codec that reads them. Nothing else reaches a decoder: Python would
# also accept punycode (quadratic), idna and unicode_escape [A14], and the standard itself bans UTF-7 [A18].
_LABELS_BY_CODEC = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8",
    "cp1252": "windows-1252 cp1252 x-cp1252 ascii us-ascii ansi_x3.4-1968 iso-8859-1 iso8859-1 iso_8859-1 iso88591 "
    "latin1 l1 cp819 ibm819",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251",
    "cp1253": "windows-1253 cp1253 x-cp1253",
    "cp1254": "windows-1254 cp1254 x-cp1254 iso-8859-9 iso8859-9 iso_8859-9 iso88599 latin5 l5",
    "cp1255": "windows-1255 cp1255 x-cp1255",
    "cp1256": "windows-1256 cp1256 x-cp1256",
    "cp1257": "windows-1257 cp1257 x-cp1257",
    "cp1258": "windows-1258 cp1258 x-cp1258",
    "iso8859-2": "iso-8859-2 iso8859-2 iso_8859-2 iso88592 latin2 l2",
    "iso8859-3": "iso-8859-3 iso8859-3 iso_8859-3 iso88593 latin3 l3",
    "iso8859-4": "iso-8859-4 iso8859-4 iso_8859-4 iso88594 latin4 l4",
    "iso8859-5": "iso-8859-5 iso8859-5 iso_8859-5 iso88595 cyrillic",
    "iso8859-6": "iso-8859-6 iso8859-6 iso_8859-6 iso88596 arabic",
    "iso8859-7": "iso-8859-7 iso8859-7 iso_8859-7 iso88597 greek",
    "iso8859-8": "iso-8859-8 iso8859-8 iso_8859-8 iso88598 iso-8859-8-i hebrew visual logical",
    "iso8859-10": "iso-8859-10 iso8859-10 iso885910 latin6 l6",
    "iso8859-13": "iso-8859-13 iso8859-13 iso885913",
    "iso8859-14": "iso-8859-14 iso8859-14 iso885914",
    "iso8859-15": "iso-8859-15 iso8859-15 iso_8859-15 iso885915 l9",
    "iso8859-16": "iso-8859-16",
    "cp874": "windows-874 tis-620 iso-8859-11 iso8859-11 iso885911 dos-874",
    "cp866": "ibm866 866 cp866 csibm866",
    "koi8-r": "koi8-r koi8 koi cskoi8r",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "macintosh mac x-mac-roman csmacintosh",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "gb18030": "gb18030 gbk gb2312 gb_2312-80 x-gbk chinese csgb2312 iso-ir-58 gb_2312 csiso58gb231280",
    "big5hkscs": "big5 big5-hkscs cn-big5 x-x-big5 csbig5",
    "euc_jp": "euc-jp x-euc-jp cseucpkdfmtjapanese",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift_jis shift-jis sjis x-sjis ms_kanji windows-31j ms932 csshiftjis",
    "cp949": "euc-kr korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949 cseuckr iso-ir-149",
}
_CODECS = {label: codec for codec, labels in _LABELS_BY_CODEC.items() for label in labels.split()}

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_UNMARKED = ((b"<\0", "utf-16-le"), (b"\0<", "utf-16-be"))  # XML 1.0 appendix F: no mark, yet plainly two bytes each


def decoder_for(head: bytes) -> tuple[codecs.IncrementalDecoder, int]:
    """A decoder for a body that starts with `head`, and the length of the byte order mark to skip.

    A mark outranks the declaration. A declaration read byte by byte that claims UTF-16 is wrong about itself and means
    UTF-8 (WHATWG, as for meta charset); an unknown label means UTF-8 too. Bytes that do not decode become U+FFFD.
    """
    for mark, codec in _MARKS:
        if head.startswith(mark):
            return _decoder(codec), len(mark)
    for start, codec in _UNMARKED:
        if head.startswith(start):
            return _decoder(codec), 0
    declared = _DECLARED.match(head)
    label = declared[1].decode("ascii").lower() if declared else "utf-8"
    return _decoder(_CODECS.get(label, "utf-8")), 0


def _decoder(codec: str) -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder(codec)(errors="replace")
