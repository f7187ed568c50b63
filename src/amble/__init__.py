"""A polite web crawler that learns the pace each site can bear."""
