"""When a request counts as answered: a refusal at once, anything else when its body has been read or dropped."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from amble.errors import AlreadySettled
from amble.limiter import IssuedPermit, Limiter


class Landing:
    """Settles a permit once, whoever is first: the end of the body, an error in it, or the collector of garbage."""

    def __init__(self, limiter: Limiter, permit: IssuedPermit, status: int, headers: Mapping[str, str]) -> None:
        self._permit = permit
        self._status = status
        self._headers = headers
        self._elapsed_s = max(0.0, limiter.clock.monotonic() - permit.sent_at)  # to the headers, not to the last byte
        if status >= 400:
            self.end()

    def end(self, error: BaseException | None = None) -> None:
        if self._permit.settled:
            return
        with suppress(AlreadySettled):  # another thread may have been faster
            if error is not None:
                self._permit.settle(error=error)
            else:
                self._permit.settle(status=self._status, headers=self._headers, elapsed_s=self._elapsed_s)
