"""Which table a text names: identifiers read as SQL reads them, quoted when written, never pasted [E1]."""

from __future__ import annotations

from typing import NamedTuple

from amble.errors import StoreError
from amble.store.database import quote

_OURS = "amble"
_NOT_FOR_PAGES = frozenset({_OURS, "pg_catalog", "information_schema", "temp", "system"})
_PLAIN_END = frozenset('."')


class TableName(NamedTuple):
    """A table in the database that the store keeps. Its `str` is SQL."""

    schema: str
    name: str

    @classmethod
    def parse(cls, text: str, database: str) -> TableName:
        """`table`, `schema.table` or `database.schema.table`; parts with odd characters stand in double quotes."""
        parts = _parts(text)
        if len(parts) == 3:
            if parts[0].casefold() != database.casefold():
                raise StoreError(
                    f"the table {text!r} lies in another database than {database}",
                    hint="pages go to the database that the crawl runs in: name a table of it",
                )
            parts = parts[1:]
        if len(parts) > 2:
            raise StoreError(f"{text!r} names no table", hint="write table or schema.table")
        return cls.of(*parts) if len(parts) == 2 else cls.of("main", parts[0])

    @classmethod
    def of(cls, schema: str, name: str) -> TableName:
        for part in (schema, name):
            if not part:
                raise StoreError("a table name has an empty part", hint='write "" inside quotes for a quote')
            if "\0" in part or any("\ud800" <= c <= "\udfff" for c in part):
                raise StoreError(f"the table name {part!r} holds characters that no name can", hint="choose another")
        if schema.casefold() in _NOT_FOR_PAGES:
            raise StoreError(f"the schema {schema} is not for pages", hint="choose another schema, or none")
        return cls(schema, name)

    def __str__(self) -> str:
        return f"{quote(self.schema)}.{quote(self.name)}"


def _parts(text: str) -> list[str]:
    """Split at dots outside quotes; a doubled quote inside quotes is a quote."""
    parts, at = [], 0
    while True:
        part, at = _quoted(text, at + 1) if text[at : at + 1] == '"' else _plain(text, at)
        parts.append(part)
        if at == len(text):
            return parts
        if text[at] != ".":
            raise StoreError(f"{text!r} is no table name", hint="put names with odd characters in double quotes")
        at += 1


def _plain(text: str, at: int) -> tuple[str, int]:
    end = at
    while end < len(text) and text[end] not in _PLAIN_END:
        end += 1
    return text[at:end], end


def _quoted(text: str, at: int) -> tuple[str, int]:
    part = ""
    while True:
        end = text.find('"', at)
        if end < 0:
            raise StoreError(f"{text!r} lacks a closing quote", hint='write "" inside quotes for a quote')
        part += text[at:end]
        if text[end + 1 : end + 2] != '"':
            return part, end + 1
        part += '"'
        at = end + 2
