"""The pacing laboratory: every strategy and the peers' rules against models of servers, in virtual time.

    python -m amble.testing.lab

`simulate(controller, server, pages)` plays one crawl; `scenarios` holds the servers and what must be reached on each;
`campaign` plays them all.
"""

from __future__ import annotations

from amble.testing.lab.controller import Client, Controller, Reply
from amble.testing.lab.servers import Server
from amble.testing.lab.simulate import Run, simulate

__all__ = ["Client", "Controller", "Reply", "Run", "Server", "simulate"]
