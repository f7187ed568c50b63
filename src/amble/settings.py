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

PARTS: dict[str, type[CheckedModel]] = {
    "visiting": VisitSettings,
    "pacing": PacingSettings,
    "robots": RobotsSettings,
    "fetching": FetcherSettings,
}


@dataclass(frozen=True, slots=True)
class Settings:
    """Resolved configuration of a crawl."""

    visiting: VisitSettings = field(default_factory=VisitSettings)
    pacing: PacingSettings = field(default_factory=PacingSettings)
    robots: RobotsSettings = field(default_factory=RobotsSettings)
    fetching: FetcherSettings = field(default_factory=FetcherSettings)

    @classmethod
    def of(cls, named: Mapping[str, Any]) -> Self:
        """From flat names, each of which belongs to one part."""
        owners = {name: part for part, name, _ in fields()}
        given: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
        for name, value in named.items():
            if name not in owners:
                raise SettingsError(f"unknown setting {name!r}", hint=nearest_hint(name, list(owners)))
            given[owners[name]][name] = value
        return cls(**{part: model(**given[part]) for part, model in PARTS.items()})  # type: ignore[arg-type]

    def given(self) -> dict[str, Any]:
        """What was set, by flat names, so that `of` makes the same settings again. Secrets stay out."""
        named: dict[str, Any] = {}
        for part in PARTS:
            named |= getattr(self, part).model_dump(mode="json", exclude_unset=True)
        return {name: value for name, value in named.items() if "password" not in name}


def fields() -> Iterator[tuple[str, str, FieldInfo]]:
    """(part, name, field) of every setting there is."""
    for part, model in PARTS.items():
        for name, info in model.model_fields.items():
            yield part, name, info
