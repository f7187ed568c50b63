"""Where the tags of an HTML text are, found in time linear in the text whatever the text is. Pure.

The grammar is that of the WHATWG tokenizer (HTML 13.2.5), written as expressions that never try a character twice:
every repetition is possessive, and each branch is chosen by the character it stands on [A15].
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from amble.core.page.references import unescape_value

W = r"\t\n\f\r "  # white space, within brackets
_NAME = rf"[A-Za-z][^{W}/>]*+"
# A quote opens a value only right after `=`, and a value that never closes takes the rest of the text with it.
_VALUE = rf"\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z)|[^{W}>\"'][^{W}>]*+"
_ATTRIBUTE = rf"[^{W}/>][^{W}/>=]*+[{W}]*+(?>=[{W}]*+(?>{_VALUE})?+)?+"
# How nearly all tags are written. It finds nothing that the full grammar would not, only sooner.
_USUAL_ATTRIBUTE = rf"[{W}]++[A-Za-z0-9:_.-]++(?>=\"[^\"]*+\")?+"
COMMENT = r"!--(?:-?>|(?>[^-]++|-(?!-!?>))*+--!?>)"
_BOGUS_COMMENT = r"(?:!(?!--)|\?|/(?![A-Za-z]))[^>]*+>"  # doctypes too, and CDATA outside of foreign content

_ATTRIBUTES = rf"(?>[{W}/]++|{_ATTRIBUTE})*+"

TAG = re.compile(rf"<(/?)({_NAME})({_ATTRIBUTES})>")
ANY_MARKUP = re.compile(rf"<(?:/?{_NAME}{_ATTRIBUTES}>|{COMMENT}|{_BOGUS_COMMENT})")

_CAPTURED_ATTRIBUTE = re.compile(
    rf"([^{W}/>][^{W}/>=]*+)[{W}]*+(?:=[{W}]*+(?:\"([^\"]*+)\"|'([^']*+)'|([^{W}>\"'][^{W}>]*+))?)?"
)


# Beyond so many attributes on one tag only the names that a reader asks for are kept: a flood must not fill memory.
_KEPT_MAX = 500
_ASKED_FOR = frozenset({"content", "href", "http-equiv", "lang", "name", "rel", "xlink:href"})
_LONG = 16 * 1024


def attributes_of(raw: str) -> dict[str, str]:
    """The attributes in the third group of a TAG: names in lower case, of two alike the first, references resolved."""
    found: dict[str, str] = {}
    for name, double, single, bare in _pieces(raw):
        name = name.lower()
        if name not in found and (len(found) < _KEPT_MAX or name in _ASKED_FOR):
            value = double or single or bare
            found[name] = unescape_value(value) if "&" in value else value
    return found


def attribute_count(raw: str, at_most: int) -> int:
    """How many attributes are written there, counted no further than `at_most`."""
    return sum(1 for _ in islice(_CAPTURED_ATTRIBUTE.finditer(raw), at_most))


def _pieces(raw: str) -> Iterable[tuple[str, ...]]:
    if len(raw) < _LONG:
        return _CAPTURED_ATTRIBUTE.findall(raw)
    return (match.groups("") for match in _CAPTURED_ATTRIBUTE.finditer(raw))


def skipper(
    starts: Iterable[str], ends: Iterable[str], *, plain: Iterable[str] = (), attributes_max: int | None = None
) -> str:
    """An expression that runs over text, comments and tags, and stops at the first tag of interest.

    It stops at start tags named in `starts` (those also in `plain` only if they have attributes), at end tags named in
    `ends`, at a tag of more than `attributes_max` attributes, and at markup that never ends.
    """
    starts, ends = tuple(starts), tuple(ends)
    times = "*+" if attributes_max is None else f"{{0,{attributes_max}}}+"
    stops = "|".join([*map(_any_case, starts), *(f"/{_any_case(name)}" for name in ends)])
    branches = [
        rf"/{_usual_name_but(ends)}>",
        rf"{_usual_name_but(starts)}(?>{_USUAL_ATTRIBUTE}){times}[{W}]*+/?+>",
        *([rf"(?:{'|'.join(map(_any_case, plain))})>"] if plain else ()),
        rf"(?!(?:{stops})[{W}/>])/?{_NAME}(?>[{W}/]*+{_ATTRIBUTE}){times}[{W}/]*+>",
        COMMENT,
        _BOGUS_COMMENT,
        r"(?![A-Za-z/!?])",
    ]
    return rf"[^<]*+(?><(?:{'|'.join(branches)})[^<]*+)*+"


def between_tags(*, cdata: bool) -> str:
    """An expression that runs over text and comments up to the next tag; CDATA sections exist in foreign content."""
    section = r"!\[CDATA\[(?>[^\]]++|\](?!\]>))*+\]\]>|" if cdata else ""
    return rf"[^<]*+(?><(?:{section}{COMMENT}|{_BOGUS_COMMENT}|(?![A-Za-z/!?]))[^<]*+)*+"


def _usual_name_but(names: Iterable[str]) -> str:
    """A lower-case tag name that neither is nor begins with one of `names`, told by its first letter where possible."""
    rests: dict[str, list[str]] = {}
    for name in names:
        rests.setdefault(name[0], []).append(name[1:] or rf"[{W}/>]")
    free = "".join(letter for letter in "abcdefghijklmnopqrstuvwxyz" if letter not in rests)
    bound = "|".join(f"{letter}(?!{'|'.join(rest)})" for letter, rest in rests.items())
    return rf"(?:[{free}]|{bound})[a-z0-9]*+" if bound else rf"[{free}][a-z0-9]*+"


def _any_case(name: str) -> str:
    return "".join(f"[{letter}{letter.upper()}]" for letter in name)


# --- Drawings ------------------------------------------------------------------------------------------------------

# Shapes and what holds them: nothing in here leads back to HTML, so `</svg>` is sure to end the drawing.
_SHAPES = (
    "animate|animatetransform|circle|clippath|defs|ellipse|g|line|lineargradient|mask|path|pattern|polygon|polyline"
    "|radialgradient|rect|stop|symbol|tspan|use"
)
DRAWING = (
    rf"[sS][vV][gG](?>[{W}]++{_ATTRIBUTE}){{0,32}}+[{W}]*+>"
    rf"(?>[^<]++|</?(?i:{_SHAPES})(?=[{W}/>])(?>[{W}/]*+{_ATTRIBUTE}){{0,32}}+[{W}/]*+>|<{COMMENT})*+"
    rf"</[sS][vV][gG][{W}]*+>"
)
# What follows a <select> that holds nothing but choices, to its end tag, which closes them all.
CHOICES = rf"(?>[^<]++|</?(?i:option|optgroup)(?=[{W}/>]){_ATTRIBUTES}>|<{COMMENT})*+</(?i:select)[{W}]*+>"
_SVG_DRAWING = re.compile(rf"<{DRAWING}")


def end_of_drawing(text: str, at: int) -> int | None:
    """Where the `<svg>` that begins at `at` ends, if it holds a few shapes alone."""
    match = _SVG_DRAWING.match(text, at)
    return match.end() if match else None


# --- Elements whose content is text --------------------------------------------------------------------------------

RAW_TEXT = ("iframe", "noembed", "noframes", "script", "style", "textarea", "title", "xmp")

_RAW_END = {name: re.compile(rf"</{_any_case(name)}(?=[{W}/>])") for name in RAW_TEXT}
_SCRIPT_EVENT = re.compile(rf"<!--|-->|</?{_any_case('script')}(?=[{W}/>])")


def end_of_raw_text(text: str, name: str, at: int) -> int | None:
    """Where the end tag of the raw text element `name`, whose content begins at `at`, stands; None if nowhere."""
    if name == "script":
        return _end_of_script(text, at)
    match = _RAW_END[name].search(text, at)
    return match.start() if match else None


def _end_of_script(text: str, at: int) -> int | None:
    """A `<script>` inside `<!--` hides the next `</script>` (13.2.5.17 to .31, "script data double escaped")."""
    commented = nested = False
    for event in _SCRIPT_EVENT.finditer(text, at):
        said = event[0]
        if said == "<!--":
            # `<!-->` and `<!--->` close what they open.
            commented = commented or not text.startswith((">", "->"), event.end())
        elif said == "-->":
            commented = nested = False
        elif said[1] != "/":
            nested = commented
        elif nested:
            nested = False
        else:
            return event.start()
    return None
