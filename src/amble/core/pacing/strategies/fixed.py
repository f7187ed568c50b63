"""The fixed strategy: a constant delay. Its random part is the shell's `random_delay`. Pure."""

from __future__ import annotations

from typing import ClassVar

from amble.core.pacing.settings import PacingSettings
from amble.core.pacing.strategies.base import Strategy


class Fixed(Strategy):
    __slots__ = ()

    name: ClassVar[str] = "fixed"

    def __init__(self, settings: PacingSettings) -> None:
        super().__init__()
        self.propose(settings.fixed_delay, "fixed delay")
