"""What Python programs and notebooks touch: `amble.crawl`, `amble.resume` and the job they return."""

from amble.face.job import CrawlJob
from amble.face.start import crawl, crawl_async, resume, resume_async

__all__ = ["CrawlJob", "crawl", "crawl_async", "resume", "resume_async"]
