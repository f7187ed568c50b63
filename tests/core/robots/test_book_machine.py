"""P5 over any history: no page before a verdict that is fresh enough, one caller asking, and nobody waits for ever."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from amble.core.outcome import Failure
from amble.core.robots.book import RobotsBook
from amble.core.robots.policy import Access, RobotsAnswer
from amble.core.robots.settings import RobotsSettings
from amble.core.robots.verdict import Allowed, Ask, Refused, RobotsRow, Wait

MAX_AGE_S = 1_000.0
STALE_S = 5_000.0
ORIGINS = ("https://a.test", "http://a.test", "https://b.test")
OPEN, CLOSED = b"user-agent: *\nallow: /", b"user-agent: *\ndisallow: /\ncrawl-delay: 3"
answers = st.sampled_from(
    (
        RobotsAnswer(200, body=OPEN, etag='"open"'),
        RobotsAnswer(200, body=CLOSED, etag='"closed"'),
        RobotsAnswer(304),
        RobotsAnswer(404),
        RobotsAnswer(503),
        RobotsAnswer(429, retry_after_s=700.0),
        RobotsAnswer(failure=Failure.NETWORK_TIMEOUT),
    )
)
origins = st.sampled_from(ORIGINS)


class Model:
    """What one origin has really said: the last file or absence, and the last file alone."""

    def __init__(self) -> None:
        self.body: bytes | None = None  # OPEN, CLOSED, or b"" for no file
        self.said_at = -1e9
        self.file: bytes | None = None
        self.file_at = -1e9


class BookMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        wanted = RobotsSettings(robots_max_age=MAX_AGE_S, robots_stale_age=STALE_S, robots_retries=2)
        self.book = RobotsBook(wanted, "amble/1.0", lambda: 0.5)
        self.now = 0.0
        self.asking: dict[str, Ask] = {}
        self.models = {origin: Model() for origin in ORIGINS}
        self.stored: dict[str, RobotsRow] = {}
        self.stored_at: dict[str, float] = {}

    @rule(passed_s=st.sampled_from((0.0, 1.0, 20.0, 400.0, 1_000.0, 6_000.0)))
    def time_passes(self, passed_s: float) -> None:
        self.now += passed_s

    @rule(origin=origins)
    def look_up(self, origin: str) -> None:
        verdict = self.book.verdict(f"{origin}/page", self.now)
        model = self.models[origin]
        if isinstance(verdict, Ask):
            assert origin not in self.asking, "two callers ask at once"
            self.asking[origin] = verdict
            assert verdict.etag is None or model.file is not None
        elif isinstance(verdict, Wait):
            assert (verdict.not_before is None) is (origin in self.asking)
            assert verdict.not_before is None or verdict.not_before > self.now
        elif isinstance(verdict, Allowed):
            fresh = self.now - model.said_at < MAX_AGE_S and model.body in (OPEN, b"")
            stale = self.now - model.file_at <= STALE_S + 1_000 and model.file == OPEN
            assert fresh or stale
        elif verdict.failure is Failure.ROBOTS_DISALLOWED:
            assert model.file == CLOSED

    @precondition(lambda self: self.asking)
    @rule(data=st.data(), answer=answers)
    def answer(self, data: st.DataObject, answer: RobotsAnswer) -> None:
        origin = data.draw(st.sampled_from(sorted(self.asking)))
        del self.asking[origin]
        self.book.learn(origin, answer, self.now)
        model = self.models[origin]
        if answer.access is Access.SUCCESSFUL:
            model.body = model.file = answer.body
            model.said_at = model.file_at = self.now
        elif answer.access is Access.UNAVAILABLE:
            model.body, model.said_at, model.file = b"", self.now, None
        elif answer.access is Access.UNCHANGED and model.file is not None:
            model.body = model.file
            model.said_at = model.file_at = self.now

    @precondition(lambda self: self.asking)
    @rule(data=st.data())
    def give_the_turn_back(self, data: st.DataObject) -> None:
        origin = data.draw(st.sampled_from(sorted(self.asking)))
        del self.asking[origin]
        self.book.forget_ask(origin)

    @precondition(lambda self: self.asking)
    @rule(data=st.data(), location=st.sampled_from(("/next", "https://c.test/r", "", "/robots.txt", "/other")))
    def redirect(self, data: st.DataObject, location: str) -> None:
        origin = data.draw(st.sampled_from(sorted(self.asking)))
        ask = self.book.redirected(origin, location, self.now)
        if ask is not None:
            assert ask.hop <= 5
            self.asking[origin] = ask
        else:
            del self.asking[origin]
            if location:  # a loop, or too many: no file
                model = self.models[origin]
                model.body, model.said_at, model.file = b"", self.now, None

    @precondition(lambda self: not self.asking)
    @rule()
    def restart(self) -> None:
        """A new process loads what the old one stored; monotonic time starts anywhere."""
        for row in self.book.dump_changed():
            self.stored[row.origin] = row if row.body is not None else row._replace(body=self.stored[row.origin].body)
            self.stored_at[row.origin] = self.models[row.origin].said_at
        self.book = RobotsBook(self.book.settings, "amble/1.0", lambda: 0.5)
        self.book.load([(row, self.now - self.stored_at[origin]) for origin, row in self.stored.items()], self.now)

    @invariant()
    def nobody_waits_for_ever(self) -> None:
        """Whenever nobody asks, the turn comes round: wait as long as the book says and it is handed out."""
        for origin in ORIGINS:
            standing = self.book.standing(origin)
            if standing is not None:
                assert standing.asking is (origin in self.asking)
                assert standing.ask_at <= self.now + 3_600.0

    def teardown(self) -> None:
        for origin in self.asking:
            self.book.forget_ask(origin)
        later = self.now + 4_000.0
        for origin in ORIGINS:
            assert isinstance(self.book.verdict(f"{origin}/page", later), Ask)
            self.book.learn(origin, RobotsAnswer(200, body=CLOSED), later)
            assert isinstance(self.book.verdict(f"{origin}/page", later), Refused)


TestBookMachine = BookMachine.TestCase
TestBookMachine.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
