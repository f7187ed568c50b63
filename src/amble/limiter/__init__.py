"""The limiter on its own, for any HTTP code: asyncio and threads over one pacing core."""

from amble.limiter.handle import IssuedPermit, UnsettledPermit
from amble.limiter.limiter import Limiter, Listener

__all__ = ["IssuedPermit", "Limiter", "Listener", "UnsettledPermit"]
