"""How reports say numbers: durations as people say them, tables of plain text, and HTML in which nothing is markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

# C0, C1 and changes of writing direction: in a terminal or a page they could pass for something else [E7].
_UNSAFE = {code: f"\\x{code:02x}" for code in [*range(0x20), *range(0x7F, 0xA0)]}
_UNSAFE |= {code: f"\\u{code:04x}" for code in (0x200E, 0x200F, 0x061C, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}

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


def plain(text: str) -> str:
    """Text of a stranger's, harmless on a terminal."""
    return text.translate(_UNSAFE)


def marked(text: object) -> str:
    """Text of a stranger's, harmless in HTML."""
    return escape(plain(str(text)))


def text_table(heads: Sequence[str], lines: Iterable[Sequence[str]], left: int = 1) -> str:
    """Aligned columns, the first `left` of them to the left."""
    cells = [list(heads), *([plain(cell) for cell in line] for line in lines)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )


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
