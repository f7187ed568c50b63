"""What a site lets its pages be used for."""

from __future__ import annotations

import pytest

from amble.core.robots.parse import parse
from amble.core.robots.usage import Usage, read_usage


def usage(lines: str, purpose: str | None) -> Usage:
    return read_usage(parse(f"user-agent: *\n{lines}".encode()).group_for("amble").extras, purpose)


SIGNALS = "Content-Signal: ai-train=no, search=yes, ai-input=no"
PATHS = "Content-Usage: / train-ai=n, search=y\nContent-Usage: /open/ train-ai=y\nContent-Usage: /*.csv$ search=n"


@pytest.mark.parametrize(
    ("lines", "purpose", "path", "refused"),
    [
        (SIGNALS, "ai-train", "/x", True),
        (SIGNALS, "ai-input", "/x", True),
        (SIGNALS, "search", "/x", False),
        (SIGNALS, None, "/x", False),
        ("Content-Signal: search=yes", "ai-train", "/x", False),  # neither granted nor refused
        ("Content-Signal: AI-Train = No", "ai-train", "/x", True),
        ("Content-Signal: ai-train=yes\nContent-Signal: ai-train=no", "ai-train", "/x", True),  # the restriction holds
        ("Content-Signal: ai-train=maybe", "ai-train", "/x", False),
        (PATHS, "ai-train", "/x", True),
        (PATHS, "ai-train", "/open/x", False),
        (PATHS, "search", "/open/x", False),
        (PATHS, "search", "/data.csv", True),
        (PATHS, None, "/x", False),
        ("Content-Usage: train-ai=n", "ai-train", "/x", True),  # an early draft: no path
        ("Content-Usage: / ai-use=n;note=1", "ai-input", "/x", True),
        ("Content-Usage: / train-ai=y\nContent-Usage: / train-ai=n", "ai-train", "/x", True),
        ("Content-Usage: /", "ai-train", "/x", False),
    ],
)
def test_a_purpose_is_refused_where_the_site_says_no(lines: str, purpose: str | None, path: str, refused: bool) -> None:
    assert (usage(lines, purpose).refusal(path) is not None) is refused


def test_the_lines_are_recorded_with_and_without_a_purpose() -> None:
    for purpose in (None, "search"):
        assert usage(f"{SIGNALS}\nContent-Usage: / train-ai=n", purpose).lines == (
            "Content-Signal: ai-train=no, search=yes, ai-input=no",
            "Content-Usage: / train-ai=n",
        )
