"""What a crawl is called when it is stored: its rows, its states, how it is taken up again."""

from amble.jobs.job import Job, JobResult

__all__ = ["Job", "JobResult"]
