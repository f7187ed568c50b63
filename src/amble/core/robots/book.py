"""Which URLs may be fetched now, over all origins: one robots.txt each, asked for once, trusted for a day. Pure.

The book performs nothing. `verdict` may answer `Ask`: that caller fetches the robots.txt and says what came of it;
everyone else waits. Instants are monotonic seconds that the caller passes in.

    nothing known --Ask--> asking --learn--> known --robots_max_age--> asking again, conditionally
                              \\--learn--> unreachable: deferred, asked again after growing waits, then given up
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from amble.core.outcome import Failure
from amble.core.pacing.backoff import exponential_s
from amble.core.pacing.bounds import Random
from amble.core.robots.match import decode_unreserved, escape_path, path_in
from amble.core.robots.parse import BODY_BYTES_MAX
from amble.core.robots.policy import (
    ALLOW_ALL,
    REDIRECTS_MAX,
    Access,
    Policy,
    RobotsAnswer,
    Terms,
    access_of,
    policy_of,
)
from amble.core.robots.settings import RobotsSettings
from amble.core.robots.shelf import Entry, Shelf
from amble.core.robots.verdict import ALLOWED, Allowed, Ask, Refused, RobotsRow, Standing, Verdict, Wait
from amble.core.urls import normalize, origin_of


def robots_url_of(origin: str) -> str:
    """Where the robots.txt of an origin lies (RFC 9309 2.3)."""
    return f"{origin}/robots.txt"


MISSED_WAIT_S = 5.0  # before an origin where nobody was found is tried once more
GAPS_MIN = 3  # requests at a domain that a copy of its robots.txt lives through, however short its age


class RobotsBook:
    """The robots.txt of every origin met so far.

    Crawls with the same settings and name may share a `shelf`: each has a book, one of them asks, all are told.
    """

    def __init__(self, settings: RobotsSettings, user_agent: str, random: Random, shelf: Shelf | None = None) -> None:
        self.settings = settings
        self.terms = Terms.of(user_agent, settings.purpose)
        # Who said how often to try wants that of origins that never answered, too.
        self.tries_missing_twice = "robots_retries" not in settings.model_fields_set
        self._random = random
        self._shelf = Shelf(settings.robots_memory_mb * 1_000_000) if shelf is None else shelf
        self._changed: dict[str, RobotsRow] = {}
        self._told: Callable[[str, object], None] | None = None
        self._asked: set[str] = set()  # origins whose robots.txt we owe the shelf

    # -- asking the book

    def verdict(self, url: str, now: float, gap_s: float = 0.0) -> Verdict:
        """Whether a URL, normalised, may be fetched now; or who finds out; or how long to wait.

        `gap_s` is the time between two requests at its domain: a copy lives for some of them at the least, or a slow
        domain would be asked for nothing but its robots.txt.

        Rules are those of the moment: a URL that was queued when it was allowed is judged again when its turn comes.
        """
        if not self.settings.respect_robots_txt:
            return ALLOWED
        origin = origin_of(url)
        entry = self._shelf.take(origin, now)
        if entry.asking:
            entry.awaited = True
            return Wait()
        if now >= entry.ask_at and (entry.failures or now >= entry.good_at + GAPS_MIN * gap_s):
            return self._ask(origin, entry)
        if entry.policy is not None:
            return self._judged(entry.policy, url)
        return _given_up(entry) or Wait(entry.ask_at)

    def ask_anew(self, origin: str, now: float) -> Ask | None:
        """Ask for a robots.txt though what is known of it is good still; None where that is not for us to do now."""
        entry = self._shelf.take(origin, now)
        return None if entry.asking or entry.failures else self._ask(origin, entry)

    def given_up(self, origin: str) -> Refused | None:
        """What becomes of every URL of an origin whose robots.txt cannot be had, however long it is not asked."""
        entry = self._shelf.find(origin)
        return None if entry is None else _given_up(entry)

    def _judged(self, policy: Policy, url: str) -> Verdict:
        # Google compares paths as they are spelled and asks callers to escape them alike first.
        reason = policy.refusal(decode_unreserved(escape_path(path_in(url))))
        if reason is not None:
            return Refused(Failure.ROBOTS_DISALLOWED, reason)
        delay_s = policy.crawl_delay_s
        if delay_s is None:
            return ALLOWED
        if delay_s > self.settings.honour_crawl_delay_up_to:
            return Refused(Failure.CRAWL_DELAY_TOO_LONG, f"robots.txt asks for {delay_s:g} s between requests")
        return Allowed(delay_s)

    def _ask(self, origin: str, entry: Entry) -> Ask:
        entry.asking = True
        entry.hops = [robots_url_of(origin)]
        self._asked.add(origin)
        return entry.ask(origin)

    # -- telling the book

    def redirected(self, origin: str, location: str | None, now: float) -> Ask | None:
        """The next hop of a redirected robots.txt, to be fetched by the same caller at the pace of that hop's domain.

        None where the chain ends here: the book has then learned, as if by `learn`.
        """
        entry = self._shelf.take(origin, now)
        if not entry.asking:
            return None  # this chain was given up before the answer came
        url = normalize(location, entry.hops[-1]) if location else None
        if not isinstance(url, str):
            self.learn(origin, RobotsAnswer(failure=Failure.NETWORK_PROTOCOL_ERROR), now)
        elif len(entry.hops) > REDIRECTS_MAX or url in entry.hops:  # a loop only ends in more than five
            self.learn(origin, RobotsAnswer(failure=Failure.TOO_MANY_REDIRECTS), now)
        else:
            entry.hops.append(url)
            return entry.ask(origin)
        return None

    def learn(self, origin: str, answer: RobotsAnswer, now: float, policy: Policy | None = None) -> None:
        """Take in what the request for a robots.txt brought.

        `policy` is `policy_of(answer, robots_url_of(origin), book.terms)`, for a caller who has it worked out in a
        thread because the file is long; otherwise it is worked out here.
        """
        if answer.failure is Failure.CANCELLED:
            self.forget_ask(origin)
            return
        entry = self._shelf.take(origin, now)
        if policy is None:
            policy = policy_of(answer, robots_url_of(origin), self.terms)
        if policy is not None:
            self._keep(origin, entry, answer, policy, now)
        elif answer.access is Access.UNCHANGED and entry.good is not None:
            self._confirm(origin, entry, answer, now)
        else:
            self._miss(entry, answer, now)
        self._asked.discard(origin)
        entry.asking = entry.awaited = False
        entry.hops = []
        self._shelf.reweigh(entry, now)
        self._shelf.tell(origin, self)

    def forget_ask(self, origin: str) -> None:
        """Give the turn back: whoever was to ask will not. The next verdict hands it to somebody else."""
        self._asked.discard(origin)
        entry = self._shelf.find(origin)
        if entry is not None:
            awaited = entry.awaited
            entry.asking = entry.awaited = False
            entry.hops = []
            if awaited:
                self._shelf.tell(origin, self)

    def pardon(self, origin: str, now: float) -> None:
        """That a robots.txt could not be had was the network's fault: ask again as if nobody had tried [F9]."""
        entry = self._shelf.find(origin)
        if entry is not None and entry.failures and not entry.asking:
            entry.failures, entry.given_up, entry.ask_at = 0, False, now

    # -- a shelf that others read, too

    def listen(self, on_answered: Callable[[str], None]) -> None:
        """Be told when another book on this shelf has an answer that somebody may wait for, or asks no more."""

        def told(origin: str, by: object) -> None:
            if by is not self:
                if isinstance(by, RobotsBook) and origin in by._changed:
                    self._changed[origin] = by._changed[origin]  # it is to be kept in our store as well
                on_answered(origin)

        self._told = told
        self._shelf.readers.append(told)

    def leave(self) -> None:
        """We ask for nothing any more, and want to be told nothing."""
        if self._told in self._shelf.readers:
            self._shelf.readers.remove(self._told)
        for origin in tuple(self._asked):
            self.forget_ask(origin)

    def _keep(self, origin: str, entry: Entry, answer: RobotsAnswer, policy: Policy, now: float) -> None:
        entry.learned(policy, now, now + self.settings.robots_max_age)
        entry.good = policy if answer.access is Access.SUCCESSFUL else None
        entry.etag, entry.last_modified = answer.etag, answer.last_modified
        entry.served_by = entry.hops[-1] if entry.hops else robots_url_of(origin)
        body = (answer.body or b"")[:BODY_BYTES_MAX] if entry.good else b""
        self._record(origin, entry, answer, body)

    def _confirm(self, origin: str, entry: Entry, answer: RobotsAnswer, now: float) -> None:
        assert entry.good is not None
        entry.learned(entry.good, now, now + self.settings.robots_max_age)
        unsaved = self._changed.get(origin)
        self._record(origin, entry, answer, unsaved.body if unsaved else None)

    def _miss(self, entry: Entry, answer: RobotsAnswer, now: float) -> None:
        """Unreachable (RFC 9309 2.3.1.4): nothing may be fetched, unless an earlier copy or the settings say more."""
        settings = self.settings
        entry.failures += 1
        once_more = answer.found_nobody and self.tries_missing_twice
        if once_more:
            wait_s = MISSED_WAIT_S * (1.0 + self._random())
        else:
            wait_s = exponential_s(entry.failures, settings.robots_retry_delay, settings.robots_retry_delay_max)
            wait_s *= 0.5 + 0.5 * self._random()  # so that origins that failed together do not return together
        if entry.good is not None and now - entry.good_at <= settings.robots_stale_age:
            entry.policy = entry.good
        elif settings.robots_unreachable == "allow":
            entry.policy = ALLOW_ALL
        else:
            entry.policy = None
        lasting = answer.lasts or once_more
        retries = min(1, settings.robots_retries) if lasting else settings.robots_retries
        if answer.failure is Failure.ADDRESS_FORBIDDEN:
            retries = 0  # where it is redirected to a forbidden address: that will not pass
        entry.given_up = entry.policy is None and entry.failures > retries
        if entry.given_up:
            wait_s = settings.robots_give_up_for
        entry.ask_at = now + max(wait_s, answer.retry_after_s or 0.0)

    # -- disk

    def _record(self, origin: str, entry: Entry, answer: RobotsAnswer, body: bytes | None) -> None:
        status = answer.status or 404  # a chain of too many redirects is as good as no file
        if status == 304:
            status = 200  # what the store has is confirmed
        self._changed[origin] = RobotsRow(
            origin, status, body, entry.etag, entry.last_modified, entry.served_by, answer.fetched_at
        )

    def dump_changed(self) -> list[RobotsRow]:
        """What was learned since the last call, for a store to keep. Unreachable origins leave what it has."""
        rows = list(self._changed.values())
        self._changed.clear()
        return rows

    def load(self, rows: Iterable[tuple[RobotsRow, float]], now: float) -> None:
        """Take in rows from a store, each with its age in seconds. What the book already knows is newer."""
        for row, age_s in rows:
            access = access_of(row.status)
            if row.body is None or self.knows(row.origin) or access not in (Access.SUCCESSFUL, Access.UNAVAILABLE):
                continue
            if age_s < 0:  # dated in the future: a clock was set. The copy may serve, but must be confirmed first
                age_s = self.settings.robots_max_age
            answer = RobotsAnswer(row.status, body=row.body)
            policy = policy_of(answer, robots_url_of(row.origin), self.terms)
            entry = self._shelf.take(row.origin, now)
            entry.learned(policy, now - age_s, now - age_s + self.settings.robots_max_age)
            entry.good = policy if access is Access.SUCCESSFUL else None
            entry.etag, entry.last_modified, entry.served_by = row.etag, row.last_modified, row.served_by
            self._shelf.reweigh(entry, now)

    # -- what the book holds

    def knows(self, origin: str) -> bool:
        """Whether anything has been learned about an origin, so that no store needs to be asked for it."""
        entry = self._shelf.find(origin)
        return entry is not None and (entry.policy is not None or entry.failures > 0)

    def allows_some(self, origin: str) -> bool:
        """Whether rules are in force by which pages of an origin may be asked for."""
        entry = self._shelf.find(origin)
        return entry is not None and entry.policy is not None

    def standing(self, origin: str) -> Standing | None:
        """Everything known about an origin, for reports; None if it was never met or has been forgotten."""
        entry = self._shelf.find(origin)
        if entry is None:
            return None
        return Standing(entry.policy, entry.asking, entry.ask_at, entry.failures, entry.given_up)

    def sitemaps(self, origin: str) -> tuple[str, ...]:
        """The sitemaps that an origin's robots.txt names."""
        entry = self._shelf.find(origin)
        return entry.policy.sitemaps if entry is not None and entry.policy is not None else ()

    def __len__(self) -> int:
        return len(self._shelf)

    def __repr__(self) -> str:
        return f"<RobotsBook of {len(self._shelf)} origins for {self.terms.token}>"


def _given_up(entry: Entry) -> Refused | None:
    if not entry.given_up:
        return None
    return Refused(Failure.ROBOTS_UNREACHABLE, f"no robots.txt after {entry.failures} tries")
