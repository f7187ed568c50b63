"""All settings in one place: composed of the models that each part owns, by flat names, refused with a hint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from pydantic.fields import FieldInfo

from amble.core.checked import CheckedModel, nearest_hint
from amble.core.frontier.settings import VisitSettings
from amble.core.pacing.settings import PacingSettings
from amble.core.robots.settings import RobotsSettings
from amble.errors import SettingsError
from amble.fetcher import FetcherSettings
from amble.settings_text import read_value

PARTS: dict[str, type[CheckedModel]] = {
    "visiting": VisitSettings,
    "pacing": PacingSettings,
    "robots": RobotsSettings,
    "fetching": FetcherSettings,
}
SYNONYMS = {"timeout_seconds": "http_timeout"}  # another name -> the name


@dataclass(frozen=True, slots=True)
class Settings:
    """Resolved configuration of a crawl."""

    visiting: VisitSettings = field(default_factory=VisitSettings)
    pacing: PacingSettings = field(default_factory=PacingSettings)
    robots: RobotsSettings = field(default_factory=RobotsSettings)
    fetching: FetcherSettings = field(default_factory=FetcherSettings)

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> Self:
        """From flat names, each of which belongs to one part. Values may be text, as a person writes them."""
        owners = {name: (part, info) for part, name, info in fields()}
        given: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
        for name, value in by_own_name(named).items():
            part, info = owners[name]
            given[part][name] = read_value(name, value, info.annotation)
        made = cls(**{part: model(**given[part]) for part, model in PARTS.items()})  # type: ignore[arg-type]
        made._refuse_contradictions()
        return made

    def _refuse_contradictions(self) -> None:
        """Between settings of different parts. A default contradicts nobody."""
        both = self.pacing.model_fields_set | self.robots.model_fields_set
        if {"min_crawl_delay", "max_crawl_delay"} <= both and self.pacing.min_crawl_delay > self.robots.max_crawl_delay:
            raise SettingsError("min_crawl_delay is above max_crawl_delay", hint="change one of the settings named")

    def given(self) -> dict[str, Any]:
        """What was set, by flat names, so that `of` makes the same settings again. Secrets stay out."""
        named: dict[str, Any] = {}
        for part in PARTS:
            named |= getattr(self, part).model_dump(mode="json", exclude_unset=True)
        return {name: value for name, value in named.items() if "password" not in name}

    @classmethod
    def taken_up(cls, stored: Mapping[str, Any], here: Self | None = None) -> Self:
        """Those that a job was given. Its password was not stored: it is that of here, if it is for the same proxy."""
        named = dict(stored)
        if here is not None and here.fetching.http_proxy_password is not None:
            login = ("http_proxy", "http_proxy_username")
            if all(named.get(name) == getattr(here.fetching, name) for name in login):
                named["http_proxy_password"] = here.fetching.http_proxy_password
        return cls.of(named)

    def value(self, name: str) -> Any:
        """A setting by its flat name."""
        part = next(part for part, known, _ in fields() if known == name)
        return getattr(getattr(self, part), name)


def by_own_name(named: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings with synonyms replaced. Unknown names, and a setting given by both its names, are refused."""
    known = {name for _, name, _ in fields()}
    found: dict[str, Any] = {}
    for said, value in named.items():
        name = SYNONYMS.get(said, said)
        if name not in known:
            raise SettingsError(f"unknown setting {said!r}", hint=nearest_hint(said, [*known, *SYNONYMS]))
        if name in found:
            raise SettingsError(f"{name} is given twice, also as {_other(name)}", hint="give one of the two")
        found[name] = value
    return found


def fields() -> Iterator[tuple[str, str, FieldInfo]]:
    """(part, name, field) of every setting there is."""
    for part, model in PARTS.items():
        for name, info in model.model_fields.items():
            yield part, name, info


def _other(name: str) -> str:
    return next(synonym for synonym, own in SYNONYMS.items() if own == name)
