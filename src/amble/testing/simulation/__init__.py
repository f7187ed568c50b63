"""A whole crawl in virtual time against a web made of a seed, judged from the servers' side: `simulate(seed)`."""

from amble.testing.simulation.simulate import Trace, simulate

__all__ = ["Trace", "simulate"]
