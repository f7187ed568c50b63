"""Settings that defend themselves: a refusal names the setting, what is wrong and what to write instead. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticUndefined

from amble.core.urls import shown
from amble.errors import SettingsError


class Refused(ValueError):
    """Raised by a validator that knows what to write instead."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class CheckedModel(BaseModel):
    """A frozen model whose refusals are ours: one error that names the setting, what is wrong and what to do."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as refused:
            raise _as_settings_error(refused, type(self)) from None

    def contradictions(self) -> Iterable[tuple[bool, str]]:
        """What cannot be meant together: whether it is so, and how it is told."""
        return ()

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        for contradicts, what in self.contradictions():
            if contradicts:
                raise ValueError(what)
        return self


def _as_settings_error(refused: ValidationError, model: type[BaseModel]) -> SettingsError:
    problems = []
    hints = []
    for problem in refused.errors():
        name = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            problems.append(f"unknown setting {name!r}")
            hints.append(nearest_hint(str(problem["loc"][-1]), list(model.model_fields)))
        elif not name:
            problems.append(problem["msg"].removeprefix("Value error, "))
            why = problem.get("ctx", {}).get("error")
            hints.append(why.hint if isinstance(why, Refused) else "change one of the settings named")
        else:
            problems.append(f"{name} = {_shown(problem['input'])}: {problem['msg'].lower()}")
            hints.append(_field_hint(model, str(problem["loc"][0])))
    return SettingsError("; ".join(problems), hint="; ".join(dict.fromkeys(hints)))


def _shown(value: Any) -> str:
    """A refused value in a message: escaped, short, and without the password that a URL may carry."""
    return shown(value) if isinstance(value, str) else repr(value)


def nearest_hint(unknown: str, known: list[str]) -> str:
    """What to write instead of an unknown name."""
    close = nearest(unknown, known)
    return f"did you mean {close!r}?" if close else f"known settings: {', '.join(sorted(known))}"


def nearest(unknown: str, known: list[str], cutoff: float = 0.5) -> str | None:
    """The name that an unknown one is most like, if it is like any."""
    return next(iter(get_close_matches(unknown, known, n=1, cutoff=cutoff)), None)


def _field_hint(model: type[BaseModel], name: str) -> str:
    field = model.model_fields.get(name)
    if field is None:
        return f"known settings: {', '.join(sorted(model.model_fields))}"
    default = "" if field.default is PydanticUndefined else f" (default {field.default!r})"
    return f"{name}: {field.description}{default}"
