"""Which 503s are noise, and for how long a site's habit of refusing with them is remembered."""

from __future__ import annotations

import pytest

from amble.core.pacing.trouble import MEANT_FOR, Trouble

WAIT = 30  # answers until two 503s are no cluster any more
STORIES = [
    # story                              answers                                             does the last one count?
    ("a lone 503", [503], False),
    ("two in a row", [503, 503], True),
    ("two far apart", [503] + [200] * WAIT + [503], False),
    ("a lone one after two together", [503, 503] + [200] * WAIT + [503], True),
    ("... long after", [503, 503] + [200] * MEANT_FOR + [503], False),
]


@pytest.mark.parametrize(("statuses", "limited"), [row[1:] for row in STORIES], ids=[row[0] for row in STORIES])
def test_503s_that_were_a_limit_once_are_one_for_a_while(statuses: list[int], limited: bool) -> None:
    trouble, said = Trouble(), False
    for status in statuses:
        trouble.note_status(status)
        said = status == 503 and trouble.overloads()
    assert said is limited
