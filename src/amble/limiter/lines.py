"""Who waits for an address that many domains share: the first waiter of each domain, first come first served."""

from __future__ import annotations

from collections import deque

from amble.limiter.waiters import Waiter


class Lines:
    """One line per address. Only its head looks at the clock; the others wait for a word, so that none wake in vain."""

    def __init__(self) -> None:
        self._lines: dict[str, deque[Waiter]] = {}

    def head(self, address: str) -> Waiter | None:
        """Who is next. Those whose event loop is gone will never be."""
        line = self._lines.get(address)
        while line:
            if not line[0].gone:
                return line[0]
            line.popleft()
        self._lines.pop(address, None)
        return None

    def join(self, address: str, waiter: Waiter) -> None:
        """Stand at the end; whoever stands here already keeps their place, whoever stands elsewhere leaves it."""
        if waiter.address != address:
            self.leave(waiter)
            waiter.address = address
            self._lines.setdefault(address, deque()).append(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Served, gone, or held up by its own domain: whoever is now at the head looks for itself."""
        address, waiter.address = waiter.address, None
        if address is None:
            return
        line = self._lines.get(address, ())
        if line and waiter in line:
            was_head = line[0] is waiter
            line.remove(waiter)
            if was_head:
                self.tell(address)

    def tell(self, address: str) -> None:
        """A slot of the address is free."""
        head = self.head(address)
        if head is not None:
            head.wake()
