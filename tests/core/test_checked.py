"""Refusals of settings name the setting, say what is wrong and what to write instead."""

from __future__ import annotations

from typing import Annotated, Any, Self

import pytest
from pydantic import Field, ValidationError, model_validator

from amble.core.checked import CheckedModel, nearest_hint
from amble.errors import AmbleError, SettingsError


class Bread(CheckedModel):
    slices: Annotated[int, Field(ge=1, le=20)] = Field(default=8, description="how many")
    crust: bool = Field(default=True, description="whether to keep it")
    topping: str = Field(description="what goes on it")

    @model_validator(mode="after")
    def _no_contradiction(self) -> Self:
        if self.slices == 1 and not self.crust:
            raise ValueError("a single slice without crust falls apart")
        return self


class Meal(CheckedModel):
    bread: Bread | None = Field(default=None, description="beside it")


REFUSALS: list[tuple[str, dict[str, Any], str, str]] = [
    # story            values                                    message                          hint
    ("misspelt", {"slises": 3, "topping": "jam"}, "unknown setting 'slises'", "did you mean 'slices'?"),
    ("unheard of", {"zzz": 3, "topping": "jam"}, "unknown setting 'zzz'", "known settings: crust, slices, topping"),
    ("out of range", {"slices": 21, "topping": "jam"}, "slices = 21: ", "slices: how many (default 8)"),
    ("wrong type", {"slices": "x", "topping": "jam"}, "slices = 'x': ", "slices: how many (default 8)"),
    ("missing", {}, "topping = {}: field required", "topping: what goes on it"),
    (
        "contradiction",
        {"slices": 1, "crust": False, "topping": "jam"},
        "a single slice without crust falls apart",
        "change one of the settings named",
    ),
]


@pytest.mark.parametrize(("values", "message", "hint"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_a_refusal_says_what_is_wrong_and_what_to_do(values: dict[str, Any], message: str, hint: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Bread(**values)
    assert refused.value.message.startswith(message)
    assert refused.value.hint == hint


def test_all_mistakes_are_named_at_once() -> None:
    values: dict[str, Any] = {"slices": 0, "crst": False, "topping": "jam"}
    with pytest.raises(SettingsError) as refused:
        Bread(**values)
    assert "slices = 0" in refused.value.message
    assert "unknown setting 'crst'" in refused.value.message
    assert refused.value.hint == "slices: how many (default 8); did you mean 'crust'?"


def test_a_mistake_inside_a_part_is_explained_by_that_part() -> None:
    values: dict[str, Any] = {"bread": {"toping": "jam"}}
    with pytest.raises(SettingsError) as refused:
        Meal(**values)
    assert "unknown setting 'toping'" in str(refused.value)
    assert "did you mean 'topping'?" in str(refused.value)


def test_a_refusal_is_ours_and_a_value_error() -> None:
    with pytest.raises(ValueError) as refused:
        Bread(slices=0, topping="jam")
    assert type(refused.value) is SettingsError
    assert isinstance(refused.value, AmbleError)
    assert refused.value.__suppress_context__


def test_settings_do_not_change_afterwards() -> None:
    bread = Bread(topping="jam")
    with pytest.raises(ValidationError):
        bread.slices = 3
    assert bread.slices == 8


@pytest.mark.parametrize(
    ("unknown", "hint"),
    [("max_rat", "did you mean 'max_rate'?"), ("qqq", "known settings: max_rate, pacing")],
)
def test_the_nearest_name_is_suggested(unknown: str, hint: str) -> None:
    assert nearest_hint(unknown, ["pacing", "max_rate"]) == hint
