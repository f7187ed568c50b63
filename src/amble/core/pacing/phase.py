"""How far the pace of a domain has come, in a word for people. Pure."""

from __future__ import annotations

from enum import StrEnum


class PacePhase(StrEnum):
    """What a domain's pace is at."""

    FINDING = "finding the pace"  # no limit was met yet: every answer makes it faster
    AT_LIMIT = "at the limit"  # as fast as was found to be borne
    WAITING = "waiting for a window"  # left alone until a Retry-After, a quota or a pause after a refusal is over
    DOWN = "site down"  # it answers nothing but errors, if anything
    SET = "at a set pace"  # by robots.txt, by the site's stated quota, or by our settings
