"""Who is to blame when requests fail: the judge knows how the network is, and the crawler has to find out."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from amble.core.frontier.changes import Changes, Final, State
from amble.core.pacing.events import NetworkDown
from amble.core.sites import site_of
from amble.fetcher import FetchResult
from amble.testing.simulation.judge import Judge
from amble.testing.simulation.network import LIES, Network, Spell
from amble.testing.simulation.world import World

LONGEST_REQUEST_S = 40.0  # with its lookup
WINDOW_S = 20.0  # in which the crawler compares
SOON_S = 4.0  # who is asked this often can be asked
OURS = "the proxy or this machine fails"
SITES_MIN = 2
ASK_WITHIN_S = 5.0  # whoever is told a lie that is over so soon has nobody left to ask whether it was one
MANY = 4  # what is said of fewer that never answered may well be true


@dataclass(slots=True)
class Forecast:
    """N1: the network is not said to be down while sites that answered before still do. N2: nor is a site that answers
    blamed for a network that lies to everybody."""

    world: World
    judge: Judge
    network: Network
    _blamed: set[str] = field(default_factory=set)
    _answered: dict[str, float] = field(default_factory=dict)  # hosts to which nothing ever happens; since when
    _lied_to: dict[str, float] = field(default_factory=dict)  # URLs that a network lied about, and when it last did

    def begin_run(self, now: float) -> None:
        """Nobody has answered yet."""
        self._answered.clear()
        self._blamed.clear()
        self._lied_to.clear()

    def take(self, changes: Changes, result: FetchResult | None, now: float) -> None:
        if result is not None and result.detail in LIES:
            self._lied_to[result.url] = now
        for event in changes.events:
            if isinstance(event, NetworkDown) and event.reason != OURS:
                self._check_down(event, now)
        for final in changes.finals:
            self._check_blame(final, now)
        if result is not None and result.status is not None:
            host = urlsplit(result.url).netloc
            if host not in self._answered and self._is_good(host):
                self._answered[host] = now

    def _is_good(self, host: str) -> bool:
        site = self.world.sites.get(host)
        return site is not None and site.is_fine and site.limiter is None

    def _check_down(self, event: NetworkDown, now: float) -> None:
        if self.network.was_dark(now - WINDOW_S - LONGEST_REQUEST_S, now):
            return
        fine = [host for host in self._answered if self.judge.gap_s(host) <= SOON_S]
        if fine:
            self.judge.fail("N1", f"the network is said to be down ({event.reason}), and {fine[0]} answers")

    def _check_blame(self, final: Final, now: float) -> None:
        """Where an outage lasts longer than a job waits, what fails, fails."""
        spell = self._lie_told(final, now)
        if spell is None or final.state not in (State.FAILED, State.SKIPPED):
            return
        before = {site_of(host) for host, at in self._answered.items() if at < spell.begins}
        host = urlsplit(final.visit.url).netloc
        waited_s = self.world.settings.visiting.domain_stall_timeout
        if len(before) < SITES_MIN or not self._is_good(host) or now > spell.begins + waited_s:
            return
        if spell.ends <= self._lied_to.get(final.visit.url, now) + ASK_WITHIN_S:
            return
        self._blamed.add(host)
        if self._answered.get(host, now) < spell.begins or len(self._blamed) >= MANY:
            self.judge.fail("N2", f"{final.visit.url} is blamed ({final.reason}) for a network that lies to everybody")

    def _lie_told(self, final: Final, now: float) -> Spell | None:
        said = final.fetched.detail if final.fetched is not None else ""
        for spell in self.world.spells:
            told = spell.fault in said or spell.fault in final.reason
            if spell.fault in LIES and told and spell.begins <= now:
                return spell
        return None
