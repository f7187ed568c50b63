"""The strategies by name: each proposes a rate, none can be faster than the shell. Pure."""

from __future__ import annotations

from amble.core.pacing.settings import PacingSettings, StrategyName
from amble.core.pacing.strategies.aimd import Aimd
from amble.core.pacing.strategies.base import Strategy
from amble.core.pacing.strategies.fibonacci import Fibonacci
from amble.core.pacing.strategies.fixed import Fixed
from amble.core.pacing.strategies.gauge import Gauge
from amble.core.pacing.strategies.linear import Linear


def make_strategy(name: StrategyName, settings: PacingSettings) -> Strategy:
    if name == "gauge":
        return Gauge(settings)
    if name == "linear":
        return Linear(settings)
    if name == "aimd":
        return Aimd(settings)
    if name == "fibonacci":
        return Fibonacci(settings)
    return Fixed(settings)


__all__ = ["Aimd", "Fibonacci", "Fixed", "Gauge", "Linear", "Strategy", "make_strategy"]
