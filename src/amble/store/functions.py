"""The scalar functions that SQL on our connections has: about URLs, and about the text of pages.

| function | gives |
|---|---|
| `surt(url)` | the key under which web archives file a URL |
| `domain_of(url)` | the domain that pacing groups by |
| `css_select(html, selector[, accessor])` | VARCHAR[]: of each finding its text, html, inner_html or `@attribute` |
| `htmlpath(html, path)` | VARCHAR: the first value that a path leads to, see `amble.core.page.htmlpath` |
| `page_info(html, url)` | STRUCT: title, description, canonical, lang, directives, links, ... |

NULL in, NULL out. A page that cannot be read and text that is no URL give NULL; a selector or path that cannot be read
is an error. They are registered once per database instance, as native functions: DuckDB calls them from any thread.
"""

from __future__ import annotations

from typing import Any

import duckdb
from duckdb import DuckDBPyConnection
from duckdb.func import FunctionNullHandling

from amble.core.page import htmlpath as paths
from amble.core.page.page import read_page
from amble.core.page.select import TEXT, Accessor, select
from amble.core.surt import surt_key
from amble.core.urls import Refusal, normalize
from amble.core.urls import domain_of as domain_of_url
from amble.errors import BadDomain, BadSelector

_PAGE_INFO = (
    "STRUCT(title VARCHAR, description VARCHAR, canonical VARCHAR, lang VARCHAR, base VARCHAR, refresh VARCHAR, "
    "directives VARCHAR[], noindex BOOLEAN, nofollow BOOLEAN, "
    "links STRUCT(url VARCHAR, text VARCHAR, rel VARCHAR[], nofollow BOOLEAN)[], links_truncated BOOLEAN)"
)
_HTML = "text/html; charset=utf-8"


def surt(url: str | None) -> str | None:
    return None if url is None else surt_key(url)


def domain_of(url: str | None) -> str | None:
    if url is None:
        return None
    try:
        return domain_of_url(url)
    except BadDomain:
        return None


def css_select(*arguments: Any) -> list[str] | None:
    if not 2 <= len(arguments) <= 3:
        raise BadSelector(
            f"css_select takes two or three arguments, not {len(arguments)}",
            hint="css_select(html, selector) or css_select(html, selector, accessor)",
        )
    html, selector = _text(arguments[0]), arguments[1]
    if html is None or selector is None or None in arguments:
        return None
    return select(html, str(selector), Accessor.parse(str(arguments[2])) if len(arguments) == 3 else TEXT)


def htmlpath(*arguments: Any) -> str | None:
    if len(arguments) != 2:
        raise BadSelector(f"htmlpath takes two arguments, not {len(arguments)}", hint="htmlpath(html, path)")
    html, path = _text(arguments[0]), arguments[1]
    return None if html is None or path is None else paths.htmlpath(html, str(path))


def page_info(*arguments: Any) -> dict[str, Any] | None:
    if len(arguments) != 2:
        raise BadSelector(f"page_info takes two arguments, not {len(arguments)}", hint="page_info(html, url)")
    html, url = _text(arguments[0]), arguments[1]
    if html is None or url is None:
        return None
    at = normalize(str(url))
    if isinstance(at, Refusal):
        return None
    page = read_page(html.encode("utf-8", "replace"), at, _HTML)
    return {
        "title": page.title,
        "description": page.description,
        "canonical": page.canonical.url if page.canonical else None,
        "lang": page.lang,
        "base": page.base,
        "refresh": page.refresh.url if page.refresh else None,
        "directives": sorted(page.robots.restrictions),
        "noindex": page.robots.noindex,
        "nofollow": page.robots.nofollow,
        "links": [
            {"url": link.url, "text": link.text, "rel": list(link.rel), "nofollow": link.nofollow}
            for link in page.links
        ],
        "links_truncated": page.links_truncated,
    }


def _text(value: Any) -> str | None:
    """A body, also from a BLOB column."""
    return bytes(value).decode("utf-8", "replace") if isinstance(value, bytes | bytearray) else value


# Without parameter types any number of arguments of any type is taken: a body may be VARCHAR or BLOB.
_FUNCTIONS: tuple[tuple[str, Any, Any, str], ...] = (
    ("surt", surt, ["VARCHAR"], "VARCHAR"),
    ("domain_of", domain_of, ["VARCHAR"], "VARCHAR"),
    ("css_select", css_select, None, "VARCHAR[]"),
    ("htmlpath", htmlpath, None, "VARCHAR"),
    ("page_info", page_info, None, _PAGE_INFO),
)

_NOTHING = {"surt": "NULL", "domain_of": "NULL"}  # arguments for which each gives NULL


def prepare(connection: DuckDBPyConnection) -> None:
    """Register the functions on the database instance of a connection, unless it has them.

    They belong to the instance, not to the connection, and a connection that is never closed while it holds a Python
    function makes the interpreter complain when it ends: so a cursor registers them and is closed.
    """
    cursor = connection.cursor()
    try:
        if _knows(cursor, *(name for name, _, _, _ in _FUNCTIONS)):
            return None
        for name, function, parameters, returned in _FUNCTIONS:
            if not _knows(cursor, name):
                cursor.create_function(name, function, parameters, returned, null_handling=FunctionNullHandling.SPECIAL)
    except duckdb.CatalogException:
        return prepare(connection)  # another thread was registering them at the same time
    finally:
        cursor.close()


def _knows(cursor: DuckDBPyConnection, *names: str) -> bool:
    """By calling them: to look through all functions of DuckDB takes a hundred times as long."""
    calls = (f"system.main.{name}({_NOTHING.get(name, 'NULL, NULL')})" for name in names)
    try:
        cursor.execute(f"SELECT {', '.join(calls)}").fetchall()
    except duckdb.CatalogException:
        return False
    return True
