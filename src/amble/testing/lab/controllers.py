"""amble's own strategies, as controllers of the laboratory."""

from __future__ import annotations

from amble.testing.lab.controller import Rule

STRATEGIES: dict[str, Rule] = {}
