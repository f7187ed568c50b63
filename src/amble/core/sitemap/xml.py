"""Sitemaps and feeds in XML: how far a document is read, on expat, and what its elements mean. Pure.

No document type is read, so no entity can be defined, fetched or expanded; nothing is loaded from anywhere [A18].
Namespace prefixes are compared, not resolved: real sitemaps declare wrong ones or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple
from xml.parsers import expat

from amble.core.sitemap.collect import Collector
from amble.core.sitemap.document import Invalid, SitemapKind, Verdict

# expat keeps every name it ever saw, and an unfinished tag or comment, which before version 2.6 it reads again from
# the start with each piece: quadratic. Real sitemaps stay far below both.
NAMES_MAX = 10_000
TOKEN_BYTES_MAX = 1024 * 1024
_TEXT_CHARS_MAX = 16_384  # longer than any URL that could pass the gate

_TAIL_BYTES = 256
_CLOSING_TAG_CUT = re.compile(rb"</[^<>]*\Z")


class XmlBody:
    """Reads one document; entries go to the collector as their elements close."""

    def __init__(self, collector: Collector, verdict: Verdict) -> None:
        self._verdict = verdict
        # The handlers know nothing of the parser: a cycle would keep the URLs seen in memory until the next collection.
        self._elements = Elements(collector, verdict)
        self._text = self._elements.text
        self._names: dict[str, str] = {}
        self._expat = _parser(self._elements, self._names)
        self._fed_bytes = 0
        self._tail = b""

    def feed(self, text: str) -> bool:
        """Read on. False once nothing more will be read: the document broke or is no sitemap."""
        data = text.encode("utf-8")
        self._tail = (self._tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        self._fed_bytes += len(data)
        self._parse(data, final=False)
        if self._verdict.is_open and (oversize := self._oversize()):
            self._verdict.broken = oversize
            self._elements.salvage(field_is_whole=False)
        return self._verdict.is_open

    def close(self, *, complete: bool) -> None:
        """The end of the body. An incomplete one was cut by a limit, so its missing end is no fault of its own."""
        if complete and self._verdict.is_open:
            self._parse(b"", final=True)
        elif self._verdict.is_open:
            self._salvage()

    def _parse(self, data: bytes, *, final: bool) -> None:
        try:
            self._expat.Parse(data, final)
        except Stop:
            self._elements.salvage(field_is_whole=False)
        except expat.ExpatError as error:
            if self._verdict.kind is None:
                self._verdict.invalid = Invalid.NOT_XML
                return
            self._verdict.broken = f"xml: {expat.ErrorString(error.code)}, line {error.lineno}, column {error.offset}"
            if final:
                self._salvage()
            else:
                self._elements.salvage(field_is_whole=False)

    def _salvage(self) -> None:
        # A location without its end tag may be half a URL; one cut inside the end tag itself is whole.
        self._elements.salvage(field_is_whole=_CLOSING_TAG_CUT.search(self._tail) is not None)

    def _oversize(self) -> str | None:
        """What expat is being made to hoard, if anything. Text beyond the length of any URL is let go."""
        if self._fed_bytes - self._expat.CurrentByteIndex > TOKEN_BYTES_MAX:
            return f"xml: a tag or comment longer than {TOKEN_BYTES_MAX} bytes"
        if len(self._names) > NAMES_MAX:
            return f"xml: more than {NAMES_MAX} different names"
        if len(self._text) > 1 or (self._text and len(self._text[0]) > _TEXT_CHARS_MAX):
            self._text[:] = ["".join(self._text)[:_TEXT_CHARS_MAX]]
        return None


def _parser(elements: Elements, names: dict[str, str]) -> expat.XMLParserType:
    parser = expat.ParserCreate("utf-8", None, names)
    parser.buffer_text = True
    parser.StartElementHandler = elements.start
    parser.EndElementHandler = elements.end
    parser.CharacterDataHandler = elements.text.append  # a C function: text between elements costs next to nothing
    parser.StartDoctypeDeclHandler = elements.refuse_doctype
    return parser


DEPTH_MAX = 100  # real sitemaps need five; the parser keeps every open element

_WHOLE_URL = re.compile(r"https?://\S", re.IGNORECASE)

_ROOT, _ENTRY, _OTHER = "<root>", "<entry>", "<other>"  # beside the fields, what an element can be


class Stop(Exception):
    """Raised to leave the parser: the verdict says why. Nothing after this point is read."""


class Elements:
    """The handlers of one document. The parser appends character data to `text`, between calls."""

    def __init__(self, collector: Collector, verdict: Verdict) -> None:
        self.text: list[str] = []
        self._collector = collector
        self._verdict = verdict
        self._dialect: Dialect | None = None
        self._own_prefixes = {""}
        self._roles: dict[str, str] = {}  # by the name as written
        self._depth = 0
        self._entry_depth = 0  # 0: outside any entry
        self._field = ""
        self._field_depth = 0  # 0: outside any field
        self._fields: dict[str, str] = {}

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """An element opens."""
        depth = self._depth = self._depth + 1
        if depth > DEPTH_MAX:
            self._verdict.broken = f"xml: elements nested deeper than {DEPTH_MAX}"
            raise Stop
        if self._field_depth:
            return  # a tag inside a field, as in <loc><url>...</url></loc>: its text belongs to the field
        role = self._roles.get(name) or self._role_of(name)
        if role is _ENTRY:
            self._open_entry(attributes)
        elif role is _ROOT:
            self._open_document(name)
        elif depth == self._entry_depth + 1:
            if not self._fields:
                self._keep_bare_url()
            if role is LINK:
                self._keep_link(attributes)
            elif role is not _OTHER:
                self._field, self._field_depth = role, depth
        self.text.clear()

    def end(self, _name: str) -> None:
        """An element closes."""
        depth = self._depth
        self._depth = depth - 1
        if depth == self._field_depth:
            self._keep_field()
        elif depth == self._entry_depth:
            self._finish_entry()
        elif not self._field_depth:
            self.text.clear()  # what other elements say is nobody's address

    def refuse_doctype(self, name: str, *_ids: object) -> None:
        """A document type opens: it may define entities, so it is not read [A18]."""
        self._verdict.invalid = Invalid.HTML if name.lower() == "html" else Invalid.DOCTYPE
        raise Stop

    def salvage(self, *, field_is_whole: bool) -> None:
        """The document ends too early: the entry under way counts if its location is whole [B15]."""
        if field_is_whole and self._field_depth:
            self._keep_field()
        if "loc" in self._fields:
            self._finish_entry()

    # --- Roles -----------------------------------------------------------------------------------------------------

    def _role_of(self, name: str) -> str:
        """What an element is by its name: the root, an entry, a field, or nothing to us. Remembered."""
        if self._dialect is None:
            return _ROOT
        prefix, local = _split(name)
        if local == self._dialect.entry and (prefix in self._own_prefixes or self._depth == 2):
            if prefix not in self._own_prefixes:
                self._own_prefixes.add(prefix)
                self._roles.clear()
            role = _ENTRY
        else:
            # image:loc and video:tag are other vocabularies: only the document's own prefix, or none, is ours
            role = self._dialect.fields.get(local if prefix in self._own_prefixes else f"{prefix}:{local}", _OTHER)
        self._roles[name] = role
        return role

    def _open_document(self, name: str) -> None:
        prefix, local = _split(name)
        self._dialect = DIALECTS.get(local)
        if self._dialect is None:
            self._verdict.invalid = Invalid.HTML if local in ("html", "head", "body") else Invalid.UNKNOWN_ROOT
            raise Stop
        self._verdict.kind = self._dialect.kind
        self._own_prefixes.add(prefix)

    # --- Entries and their fields ----------------------------------------------------------------------------------

    def _open_entry(self, attributes: Mapping[str, str]) -> None:
        if self._entry_depth:
            self._finish_entry()  # its end tag was forgotten
        self._entry_depth = self._depth
        if attributes and "rdf:about" in attributes:
            self._fields["guid"] = attributes["rdf:about"]

    def _keep_link(self, attributes: Mapping[str, str]) -> None:
        href = attributes.get("href", "").strip()
        if href and attributes.get("rel", "alternate") == "alternate":
            self._fields.setdefault("loc", href)

    def _keep_bare_url(self) -> None:
        """An address written straight into the entry, without a loc around it."""
        text = "".join(self.text).strip()
        if text and _WHOLE_URL.match(text):
            self._fields["loc"] = text

    def _keep_field(self) -> None:
        self._field_depth = 0
        value = "".join(self.text).strip()
        if not value:
            return
        field = self._field
        if field not in self._fields:
            self._fields[field] = value
        elif field == "loc" and self._verdict.kind in (SitemapKind.URLSET, SitemapKind.INDEX):
            self._offer()  # a second location is a second entry whose opening tag was forgotten
            self._fields["loc"] = value

    def _finish_entry(self) -> None:
        """Offer the entry under way, if there is one."""
        if not self._entry_depth:
            return
        if not self._fields and not self._field_depth:
            self._keep_bare_url()
        self._field_depth = self._entry_depth = 0
        self._offer()

    def _offer(self) -> None:
        fields, self._fields = self._fields, {}
        get = fields.get
        loc = get("loc")
        if loc is None and _WHOLE_URL.match(guid := get("guid", "")):
            loc = guid  # RSS: a guid that is an address serves where the link is missing
        self._collector.add(loc, get("lastmod") or get("published"), get("changefreq"), get("priority"))


def _split(name: str) -> tuple[str, str]:
    prefix, _, local = name.rpartition(":")
    return prefix, local.lower()


LINK = "<link>"  # the address is in an attribute: <link rel="alternate" href="...">


class Dialect(NamedTuple):
    """The element that holds one entry, and what its children mean. Names are lower case, without namespace prefix."""

    kind: SitemapKind
    entry: str
    fields: Mapping[str, str]  # child element -> what its text is


_URLSET = Dialect(
    SitemapKind.URLSET,
    "url",
    {"loc": "loc", "lastmod": "lastmod", "changefreq": "changefreq", "priority": "priority"},
)
_INDEX = Dialect(SitemapKind.INDEX, "sitemap", {"loc": "loc", "lastmod": "lastmod"})
_RSS = Dialect(
    SitemapKind.RSS,
    "item",
    {"link": "loc", "guid": "guid", "pubdate": "lastmod", "dc:date": "published"},
)
_ATOM = Dialect(
    SitemapKind.ATOM,
    "entry",
    # `modified` and `issued` are Atom 0.3
    {"link": LINK, "updated": "lastmod", "modified": "lastmod", "published": "published", "issued": "published"},
)

DIALECTS: Mapping[str, Dialect] = {
    "urlset": _URLSET,
    "sitemapindex": _INDEX,
    "rss": _RSS,
    "rdf": _RSS,  # RSS 0.90 and 1.0
    "feed": _ATOM,
}
