"""What an XML sitemap or feed lists, read in pieces by expat with every way out of the document closed. Pure.

No document type is read, so no entity can be defined, fetched or expanded; nothing is loaded from anywhere [A18].
Namespace prefixes are compared, not resolved: real sitemaps declare wrong ones or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.parsers import expat

from amble.core.sitemap.collect import Collector
from amble.core.sitemap.dialects import DIALECTS, LINK, Dialect
from amble.core.sitemap.document import Invalid, SitemapKind

# expat keeps every open element, every name it ever saw, and an unfinished tag or comment, which it reads again from
# the start with each piece (quadratic before expat 2.6). Real sitemaps stay far below all three.
DEPTH_MAX = 100
NAMES_MAX = 10_000
TOKEN_BYTES_MAX = 1024 * 1024
_TEXT_CHARS_MAX = 16_384  # longer than any URL that could pass the gate

_CLOSING_TAG_CUT = re.compile(rb"</[^<>]*\Z")
_WHOLE_URL = re.compile(r"https?://\S", re.IGNORECASE)

_ROOT, _ENTRY, _OTHER = "<root>", "<entry>", "<other>"  # beside the fields, what an element can be


class _Stop(Exception):
    """Raised in a handler to leave expat. Nothing after this point is read."""


class XmlBody:
    """Reads one document; entries go to the collector as their elements close."""

    def __init__(self, collector: Collector, *, allow_doctype: bool) -> None:
        self.kind: SitemapKind | None = None
        self.namespace: str | None = None
        self.invalid: Invalid | None = None
        self.broken: str | None = None
        self._collector = collector
        self._dialect: Dialect | None = None
        self._own_prefixes = {""}
        self._depth = 0
        self._entry_depth = 0  # 0: outside any entry
        self._field: str | None = None
        self._field_depth = 0
        self._fields: dict[str, str] = {}
        self._text: list[str] = []
        self._roles: dict[str, str] = {}  # by the name as written
        self._fed_bytes = 0
        self._tail = b""
        self._interned: dict[str, str] = {}
        self._expat = self._parser(allow_doctype)

    def _parser(self, allow_doctype: bool) -> expat.XMLParserType:
        parser = expat.ParserCreate("utf-8", None, self._interned)
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text.append  # a C function: text between elements costs next to nothing
        if allow_doctype:
            parser.DefaultHandler = _ignore  # with it in place expat hands entities over instead of expanding them
        else:
            parser.StartDoctypeDeclHandler = self._refuse_doctype
        return parser

    # --- Feeding ---------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> bool:
        """Read on. False once nothing more will be read: the document broke or is no sitemap."""
        data = text.encode("utf-8")
        self._tail = (self._tail + data)[-256:] if len(data) < 256 else data[-256:]
        self._fed_bytes += len(data)
        try:
            self._expat.Parse(data, False)
        except expat.ExpatError as error:
            self._break_off(error)
        except _Stop:
            self._salvage_entry()
        else:
            self._check_size()
        return self.invalid is None and self.broken is None

    def close(self, *, complete: bool) -> None:
        """The end of the body. An incomplete one was cut by a limit, so its missing end is no fault of its own."""
        if self.invalid is not None or self.broken is not None:
            return
        if complete:
            try:
                self._expat.Parse(b"", True)
            except expat.ExpatError as error:
                self._cut_short()
                self._break_off(error)
            return
        self._cut_short()
        self._salvage_entry()

    def _cut_short(self) -> None:
        # A location without its end tag may be half a URL; one cut inside the end tag itself is whole [B15].
        if self._field is not None and _CLOSING_TAG_CUT.search(self._tail):
            self._keep_field()

    def _break_off(self, error: expat.ExpatError) -> None:
        if self._dialect is None:
            self.invalid = Invalid.NOT_XML
            return
        self.broken = f"xml: {expat.ErrorString(error.code)}, line {error.lineno}, column {error.offset}"
        self._salvage_entry()

    def _salvage_entry(self) -> None:
        """Where the document ends too early: the entry under way counts if its location was complete."""
        if "loc" in self._fields:
            self._finish_entry()

    def _check_size(self) -> None:
        if self._fed_bytes - self._expat.CurrentByteIndex > TOKEN_BYTES_MAX:
            self.broken = f"xml: a tag or comment longer than {TOKEN_BYTES_MAX} bytes"
        elif len(self._interned) > NAMES_MAX:
            self.broken = f"xml: more than {NAMES_MAX} different names"
        if self.broken is not None:
            self._salvage_entry()
        elif len(self._text) > 1 or (self._text and len(self._text[0]) > _TEXT_CHARS_MAX):
            self._text[:] = ["".join(self._text)[:_TEXT_CHARS_MAX]]

    # --- Handlers --------------------------------------------------------------------------------------------------

    def _start(self, name: str, attributes: Mapping[str, str]) -> None:
        depth = self._depth = self._depth + 1
        if depth > DEPTH_MAX:
            self.broken = f"xml: elements nested deeper than {DEPTH_MAX}"
            raise _Stop
        if self._field is not None:
            return  # a tag inside a field, as in <loc><url>...</url></loc>: its text belongs to the field
        role = self._roles.get(name) or self._role_of(name)
        if role is _ENTRY:
            self._open_entry(attributes)
        elif role is _ROOT:
            self._open_document(name, attributes)
        elif role is LINK:
            self._keep_link(attributes)
        elif depth == self._entry_depth + 1:
            if not self._fields:
                self._keep_bare_url()
            if role is not _OTHER:
                self._field, self._field_depth = role, depth
        self._text.clear()

    def _end(self, _name: str) -> None:
        if self._field is not None:
            if self._depth == self._field_depth:
                self._keep_field()
        elif self._depth == self._entry_depth:
            self._finish_entry()
        else:
            self._text.clear()  # what other elements say is nobody's address
        self._depth -= 1

    def _refuse_doctype(self, name: str, *_ids: object) -> None:
        self.invalid = Invalid.HTML if name.lower() == "html" else Invalid.DOCTYPE
        raise _Stop

    # --- What the elements mean ------------------------------------------------------------------------------------

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

    def _open_document(self, name: str, attributes: Mapping[str, str]) -> None:
        prefix, local = _split(name)
        self._dialect = DIALECTS.get(local)
        if self._dialect is None:
            self.invalid = Invalid.HTML if local in ("html", "head", "body") else Invalid.UNKNOWN_ROOT
            raise _Stop
        self.kind = self._dialect.kind
        self.namespace = attributes.get(f"xmlns:{prefix}" if prefix else "xmlns")
        self._own_prefixes.add(prefix)

    def _open_entry(self, attributes: Mapping[str, str]) -> None:
        if self._entry_depth:
            self._finish_entry()  # its end tag was forgotten
        self._entry_depth = self._depth
        if attributes and "rdf:about" in attributes:
            self._fields["guid"] = attributes["rdf:about"]

    def _keep_link(self, attributes: Mapping[str, str]) -> None:
        href = attributes.get("href", "").strip()
        if href and self._depth == self._entry_depth + 1 and attributes.get("rel", "alternate") == "alternate":
            self._fields.setdefault("loc", href)

    def _keep_bare_url(self) -> None:
        """An address written straight into the entry, without a loc around it."""
        text = "".join(self._text).strip()
        if text and _WHOLE_URL.match(text):
            self._fields["loc"] = text

    def _keep_field(self) -> None:
        field, self._field = self._field, None
        value = "".join(self._text).strip()
        self._text.clear()
        if not value or field is None:
            return
        fields = self._fields
        if field not in fields:
            fields[field] = value
        elif field == "loc" and self.kind in (SitemapKind.URLSET, SitemapKind.INDEX):
            self._offer()  # a second location is a second entry whose opening tag was forgotten
            self._fields["loc"] = value

    def _finish_entry(self) -> None:
        """Offer the entry under way, if there is one."""
        if not self._entry_depth:
            return
        if self._field is None and not self._fields:
            self._keep_bare_url()
        self._field = None
        self._entry_depth = 0
        self._offer()

    def _offer(self) -> None:
        fields, self._fields = self._fields, {}
        get = fields.get
        loc = get("loc")
        if not loc and _WHOLE_URL.match(guid := get("guid", "")):
            loc = guid  # RSS: a guid that is an address serves where the link is missing
        self._collector.add(loc, get("lastmod") or get("published"), get("changefreq"), get("priority"))


def _split(name: str) -> tuple[str, str]:
    prefix, _, local = name.rpartition(":")
    return prefix, local.lower()


def _ignore(_data: str) -> None:
    """Markup that is neither element nor text."""
