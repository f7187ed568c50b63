"""All settings in one place: composed of the models that each part owns, by flat names, refused with a hint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import Any, NamedTuple, Self

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
# What only the person at this machine may say: never taken from the file of a job that is resumed, nor from the file of
# a project, which may be somebody else's. A foreign file could otherwise lead requests elsewhere, or into this network.
OWN = ("http_proxy", "http_proxy_username", "http_proxy_password", "no_proxy", "ca_file", "allow_private")
_UNSTORED = ("http_proxy_password", "allow_private")
_NEEDED = ("http_proxy", "ca_file")  # of these, what a job cannot do without where it had it
SYNONYMS = {"timeout_seconds": "http_timeout"}  # another name -> the name
RENAMED = {"dns_threads": "dns_lookups"}  # as an earlier version stored it with a job -> the name


class Readable(NamedTuple):
    """What is to be made of the settings that a job was stored with."""

    kept: dict[str, Any]
    unknown: tuple[str, ...]  # as they were stored; they mean nothing to this version
    refused: dict[str, str]  # name -> why


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

    def idle(self) -> list[str]:
        """A sentence for each setting that was given and does nothing in a crawl."""
        found = [f"{name} does nothing: {why}" for name, why in self.pacing.idle()]
        if "shards" in self.pacing.model_fields_set:
            found.append("shards does nothing in a crawl: it is for a limiter of threads")
        return found

    def _refuse_contradictions(self) -> None:
        """Between settings of different parts. A default contradicts nobody."""
        both = self.pacing.model_fields_set | self.robots.model_fields_set
        if {"min_crawl_delay", "max_crawl_delay"} <= both and self.pacing.min_crawl_delay > self.robots.max_crawl_delay:
            raise SettingsError("min_crawl_delay is above max_crawl_delay", hint="change one of the settings named")

    def given(self) -> dict[str, Any]:
        """What was set, by flat names, so that `of` makes the same settings again. Secrets and permissions stay out."""
        named: dict[str, Any] = {}
        for part in PARTS:
            named |= getattr(self, part).model_dump(mode="json", exclude_unset=True)
        return {name: value for name, value in named.items() if name not in _UNSTORED}

    @classmethod
    def taken_up(
        cls, stored: Mapping[str, Any], here: Self | None = None, repairs: Mapping[str, Any] | None = None
    ) -> Self:
        """Those that a job was given, but for what is `OWN`: that is as it holds here. Raises SettingsError where the
        job had such a thing and nothing is said of it here, and where what it was given is refused today and `repairs`
        do not say what is to hold instead."""
        own = (here or cls()).fetching
        needed = {name: stored[name] for name in _NEEDED if stored.get(name) and name not in own.model_fields_set}
        if needed:
            flags = " ".join(f"--{name.replace('_', '-')} {quote(str(value))}" for name, value in needed.items())
            told = " and ".join(f"{name} = {value}" for name, value in needed.items())
            raise SettingsError(
                f"this job was begun with {told}, and such settings are never taken from a file",
                hint=f"say it here, if you mean it: amble resume FILE {flags} (or none), AMBLE_..., or your own file",
            )
        found, named = cls.readable(stored), by_own_name(repairs or {})
        clash = cls._refusal_of(found.kept)
        needless = next((name for name in named if name not in found.refused and clash is None), None)
        if needless is not None:
            raise SettingsError(
                f"a job that is taken up keeps its {needless}", hint=f"what can be said anew: {', '.join(OWN)}"
            )
        unrepaired = [why for name, why in found.refused.items() if name not in named]
        if clash is not None and cls._refusal_of({**found.kept, **named}) is not None:
            unrepaired.append(clash)
        if unrepaired:
            raise SettingsError(
                f"settings of this job are refused today: {'; '.join(unrepaired)}",
                hint="say what is to hold instead: amble resume FILE --rules none, RESUME CRAWL n WITH (...), "
                "amble.resume(file, rules=...)",
            )
        said_here = {name: getattr(own, name) for name in OWN if name in own.model_fields_set}
        return cls.of({**found.kept, **named, **said_here})

    @classmethod
    def as_stored(cls, stored: Mapping[str, Any]) -> Self:
        """Those that a job was given, as far as they mean anything today; for reports, which send nothing."""
        kept = cls.readable(stored).kept
        return cls.of(kept) if cls._refusal_of(kept) is None else cls()

    @classmethod
    def _refusal_of(cls, named: Mapping[str, Any]) -> str | None:
        try:
            cls.of(named)
        except SettingsError as refused:
            return refused.message
        return None

    @classmethod
    def readable(cls, stored: Mapping[str, Any]) -> Readable:
        """What a job was begun with by the names of today, `OWN` left out: another version may have known settings that
        this one does not, and values that it refuses."""
        found = Readable({}, (), {})
        for said, value in stored.items():
            name = RENAMED.get(said, said)
            if name in OWN or (name != said and name in stored):
                continue
            if name not in _names():
                found = found._replace(unknown=(*found.unknown, said))
            elif (why := cls._refusal_of({name: value})) is not None:
                found.refused[name] = why
            else:
                found.kept[name] = value
        return found

    def differences(self, other: Self) -> list[tuple[str, Any, Any]]:
        """(name, value, value of the other) of each setting that is not the same in both, `OWN` left out."""
        names = (name for _, name, _ in fields() if name not in OWN)
        pairs = ((name, self.value(name), other.value(name)) for name in names)
        return [(name, mine, theirs) for name, mine, theirs in pairs if mine != theirs]

    def value(self, name: str) -> Any:
        """A setting by its flat name."""
        part = next(part for part, known, _ in fields() if known == name)
        return getattr(getattr(self, part), name)


def by_own_name(named: Mapping[str, Any]) -> dict[str, Any]:
    """The same settings with synonyms replaced. Unknown names, and a setting given by both its names, are refused."""
    known = _names()
    found: dict[str, Any] = {}
    for said, value in named.items():
        name = SYNONYMS.get(said, said)
        if name not in known:
            raise SettingsError(f"unknown setting {said!r}", hint=nearest_hint(said, [*known, *SYNONYMS]))
        if name in found:
            raise SettingsError(f"{name} is given twice, also as {_other(name)}", hint="give one of the two")
        found[name] = value
    return found


def _names() -> set[str]:
    return {name for _, name, _ in fields()}


def fields() -> Iterator[tuple[str, str, FieldInfo]]:
    """(part, name, field) of every setting there is."""
    for part, model in PARTS.items():
        for name, info in model.model_fields.items():
            yield part, name, info


def _other(name: str) -> str:
    return next(synonym for synonym, own in SYNONYMS.items() if own == name)
