"""Where pages and the state of crawls are kept."""
