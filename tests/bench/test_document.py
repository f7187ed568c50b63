"""Results reach their place in the documents, and nothing else there is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench._document import PARTS, publish, replaced

ROOT = Path(__file__).parents[2]
DOCUMENT = "before\n<!-- cost -->\nold\n\n| table |\n<!-- end of cost -->\nafter <!-- peers -->\n"


def test_only_what_lies_between_the_marks_is_replaced() -> None:
    found = replaced(DOCUMENT, "cost", "new\n")
    assert found == "before\n<!-- cost -->\n\nnew\n\n<!-- end of cost -->\nafter <!-- peers -->\n"
    assert replaced(found, "cost", "new") == found, "a second time changes nothing"


@pytest.mark.parametrize("part", ["stages", "peers"], ids=["no mark", "no end"])
def test_a_part_without_both_marks_is_refused(part: str) -> None:
    with pytest.raises(SystemExit, match=part):
        replaced(DOCUMENT, part, "new")


def test_every_part_has_its_place_and_only_what_was_found_is_published(tmp_path: Path) -> None:
    for document, _ in PARTS.values():
        (tmp_path / document).parent.mkdir(exist_ok=True)
        (tmp_path / document).write_text((ROOT / document).read_text())
    results = tmp_path / "results"
    results.mkdir()
    (results / "bench-one.svg").write_text("<svg/>")
    for part, (_, file) in PARTS.items():
        (results / file).write_text(f"what was found of {part}\n")
    (results / PARTS["cost"][1]).unlink()
    assert publish(tmp_path, results) == [part for part in PARTS if part != "cost"]
    for part, (document, _) in PARTS.items():
        assert (f"what was found of {part}" in (tmp_path / document).read_text()) is (part != "cost")
    assert (tmp_path / "docs" / "bench-one.svg").exists()
    assert publish(tmp_path, results, ["cost", "headline"]) == ["headline"]
