"""A small path language over a page: a selector, what to take of the element, and a path into the JSON it holds. Pure.

    h1                                                  text of the first <h1>
    a.next@href                                         an attribute; @text, @html and @inner_html are the others
    script#data@text.items[0].price                     into JSON: keys, [n] counted from 0, [*] for each, ["odd key"]
    meta:og:title                                       content of the <meta> of that name or property
    jsonld:Product.offers.price                         into the JSON-LD item of that @type; jsonld:* takes any

Of several elements the first that has a value counts. A string is given as it is, anything else of JSON as JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from amble.core.page.select import TEXT, Accessor, TextReader, check_selector, take, tree_of
from amble.errors import BadSelector

Step = str | int | None  # a key, an index, each

_STEP = re.compile(r"\.(?P<key>[^.\[\]\s]+)|\[(?P<index>-?[0-9]{1,9})\]|\[(?P<each>\*)\]|\[\"(?P<quoted>[^\"]+)\"\]")
_JSON_CHARS_MAX = 4 * 1024 * 1024
_ITEMS_MAX = 10_000
_JSONLD = 'script[type="application/ld+json" i]'
_META_KEYS = ("name", "property", "itemprop", "http-equiv")
_AT = re.compile(r"@(?P<accessor>[A-Za-z_:][\w:-]*)(?P<steps>(?:\.|\[).*)?\Z", re.DOTALL)
_JSONLD_HEAD = re.compile(r"(?P<type>\*|[^.\[\]\s@]+)(?P<steps>.*)\Z", re.DOTALL)


class Path(NamedTuple):
    """A path that has been read. `kind` is css, meta or jsonld."""

    kind: str
    selector: str
    accessor: Accessor = TEXT
    steps: tuple[Step, ...] = ()
    in_json: bool = False


@lru_cache(maxsize=512)
def parse_path(text: str) -> Path:
    """Raises BadSelector for text that is no path."""
    said = text.strip()
    head, _, rest = said.partition(":")
    if head.lower() == "meta" and rest:
        return Path("meta", rest.strip().lower())
    if head.lower() == "jsonld" and (match := _JSONLD_HEAD.match(rest)):
        return Path("jsonld", match["type"], steps=_steps(match["steps"], text), in_json=True)
    at = _accessor_at(said)
    if at is None:
        check_selector(said)
        return Path("css", said)
    match = _AT.match(said, at)
    if match is None:
        raise BadSelector(f"{said[at:]!r} in the path {text!r} takes nothing", hint=_HINT)
    selector = said[:at].strip()
    check_selector(selector)
    name = match["accessor"]
    accessor = Accessor.parse(name if name.lower() in ("text", "html", "inner_html") else f"@{name}")
    steps = _steps(match["steps"] or "", text)
    return Path("css", selector, accessor, steps, in_json=bool(steps))


_HINT = "write selector@attribute, selector@text.key[0], meta:name or jsonld:Type.key"


def _accessor_at(text: str) -> int | None:
    """Where the `@` stands that ends the selector: outside of quotes, brackets and parentheses."""
    quote, depth = "", 0
    for place, sign in enumerate(text):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in "[(":
            depth += 1
        elif sign in "])":
            depth -= 1
        elif sign == "@" and depth == 0:
            return place
    return None


def _steps(text: str, path: str) -> tuple[Step, ...]:
    steps: list[Step] = []
    at = 0
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None:
            raise BadSelector(f"{text[at:]!r} in the path {path!r} leads nowhere", hint=_HINT)
        if match["index"] is not None:
            steps.append(int(match["index"]))
        else:
            steps.append(match["key"] or match["quoted"])  # neither: [*], each
        at = match.end()
    return tuple(steps)


def htmlpath(html: str, path: str) -> str | None:
    """What the path leads to; None where it leads to nothing, or the page cannot be read."""
    way = parse_path(path)
    tree = tree_of(html)
    if tree is None:
        return None
    if way.kind == "meta":
        for node in tree.css("meta[content]"):
            attributes = node.attributes
            if any((attributes.get(key) or "").strip().lower() == way.selector for key in _META_KEYS):
                return attributes.get("content") or ""
        return None
    reader = TextReader()
    nodes = tree.css(_JSONLD if way.kind == "jsonld" else way.selector)
    for node in nodes:
        value = take(node, way.accessor, reader)
        if value is None or not way.in_json:
            if value is not None:
                return value
            continue
        raw = node.text_lexbor() if way.accessor is TEXT or way.accessor.kind == "text" else value
        for item in _items(raw, way):
            led = walk(item, way.steps)
            if led is not None:
                return led if isinstance(led, str) else json.dumps(led, ensure_ascii=False)
    return None


def _items(raw: str, way: Path) -> Iterator[Any]:
    """The JSON in a text; of JSON-LD the items of the type asked for."""
    if len(raw) > _JSON_CHARS_MAX:
        return
    try:
        value = json.loads(raw.strip().removesuffix(";"), strict=False)
    except (ValueError, RecursionError):
        return
    if way.kind != "jsonld":
        yield value
        return
    for item in graph(value):
        kinds = item.get("@type")
        kinds = kinds if isinstance(kinds, list) else [kinds]
        if way.selector == "*" or way.selector in kinds:
            yield item


def graph(value: Any) -> Iterator[dict[str, Any]]:
    """The items of a JSON-LD document: itself, those of its lists and of its @graph (JSON-LD 1.1, 4.9)."""
    waiting = [value]
    for _ in range(_ITEMS_MAX):
        if not waiting:
            return
        item = waiting.pop()
        if isinstance(item, list):
            waiting += reversed(item)
        elif isinstance(item, dict):
            yield item
            if "@graph" in item:
                waiting.append(item["@graph"])


def walk(value: Any, steps: tuple[Step, ...]) -> Any:
    """What the steps lead to; None where one of them leads nowhere. A key on a list is looked for in its first item."""
    for place, step in enumerate(steps):
        if step is None:
            if not isinstance(value, list):
                return None
            found = (walk(item, steps[place + 1 :]) for item in value)
            return [item for item in found if item is not None]
        if isinstance(step, int):
            if not isinstance(value, list) or not -len(value) <= step < len(value):
                return None
            value = value[step]
        else:
            if isinstance(value, list):
                value = value[0] if value else None
            value = value.get(step) if isinstance(value, dict) else None
        if value is None:
            return None
    return value
