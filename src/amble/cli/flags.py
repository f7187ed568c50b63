"""A flag for every setting there is, told by the setting itself."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from amble.settings import SYNONYMS, Settings, fields
from amble.settings_sources import resolve
from amble.settings_text import kinds_of


def settings_of(arguments: argparse.Namespace) -> Settings:
    """Those that hold here, with what was given as flags."""
    return resolve(given_settings(arguments), said_by="the command line").settings


def given_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The settings that were typed as flags."""
    return given(arguments, *(name for _, name, _ in fields()), *SYNONYMS)


def given(arguments: argparse.Namespace, *names: str) -> dict[str, Any]:
    """What was typed of these, by name."""
    return {name: value for name in names if (value := getattr(arguments, name, None)) is not None}


def add_settings(parser: argparse.ArgumentParser, only: Sequence[str] = (), named: Sequence[str] = ()) -> None:
    """A flag for each setting, told by the setting itself; or for those of some parts. Where some are `named`, the help
    leaves the others out."""
    parts: dict[str, Any] = {}
    others = {name: other for other, name in SYNONYMS.items()}
    for part, name, info in fields():
        if only and part not in only:
            continue
        is_shown = not named or name in named
        if part not in parts:
            parts[part] = parser.add_argument_group(part)
        kinds = kinds_of(info.annotation)
        told = (info.description or "").replace("%", "%%") if is_shown else argparse.SUPPRESS
        options: dict[str, Any] = {"metavar": name.rsplit("_", 1)[-1].upper()}
        if bool in kinds:
            words = "true|false|auto" if str in kinds else "true|false"
            options = {"nargs": "?", "const": "true", "metavar": words}
        elif tuple in kinds:
            options = {"metavar": "A,B"}
        elif dict in kinds:
            options = {"metavar": "JSON"}
        parts[part].add_argument(_flag(name), dest=name, help=told, **options)
        if name in others:
            parts[part].add_argument(
                _flag(others[name]),
                dest=others[name],
                help=f"the same as {_flag(name)}" if is_shown else argparse.SUPPRESS,
                **options,
            )


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
