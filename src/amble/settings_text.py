"""Settings as text, read and written: `none`, `true`, lists with commas, tables as JSON.

Flags, environment variables and SQL options are text; TOML has no null. Ranges are the models' business.
"""

from __future__ import annotations

import json
import re
import types
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr

from amble.errors import SettingsError

_TRUE = frozenset({"true", "yes", "on", "1"})
_FALSE = frozenset({"false", "no", "off", "0"})


def read_value(name: str, value: Any, annotation: Any) -> Any:
    """The value that is meant, to be judged by the setting's model."""
    kinds = kinds_of(annotation)
    if isinstance(value, bool) and bool not in kinds:
        raise SettingsError(
            f"{name} = {str(value).lower()}: this setting is not a yes or no", hint=f"write {_form(kinds)}"
        )
    if not isinstance(value, str):
        return value
    text = value.strip()
    word = text.lower()
    if word == "none" and type(None) in kinds:
        return None
    if bool in kinds and word in _TRUE | _FALSE:
        return word in _TRUE
    if tuple in kinds:
        inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text  # `[::1]:8000` is a host
        return () if word == "none" else tuple(part for part in re.split(r"[\s,]+", inner) if part)
    if dict in kinds:
        return _table(name, text)
    return text if kinds & {int, float} else value


def setting_text(value: Any) -> str:
    """The same the other way round. A password is not for other eyes."""
    if value is None:
        return "none"
    if isinstance(value, SecretStr):
        return "(set)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, dict):
        return json.dumps({name: rule.model_dump(exclude_none=True) for name, rule in value.items()})
    return f"{value:g}" if isinstance(value, float) else str(value)


def kinds_of(annotation: Any) -> frozenset[type]:
    """The plain types that a setting can have."""
    origin = get_origin(annotation)
    if origin is Literal:
        return frozenset(type(choice) for choice in get_args(annotation))
    if origin in (Union, types.UnionType):
        return frozenset(kind for argument in get_args(annotation) for kind in kinds_of(argument))
    if hasattr(annotation, "__metadata__"):  # Annotated
        return kinds_of(annotation.__origin__)
    found = origin or annotation
    return frozenset({found}) if isinstance(found, type) else frozenset()


def _table(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise SettingsError(
            f"{name} is a table and this is no JSON: {text[:40]!r}",
            hint=f"""write {name} as '{{"*.shop.example": {{"delay": 2}}}}', or in amble.toml""",
        ) from None


def _form(kinds: frozenset[type]) -> str:
    forms = {int: "a number", float: "a number", str: "text", tuple: "a list", type(None): "none"}
    return " or ".join(dict.fromkeys(forms[kind] for kind in (int, float, str, tuple, type(None)) if kind in kinds))
