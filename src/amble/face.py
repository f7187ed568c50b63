"""What Python programs and notebooks touch: `amble.crawl` and the job it returns."""
