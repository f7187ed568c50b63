"""The settings that hold here, and who said so."""

from __future__ import annotations

import argparse
from typing import Any

from pydantic import SecretStr

from amble.cli.exits import Exit
from amble.cli.shown import show, show_json, warn_of_idle
from amble.report.words import text_table
from amble.settings import fields
from amble.settings_sources import resolve
from amble.settings_text import setting_text


def config(arguments: argparse.Namespace) -> Exit:
    found = resolve()
    rows = [(name, found.settings.value(name), found.source(name)) for _, name, _ in fields()]
    warn_of_idle(found.settings)
    if arguments.json:
        show_json({name: {"value": _plain(value), "source": source} for name, value, source in rows})
    else:
        lines = [(name, "none" if value == {} else setting_text(value), source) for name, value, source in rows]
        show(text_table(("setting", "value", "source"), lines))
    return Exit.DONE


def _plain(value: Any) -> Any:
    """As TOML or JSON would hold it. A password is not for other eyes."""
    if isinstance(value, SecretStr):
        return "(set)"
    if isinstance(value, dict):
        return {key: rule.model_dump(exclude_none=True) for key, rule in value.items()}
    return list(value) if isinstance(value, tuple) else value
