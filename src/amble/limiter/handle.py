"""A permit in the hands of the caller: settled once, or given back."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Self

from amble.clock import Clock
from amble.core.answer import Headers, as_text, read_answer
from amble.core.outcome import Failure
from amble.core.pacing.events import Event
from amble.core.pacing.pace import Pace
from amble.core.pacing.permit import ISSUED, SETTLED, Permit
from amble.errors import AlreadySettled, PermitError
from amble.limiter.failures import failure_of, response_in
from amble.limiter.shard import Shard

Tell = Callable[[Sequence[Event]], None]
ELAPSED_MAX_S = 86_400.0  # nobody waits longer, and means of what is longer could not be reckoned


class UnsettledPermit(RuntimeWarning):
    """A permit was left without saying how the request went: nothing was learned from it."""


class IssuedPermit:
    """The right to send one request to `domain` now. Say how it went with `settle`, or give it back with `cancel`."""

    __slots__ = ("_clock", "_core", "_pace", "_shard", "_tell", "domain", "waited_s")

    def __init__(self, clock: Clock, tell: Tell, shard: Shard, pace: Pace, core: Permit, waited_s: float) -> None:
        self._clock = clock
        self._tell = tell
        self._shard = shard
        self._pace = pace
        self._core = core
        self.domain = pace.domain
        self.waited_s = waited_s

    @property
    def settled(self) -> bool:
        return self._core.state is SETTLED

    @property
    def sent_at(self) -> float:
        """The monotonic instant of the send."""
        return self._core.sent_at

    @property
    def receipt(self) -> Permit:
        """What was true when it was issued: number, gap required and the rule that set it."""
        return self._core

    def sent(self) -> None:
        """The request leaves only now; without this call it counts as sent when the permit was issued."""
        with self._shard.lock:
            if self._core.state is ISSUED:
                self._pace.sent(self._core, self._clock.monotonic())

    def settle(
        self,
        *,
        status: int | None = None,
        headers: Headers | None = None,
        elapsed_s: float | None = None,
        error: BaseException | Failure | None = None,
    ) -> None:
        """Say how the request went: the status and headers of the response, or the error in its place.

        An error that carries a response (of `raise_for_status`) counts as that response.
        """
        if status is None and error is None:
            raise PermitError(
                "settle was told nothing", hint="pass status=... of the response, or error=... if none came"
            )
        failure: Failure | None = None
        raised = response_in(error) if status is None and isinstance(error, BaseException) else None
        if raised is not None:
            status, headers = raised
        elif error is not None:
            failure = failure_of(error) if isinstance(error, BaseException) else _named(error)
        _check(status, elapsed_s)
        if elapsed_s is not None:
            if elapsed_s > ELAPSED_MAX_S:
                elapsed_s = ELAPSED_MAX_S
        elif failure is None:
            elapsed_s = max(0.0, self._clock.monotonic() - self._core.sent_at)
        utc, longest_s = self._clock.utc(), self._pace.bounds.settings.max_retry_after
        try:
            answer = read_answer(
                status=status, headers=headers, failure=failure, elapsed_s=elapsed_s, utc=utc,
                retry_after_max_s=longest_s,
            )  # fmt: skip
        except Exception:  # headers of odd types: what they ask for counts as far as it can be read
            answer = read_answer(
                status=status, headers=as_text(headers), failure=failure, elapsed_s=elapsed_s, utc=utc,
                retry_after_max_s=longest_s,
            )  # fmt: skip
        with self._shard.lock:
            events = self._shard.settle(self._pace, self._core, answer, self._clock.monotonic(), utc)
        if events:
            self._tell(events)

    def cancel(self) -> None:
        """Nothing was sent: the turn goes to whoever is next. Does nothing to a settled permit."""
        with self._shard.lock:
            self._shard.cancel(self._pace, self._core)

    # -- as a context: with limiter.permit_sync(url) as permit: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave(error)

    def _leave(self, error: BaseException | None) -> None:
        """The end of the context: settle by the error that left it, if any, unless that was done inside."""
        if self.settled:
            return
        with suppress(AlreadySettled):  # another thread may have been faster
            self.settle(error=Failure.CANCELLED if error is None else error)
        if error is None:
            # Only now: where warnings are errors, the slot is free all the same.
            warnings.warn(
                f"a permit of {self.domain} was not settled; call permit.settle(status=...) or permit.cancel()",
                UnsettledPermit,
                stacklevel=3,
            )

    def __repr__(self) -> str:
        return f"<IssuedPermit {self.domain} {self._core!r}>"


_NUMBER = (int, float)


def _check(status: object, elapsed_s: object) -> None:
    if status is not None and (not isinstance(status, int) or not 100 <= status <= 999):
        raise PermitError(f"{status!r} is no HTTP status", hint="pass a number from 100 to 999, or error=...")
    if elapsed_s is not None and (not isinstance(elapsed_s, _NUMBER) or not 0 <= elapsed_s < math.inf):
        raise PermitError(f"elapsed_s = {elapsed_s!r} is no duration", hint="pass seconds, zero or more")


def _named(error: str) -> Failure:
    try:
        return Failure(error)
    except ValueError:
        raise PermitError(
            f"error = {error!r} is no failure", hint="pass the exception that was caught, or a member of Failure"
        ) from None
