"""What a `Content-Type` says and whether it is wanted. Pure.

Types are parsed as the WHATWG MIME Sniffing standard does; section numbers below are its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType

from amble.errors import SettingsError

_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_QUOTABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")  # "HTTP quoted-string token code points", section 3
_NAME_END = re.compile(r"[;=]")
_NOT_SPACE = re.compile(r"[^\t\n\r ]")
_RUN_END = re.compile(r'["\\]')
_SPACE = "\t\n\r "

_JAVASCRIPT = frozenset(
    {f"{top}/{prefix}{name}" for top in ("application", "text") for prefix in ("", "x-")
     for name in ("ecmascript", "javascript")}
    | {f"text/javascript1.{minor}" for minor in range(6)}
    | {"text/jscript", "text/livescript"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class MimeType:
    """A parsed MIME type: lower-case type, subtype and parameter names; the first of two like-named parameters."""

    type: str
    subtype: str
    parameters: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), hash=False)

    @property
    def essence(self) -> str:
        """`type/subtype`, without the parameters."""
        return f"{self.type}/{self.subtype}"

    @property
    def charset(self) -> str | None:
        """The label of the `charset` parameter, as written."""
        return self.parameters.get("charset")

    @property
    def is_html(self) -> bool:
        """Whether this is HTML (4.6). XHTML is XML."""
        return self.essence == "text/html"

    @property
    def is_xml(self) -> bool:
        """Whether this is an XML type (4.6)."""
        return self.subtype.endswith("+xml") or self.essence in ("text/xml", "application/xml")

    @property
    def is_json(self) -> bool:
        """Whether this is a JSON type (4.6)."""
        return self.subtype.endswith("+json") or self.essence in ("application/json", "text/json")

    @property
    def is_javascript(self) -> bool:
        """Whether this is a JavaScript type (4.6)."""
        return self.essence in _JAVASCRIPT


def parse_mime_type(text: str) -> MimeType | None:
    """The MIME type a header value or `type` attribute names, or None (4.4). Linear in the text [A17]."""
    # Nearly every response says the same; long text is read but not remembered: a cache must not fill memory.
    return _remembered(text) if len(text) <= 128 else _remembered.__wrapped__(text)


@lru_cache(maxsize=1024)
def _remembered(text: str) -> MimeType | None:
    text = text.strip(_SPACE)
    top, slash, rest = text.partition("/")
    subtype, _, parameters = rest.partition(";")
    subtype = subtype.rstrip(_SPACE)
    if not slash or not _TOKEN.fullmatch(top) or not _TOKEN.fullmatch(subtype):
        return None
    return MimeType(_lower(top), _lower(subtype), MappingProxyType(_parameters(parameters)))


def _parameters(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    at = 0
    while (name_start := _NOT_SPACE.search(text, at)) and (name_end := _NAME_END.search(text, name_start.start())):
        name, at = _lower(text[name_start.start() : name_end.start()]), name_end.end()
        if name_end[0] == ";":
            continue
        value, at = _value(text, at)
        if value is not None and name not in found and _TOKEN.fullmatch(name) and _QUOTABLE.fullmatch(value):
            found[name] = value
    return found


def _value(text: str, at: int) -> tuple[str | None, int]:
    """A parameter's value and where the next parameter starts; None for an empty unquoted value, which is skipped."""
    if text.startswith('"', at):
        value, at = _quoted_string(text, at + 1)
        return value, _after_semicolon(text, at)  # whatever follows the closing quote is lost
    next_at = _after_semicolon(text, at)
    return text[at:next_at].removesuffix(";").rstrip(_SPACE) or None, next_at


def _after_semicolon(text: str, at: int) -> int:
    return (text.find(";", at) + 1) or len(text)


def _quoted_string(text: str, at: int) -> tuple[str, int]:
    pieces = []
    while stop := _RUN_END.search(text, at):
        pieces.append(text[at : stop.start()])
        if stop[0] == '"':
            return "".join(pieces), stop.end()
        pieces.append(text[stop.end() : stop.end() + 1] or "\\")  # a backslash at the very end stands for itself
        at = stop.end() + 1
    return "".join([*pieces, text[at:]]), len(text)


def _lower(text: str) -> str:
    return text.lower() if text.isascii() else text  # non-ASCII names are refused by the caller


# --- Wanted or not -------------------------------------------------------------------------------------------------


def accepts(content_type: str | None, accept: Iterable[str], reject: Iterable[str]) -> bool:
    """Whether a response's type is wanted: `accept` must name it (an empty list names all), then `reject` must not.

    Patterns are `text/html`, `text/*` or `*/*`, compared with the essence: parameters play no part. A missing or
    malformed type cannot be judged before the body is read, so it passes, unless `*/*` is rejected.
    """
    wanted, unwanted = tuple(map(_pattern, accept)), tuple(map(_pattern, reject))
    mime = None if content_type is None else parse_mime_type(content_type)
    if mime is None:
        return ("*", "*") not in unwanted
    return (not wanted or _named(mime, wanted)) and not _named(mime, unwanted)


def _named(mime: MimeType, patterns: Iterable[tuple[str, str]]) -> bool:
    return any(top in ("*", mime.type) and sub in ("*", mime.subtype) for top, sub in patterns)


@lru_cache(maxsize=256)
def _pattern(text: str) -> tuple[str, str]:
    top, slash, sub = text.strip().lower().partition("/")
    if not slash or not _TOKEN.fullmatch(top) or not _TOKEN.fullmatch(sub) or (top == "*" and sub != "*"):
        raise SettingsError(f"{text!r} is no content type pattern", hint="write text/html, text/* or */*")
    return top, sub
