"""How fast each domain is asked: what its delay is, and when the next permit may be issued. Pure."""
