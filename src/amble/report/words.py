"""How reports say numbers: durations as people say them, tables of plain text, and HTML in which nothing is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

_UNSAFE = {code: f"\\x{code:02x}" for code in [*range(0x20), *range(0x7F, 0xA0)]}
# Changes of direction, invisible characters and line ends of Unicode; halves of characters, which no terminal can take.
_HIDDEN = (0xAD, 0x61C, *range(0x200B, 0x2010), *range(0x2028, 0x202F), *range(0x2060, 0x2070), 0xFEFF)
_UNSAFE |= {code: f"\\u{code:04x}" for code in (*_HIDDEN, *range(0xD800, 0xE000))}
_UNSAFE |= {code: f"\\U{code:08x}" for code in range(0xE0000, 0xE0080)}

STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:60em;margin:2em auto;padding:0 1em;color:#222}"
    "table{border-collapse:collapse;margin:1em 0}th,td{padding:.25em .8em;border-bottom:1px solid #ddd;"
    "text-align:left;vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}"
    ".bad{color:#a00;font-weight:600}.good{color:#060;font-weight:600}"
)


def duration(seconds: float) -> str:
    """0 s, 12 ms, 0.25 s, 2.0 s, 45 s, 3 min 20 s, 3 h 10 min, 2 d 4 h."""
    if seconds < 0.0995:
        return f"{seconds * 1000:.0f} ms" if seconds >= 0.0005 else "0 s"
    if seconds < 0.995:
        return f"{seconds:.2f} s"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit_s, name, part_s, part in ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            units, rest = divmod(round(whole / part_s), unit_s // part_s)
            return f"{units} {name} {rest} {part}" if rest else f"{units} {name}"
    return f"{whole} s"


def safe(text: str) -> str:
    """Text in which nothing that a site wrote can move the cursor, colour the screen or fake a line [E7]."""
    return text.translate(_UNSAFE)


def safe_lines(text: str) -> str:
    """The same for text of several lines, whose line ends are its own."""
    return "\n".join(map(safe, text.split("\n")))


def marked(text: object) -> str:
    """Text of a stranger's, harmless in HTML."""
    return escape(safe(str(text)))


def text_table(heads: Sequence[str], lines: Iterable[Sequence[Any]], left: int | None = None) -> str:
    """Aligned columns, the first `left` of them to the left; by default those that are not numbers."""
    cells = [list(heads), *([_cell(value) for value in line] for line in lines)]
    columns = range(len(heads))
    widths = [max(len(line[column]) for line in cells) for column in columns]
    if left is None:
        right = [all(_is_number(line[column]) for line in cells[1:]) for column in columns]
    else:
        right = [column >= left for column in columns]
    return "\n".join(
        "  ".join(
            line[column].rjust(widths[column]) if right[column] else line[column].ljust(widths[column])
            for column in columns
        ).rstrip()
        for line in cells
    )


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else safe(str(value))


def _is_number(text: str) -> bool:
    return text == "-" or text.replace(".", "", 1).replace("-", "", 1).isdigit()


def html_table(heads: Sequence[str], lines: Iterable[Sequence[object]], left: int = 1) -> str:
    """The same for a page; every cell is text."""

    def row(tag: str, cells: Sequence[object]) -> str:
        return "".join(
            f"<{tag}{'' if column < left else ' class=n'}>{marked(cell)}</{tag}>" for column, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{row('td', line)}</tr>" for line in lines)
    return f"<table><thead><tr>{row('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def page(title: str, body: str) -> str:
    """A page that stands alone: no script, nothing fetched."""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{marked(title)}</title><style>{STYLE}</style></head><body>{body}</body></html>\n"
    )
