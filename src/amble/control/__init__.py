"""The crawling process answers others: nobody else can open a DuckDB file while it is written."""

from amble.control.channel import ask
from amble.control.desk import Desk

__all__ = ["Desk", "ask"]
