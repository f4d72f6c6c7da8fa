"""Functions by name get the settings that the types of their parameters ask for."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pydantic import BaseModel

from core.errors import SettingError
from processor.wiring import bound


class Section(BaseModel):
    url: str


class Own(BaseModel):
    greeting: str
    times: int = 1


def build_of_both(own: Own, section: Section, clock: object = None) -> tuple[object, ...]:
    return own, section, clock


def build_of_nothing() -> str:
    return "built"


def build_of_what_nobody_has(path: Path) -> object:
    return path


HERE = __name__
SECTION = Section(url="http://here")


def test_a_section_by_its_type_and_a_model_of_its_own() -> None:
    built = bound("[s] handler", f"{HERE}:build_of_both", {Section: SECTION}, {"greeting": "hi"})
    assert built() == (Own(greeting="hi"), SECTION, None)


def test_it_travels_by_name() -> None:
    built = bound("[s] handler", f"{HERE}:build_of_nothing", {}, {})
    assert pickle.loads(pickle.dumps(built))() == "built"


@pytest.mark.parametrize(
    ("name", "own", "told"),
    [
        ("nobody.there:build", {}, "no module nobody: install it, or put its folder on PYTHONPATH"),
        (f"{HERE}:missing", {}, "has no missing"),
        (f"{HERE}:build_of_nothing", {"greeting": "hi"}, "takes no settings of its own: leave the table"),
        (f"{HERE}:build_of_both", {}, r"settings\.greeting: Field required"),
        (f"{HERE}:build_of_both", {"greeting": "hi", "times": "often"}, r"settings\.times"),
        (f"{HERE}:build_of_what_nobody_has", {}, "its parameter path has the type"),
    ],
)
def test_what_is_not_there_is_named_before_anything_starts(name: str, own: dict[str, object], told: str) -> None:
    with pytest.raises(SettingError, match=told) as raised:
        bound("[s] handler", name, {Section: SECTION}, own)
    assert str(raised.value).startswith("setting [s] handler")
