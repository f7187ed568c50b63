"""What the elements of a sitemap or feed mean: called as they open and close, hands on the entries they make up. Pure.

Namespace prefixes are compared, not resolved: real sitemaps declare wrong ones or none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from amble.core.sitemap.collect import Collector
from amble.core.sitemap.dialects import DIALECTS, LINK, Dialect
from amble.core.sitemap.document import Invalid, SitemapKind, Verdict

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
