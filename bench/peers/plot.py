"""Results as horizontal bars in SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

_BAR, _LABEL, _WIDTH = 22, 190, 720


def plot(title: str, values: Sequence[tuple[str, float]]) -> str:
    """The longest first; amble's in a colour of its own."""
    ordered = sorted(values, key=lambda pair: -pair[1])
    most = max((value for _, value in ordered), default=1.0) or 1.0
    height = 40 + _BAR * len(ordered)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" '
        f'font-size="13"><rect width="100%" height="100%" fill="#fff"/><text x="10" y="20">{escape(title)}</text>'
    ]
    for at, (name, value) in enumerate(ordered):
        y = 32 + at * _BAR
        long = (_WIDTH - _LABEL - 80) * value / most
        colour = "#2b7a4b" if name == "amble" else "#9aa5b1"
        lines.append(
            f'<text x="{_LABEL - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>'
            f'<rect x="{_LABEL}" y="{y}" width="{long:.1f}" height="{_BAR - 6}" fill="{colour}"/>'
            f'<text x="{_LABEL + long + 6:.1f}" y="{y + 14}">{value:,.0f}</text>'
        )
    return "\n".join([*lines, "</svg>\n"])
