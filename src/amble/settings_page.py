"""Writes docs/settings.md from the settings themselves: nothing is listed twice.

python -m amble.settings_page > docs/settings.md
"""

from __future__ import annotations

import sys
from typing import Any, get_args

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from amble.settings import PARTS, SYNONYMS, fields

_HEAD = """# Settings

Made from the settings themselves by `python -m amble.settings_page`. Durations are seconds, rates are requests per
second, unless the name says otherwise. A value out of range, an unknown name or a contradiction is refused with a hint,
before there is a file or a job. What does nothing where it is given, such as a setting of a strategy that is not used,
is said once.

Each is a flag (`--max-rate 2`), an environment variable (`AMBLE_MAX_RATE=2`), a line of `amble.toml` or of
`[tool.amble]` in `pyproject.toml` (`max_rate = 2`), an option of `CRAWL ... WITH (max_rate = 2)` and an argument in
Python (`max_rate=2`). The call wins over the environment, that over the nearest project file from the working folder
upward, that over `~/.config/amble/amble.toml`. `amble config show` says what holds and where it came from. As text,
`none` stands for nothing, lists have commas. Another name: {synonyms}.

A job keeps its settings when it is resumed. Where a later version refuses one of them, the resumption says so and takes
another value for it, from a flag, an option or an argument, which is kept from then on.
"""
_TITLES = {
    "visiting": "What is visited and kept",
    "pacing": "How fast domains are asked",
    "robots": "robots.txt",
    "fetching": "How a request is made",
}


def page() -> str:
    others = ", ".join(f"`{other}` for `{name}`" for other, name in SYNONYMS.items())
    lines = [_HEAD.format(synonyms=others)]
    for part in PARTS:
        lines.append(f"## {_TITLES[part]}\n\n| setting | default | range | what it does |\n|---|---|---|---|")
        lines += [_row(name, info) for owner, name, info in fields() if owner == part]
        lines.append("")
    return "\n".join(lines)


def _row(name: str, info: FieldInfo) -> str:
    description = (info.description or "").replace("|", "\\|")
    return f"| `{name}` | {_default(info)} | {_range(info)} | {description} |"


def _default(info: FieldInfo) -> str:
    default = info.get_default(call_default_factory=True, validated_data={})
    if default is None or default == () or default == {} or default is PydanticUndefined:
        return "none"
    return (
        f"`{default:g}`"
        if isinstance(default, float)
        else f"`{str(default).lower() if default in (True, False) else default}`"
    )


def _range(info: FieldInfo) -> str:
    bounds = {type(rule).__name__: rule for rule in _rules(info.metadata, info.annotation)}
    low = next(
        (
            f"{sign} {getattr(bounds[kind], kind.lower()):g}"
            for kind, sign in (("Ge", "≥"), ("Gt", ">"))
            if kind in bounds
        ),
        "",
    )
    high = next(
        (
            f"{sign} {getattr(bounds[kind], kind.lower()):g}"
            for kind, sign in (("Le", "≤"), ("Lt", "<"))
            if kind in bounds
        ),
        "",
    )
    choices = [str(choice) for choice in _choices(info.annotation)]
    return ", ".join(filter(None, (low, high))) or ", ".join(f"`{choice.lower()}`" for choice in choices)


def _rules(metadata: list[Any], annotation: Any) -> list[Any]:
    found = [rule for meta in metadata for rule in (getattr(meta, "metadata", None) or [meta])]
    for inner in getattr(annotation, "__metadata__", ()):
        found += getattr(inner, "metadata", None) or [inner]
    for argument in get_args(annotation):
        found += _rules([], argument)
    return found


def _choices(annotation: Any) -> list[Any]:
    if getattr(annotation, "__origin__", None) is not None and str(annotation).startswith("typing.Literal"):
        return list(get_args(annotation))
    return [choice for argument in get_args(annotation) for choice in _choices(argument)]


if __name__ == "__main__":
    sys.stdout.write(page())
