"""Where settings come from, and which of them wins: what is said in the call, then the environment, then files.

    a flag, an option or an argument > AMBLE_<NAME> > the project's file > the user's file > the default

The project's file is the nearest `amble.toml`, or `pyproject.toml` with a table `[tool.amble]`, from the working folder
upward. The usual proxy variables are for every program on a machine, so whatever is said to this one wins over them.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from amble import runtime_folder
from amble.errors import SettingsError
from amble.fetcher import proxy_from_environment
from amble.fetcher.authorities import ca_file_of
from amble.settings import OWN, SYNONYMS, Settings, by_own_name, fields

PREFIX = "AMBLE_"
FILE = "amble.toml"
DEFAULT = "default"

_PROXY_LOGIN = ("http_proxy", "http_proxy_username", "http_proxy_password")
_PROXY_VARIABLES = "the environment's proxy variables"
_PATHS = ("ca_file",)  # in a file they are meant from the folder of the file


@dataclass(frozen=True, slots=True)
class Resolved:
    """Settings, and who said what."""

    settings: Settings
    named: Mapping[str, Any]  # what was given, by name
    sources: Mapping[str, str]  # name -> a flag, a variable, a file; what is not in here is a default

    def source(self, name: str) -> str:
        return self.sources.get(name, DEFAULT)


def resolve(
    said: Mapping[str, Any] | None = None,
    *,
    said_by: str = "the call",
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> Resolved:
    """The settings that hold here and now. `said` is what this very call gives; it wins over everything."""
    environ = os.environ if environ is None else environ
    named: dict[str, Any] = {}
    sources: dict[str, str] = {}
    levels = (
        ({name: (value, said_by) for name, value in by_own_name(said or {}).items()}),
        _from_environment(environ),
        _from_file(project_file(folder or Path.cwd()), own=False),
        _from_file(user_file(environ), own=True),
    )
    for level in levels:
        for name, (value, source) in level.items():
            if name not in named:
                named[name], sources[name] = value, source
    for name, value in _from_proxy_variables(environ, named).items():
        named[name], sources[name] = value, _PROXY_VARIABLES
    try:
        settings = Settings.of(named)
        ca_file_of(settings.fetching)  # before there is a file of a crawl, or a job in it
        return Resolved(settings, named, sources)
    except SettingsError as refused:
        raise _with_sources(refused, sources, said_by) from None


def project_file(folder: Path) -> Path | None:
    """The nearest file of settings, from a folder upward."""
    for place in (folder, *folder.absolute().parents):
        own, shared = place / FILE, place / "pyproject.toml"
        in_shared = shared.is_file() and _has_table(shared)
        if own.is_file() and in_shared:
            raise SettingsError(
                f"there are settings in {own} and in [tool.amble] of {shared}", hint="keep them in one of the two"
            )
        if own.is_file() or in_shared:
            return own if own.is_file() else shared
    return None


def user_file(environ: Mapping[str, str]) -> Path | None:
    """The file of whoever runs this, by the XDG rules."""
    base = environ.get("XDG_CONFIG_HOME") or (f"{environ['HOME']}/.config" if environ.get("HOME") else None)
    file = Path(base, "amble", FILE) if base and os.path.isabs(base) else None
    return file if file is not None and file.is_file() else None


def _has_table(pyproject: Path) -> bool:
    """Whether it speaks of us. What else is in it, and whether it is in order, is others' business."""
    try:
        speaks = "amble" in pyproject.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    return speaks and "amble" in _read(pyproject).get("tool", {})


_Level = dict[str, tuple[Any, str]]


def _from_environment(environ: Mapping[str, str]) -> _Level:
    """`AMBLE_MAX_RATE=2`. An empty variable is as good as none: that is how shells unset one for a single command."""
    variables = {
        _name_of(variable): variable
        for variable in environ
        if variable.startswith(PREFIX) and variable != runtime_folder.VARIABLE
    }
    known = [*(name for _, name, _ in fields()), *SYNONYMS]
    for name, variable in variables.items():
        if name not in known:
            close = get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {PREFIX}{close[0].upper()}?" if close else "`amble config show` lists the settings"
            raise SettingsError(f"the environment variable {variable} is no setting", hint=hint)
    texts = {name: environ[variable] for name, variable in variables.items() if environ[variable]}
    try:
        own = by_own_name(texts)
    except SettingsError as refused:
        raise SettingsError(f"in the environment: {refused.message}", hint=refused.hint) from None
    spelled = {SYNONYMS.get(name, name): variable for name, variable in variables.items() if environ[variable]}
    return {name: (value, spelled[name]) for name, value in own.items()}


def _from_file(file: Path | None, *, own: bool) -> _Level:
    """`own`: it is a file of whoever runs this. That of a project may come with somebody else's files, so it cannot
    lead requests elsewhere, make others believed, or open this network."""
    if file is None:
        return {}
    table = _read(file)
    if file.name != FILE:
        table = table["tool"]["amble"]
    if not isinstance(table, dict):
        raise SettingsError(f"{file}: tool.amble is no table", hint="write [tool.amble] and settings below it")
    try:
        named = by_own_name(table)
    except SettingsError as refused:
        raise SettingsError(f"{file}: {refused.message}", hint=refused.hint) from None
    foreign = next((name for name in OWN if name in named), None) if not own else None
    if foreign is not None:
        raise SettingsError(
            f"{file}: the file of a project may not set {foreign}",
            hint=f"give it as a flag, as {PREFIX}{foreign.upper()}, or in your own file, ~/.config/amble/{FILE}",
        )
    for name in _PATHS:
        if isinstance(named.get(name), str) and named[name] != "none":
            named[name] = str(file.parent / Path(named[name]).expanduser())
    return {name: (value, str(file)) for name, value in named.items()}


def _from_proxy_variables(environ: Mapping[str, str], named: Mapping[str, Any]) -> dict[str, str]:
    """A login belongs to its proxy: it is taken with it or not at all."""
    found = proxy_from_environment(environ)
    if any(name in named for name in _PROXY_LOGIN):
        found = {name: value for name, value in found.items() if name not in _PROXY_LOGIN}
    return {name: value for name, value in found.items() if name not in named}


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{file} cannot be read: {error.strerror}", hint="make it readable or remove it") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} is no TOML: {error}", hint='write `name = value`, text in "quotes"') from None


def _name_of(variable: str) -> str:
    return variable.removeprefix(PREFIX).lower()


def _with_sources(refused: SettingsError, sources: Mapping[str, str], said_by: str) -> SettingsError:
    """The same refusal, telling where each setting that it names was given."""
    words = set(re.findall(r"\w+", refused.message))
    told = [f"{name} comes from {source}" for name, source in sources.items() if name in words and source != said_by]
    return SettingsError("; ".join([refused.message, *told]), hint=refused.hint)
