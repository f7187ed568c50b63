"""Who makes visits: this process, or processes beside it. Nobody in here decides anything; see `amble.crawl`."""
