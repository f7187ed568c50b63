"""Who makes visits: this process, or processes beside it. Nobody in here decides anything; see `amble.crawl`."""

from amble.workers.visitor import Fetch, LocalVisitor, TaskFetch, Visited, Visitor, Wants

__all__ = ["Fetch", "LocalVisitor", "TaskFetch", "Visited", "Visitor", "Wants"]
