"""The command `amble`: words in, one call, exit code out. Data goes to standard output, talk to standard error."""

from amble.cli.main import main

__all__ = ["main"]
