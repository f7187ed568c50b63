"""Deliberate faults in copies of the product, each of which the simulation must notice.

Every mutant is one replacement in one file. Where the text to be replaced is gone, the list is out of date, and that is
a failure too.
"""

# ruff: noqa: E501 - a mutant a line, so that the list can be read as one

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parents[2] / "src"
SEEDS = 1_200
CPU_S = 180  # of processor time, so that a busy machine passes for no mutant
LIMITED = ("sh", "-c", f'ulimit -t {CPU_S}; exec "$@"', "sh")
STUCK = "V5"  # also: so busy that it never came to an end


class Mutant(NamedTuple):
    """One fault: what is wrong, where, and the rules of which at least one must notice."""

    name: str
    file: str
    old: str
    new: str
    rules: tuple[str, ...]


QUOTA = "core/pacing/quota_window.py"
PACE, PLAN, FRONTIER = "core/pacing/pace.py", "core/frontier/plan.py", "core/frontier/frontier.py"
STATE = "core/pacing/state.py"
LANE, BOOK = "core/frontier/lane.py", "core/robots/book.py"
INTAKE, BACKLOG, LANES = "core/frontier/intake.py", "core/frontier/backlog.py", "core/frontier/lanes.py"
PLACES = "core/frontier/in_flight.py"
PATIENCE, OUTAGE, INQUIRY = "core/frontier/patience.py", "core/frontier/outage.py", "core/frontier/inquiry.py"
PATIENCE, TAIL = "core/frontier/patience.py", "core/frontier/tail.py"
CRAWL, OUTCOME, BLOCKS = "crawl.py", "core/outcome.py", "core/retry_after.py"

MUTANTS = (
    Mutant("no spacing after a send", PACE, "        self.last_start = now\n        if self.bounds.random", "        if self.bounds.random", ("P1", "P1b")),
    Mutant("the crawl delay is not heard", LANES, "        if lane.heed(origin, crawl_delay_s):\n            self.registry", "        if lane.heed(origin, crawl_delay_s) and False:\n            self.registry", ("P1",)),
    Mutant("robots.txt does not count as a request", FRONTIER, "self._heed(lane, origin)  # now", "pass  # now", ("P1",)),
    Mutant("the shortest crawl delay of two origins holds", LANE, "max(self._asked_s.values()", "min(self._asked_s.values()", ("P1",)),
    Mutant("a resumed run keeps no distance", LANES, "            lane.pace.resume_silently(since)", "            pass", ("P1",)),
    Mutant("max_rate is forgotten", "core/pacing/bounds.py", "(0.0 if max_rate is None else 1.0 / max_rate, Source.MAX_RATE)", "(0.0, Source.MAX_RATE)", ("P1",)),
    Mutant("spaced from the permit, not from the send", PACE, "        if now > self.last_start:\n            self.last_start = now\n", "", ("P1", "P1b")),
    Mutant("two connect side by side", LANES, "        lane.pace.expect(permit)\n", "", ("P1", "P1b")),
    Mutant("one request more per domain", PACE, "len(flying) >= self.parallel", "len(flying) > self.parallel", ("P2", "P2b")),
    Mutant("one request more in all", PLACES, "self._held < self._size", "self._held <= self._size", ("P2c",)),
    Mutant("whoever waits for an answer gives its place away", PLACES, "if self._young.pop(permit, None) is None and permit in self._unsent:", "if permit in self._unsent:", ("P2c",)),
    Mutant("addresses have no cap", PACE, "            if isinstance(got, float):\n                return got", "            if isinstance(got, float):\n                got = None", ("P2b", "P1b")),
    Mutant("Retry-After is not kept", STATE, "self._block_until(now + wait_s)", "pass", ("P3",)),
    Mutant("Retry-After in milliseconds", BLOCKS, "delay_s = float(text)\n", "delay_s = float(text) / 1000\n", ("P3",)),
    Mutant("a date judged by our own clock", BLOCKS, "answered_at = (http_date(date) if date else None) or utc", "answered_at = utc", ("P3",)),
    Mutant("a late success lifts the block", PACE, "                return  # sent before the block was known: says nothing about what holds now\n            trouble.succeed", "                pass\n            trouble.blocked_until = now\n            trouble.succeed", ("P3",)),
    Mutant("a shorter Retry-After replaces a longer one", STATE, "self._block_until(now + wait_s)", "self._trouble().blocked_until = now + wait_s", ("P3",)),
    Mutant("a long block is not restored", "core/pacing/registry.py", "pace.leave_alone(self._blocked.pop(domain, NEVER))", "pass", ("P3",)),
    Mutant("answers that tell nothing cost nothing of a quota", QUOTA, "        self.remaining -= 1\n", "        pass\n", ("P7",)),
    Mutant("a quota's window ends a second early", QUOTA, "now + quota.reset_s + self.late_s", "now + quota.reset_s + self.late_s - 3", ("P7",)),
    Mutant("a quota grows within its window", QUOTA, "        self.remaining = min(self.remaining, quota.remaining)\n", "        self.remaining = quota.remaining + 3\n", ("P7",)),
    Mutant("robots 5xx allows everything", "core/robots/policy.py", "    if 400 <= status < 500 and status != 429:", "    if 400 <= status < 600 and status != 429:", ("P5",)),
    Mutant("robots 429 allows everything", "core/robots/policy.py", "    if 400 <= status < 500 and status != 429:", "    if 400 <= status < 500:", ("P5",)),
    Mutant("a robots.txt that cannot be had allows", "core/robots/policy.py", "return Access.UNREACHABLE  # 2.3.1.4: network errors", "return Access.UNAVAILABLE  # 2.3.1.4: network errors", ("P5",)),
    Mutant("robots.txt is trusted for ever", BOOK, "entry.learned(policy, now, now + self.settings.robots_max_age)", "entry.learned(policy, now, now + 1e9)", ("P5",)),
    Mutant("only links are judged by robots.txt", FRONTIER, "if visit.kind is not Kind.ROBOTS:\n", "if visit.kind is not Kind.ROBOTS and not visit.trail:\n", ("P5",)),
    Mutant("a refusal of robots.txt is not heard", BOOK, "        if reason is not None:", "        if reason is not None and path_in(url).startswith('/robots'):", ("P5",)),
    Mutant("too long a crawl delay is ignored", BOOK, "if delay_s > self.settings.honour_crawl_delay_up_to:", "if delay_s > 1e9:", ("P5",)),
    Mutant("redirects leave the site", "core/frontier/redirection.py", "elif (out := self._intake.scope.judge(target)) is not None:", "elif (out := self._intake.scope.judge(visit.url)) is not None:", ("S1",)),
    Mutant("links leave the site", "core/scope.py", "        return self.judge(url)\n", "        return self._shape(url)\n", ("S1",)),
    Mutant("redirects have no end", "core/frontier/redirection.py", "len(visit.trail) >= self._intake.settings.max_redirects or target in visit.trail", "target in visit.trail", ("L4",)),
    Mutant("robots redirects have no end", BOOK, "len(entry.hops) > REDIRECTS_MAX or", "len(entry.hops) > 99 or", ("L4",)),
    Mutant("one try more than wanted", PLAN, "visit.attempt <= (min(1, most)", "visit.attempt <= 1 + (min(1, most)", ("L1",)),
    Mutant("a 404 is tried again", OUTCOME, "Failure.HTTP_CLIENT_ERROR: Lesson(Outcome.SUCCESS, retried=False)", "Failure.HTTP_CLIENT_ERROR: Lesson(Outcome.SUCCESS, retried=True)", ("L3", "L1")),
    Mutant("the target of a redirect answers for its source", "core/frontier/redirection.py", "hop._replace(task=target, parent=visit.url, stored=False)", "hop._replace(task=visit.url)", ("L1",)),
    Mutant("a redirect costs a page", "core/frontier/redirection.py", "        self._intake.refund(visit)\n", "", ("L1",)),
    Mutant("the target of a redirect has no row", "core/frontier/redirection.py", "        if is_new:\n            hop", "        if not is_new:\n            hop", ("L1", "L5")),
    Mutant("a URL that robots.txt refuses vanishes", FRONTIER, "            self.end_visits([visit], Over.refused(verdict.failure, verdict.reason), now, utc, changes)\n", "", ("L1", "V6")),
    Mutant("the same URL twice", INTAKE, "        if not self.seen.add(visit.task):\n            return\n", "        self.seen.add(visit.task)\n", ("L1", "V5")),
    Mutant("the budget counts what is queued, not what was accepted", INTAKE, "overall - self.frontier.spent", "overall - self.frontier.queued", ("L1",)),
    Mutant("stopping forgets what is queued", FRONTIER, "        self.draining = True\n        self._hand_back(changes)", "        self.draining = True\n        for lane in self.lanes.values():\n            lane.drain()", ("L1", "V6")),
    Mutant("draining sends on", FRONTIER, " and not self.draining and not self._is_flooded", " and not self._is_flooded", ("J1", "L1", "V6")),
    Mutant("a given-up request is not handed back", CRAWL, "            self._on_changes(self.plan.cancelled(ready, now, utc), ready, None, utc)\n", "            pass\n", ("L1", "V6", "V5", "P2")),
    Mutant("a pause does not pause", CRAWL, "            if self._holds:\n                return math.inf\n", "", ("J1",)),
    Mutant("nothing ready is taken for the end", FRONTIER, "if self.under_way or coming", "if coming", ("V6", "L1")),
    Mutant("nobody is told that an answer came", CRAWL, "        self._places.leave(ready.permit)\n        self._settled.set()", "        self._places.leave(ready.permit)", ("V5",)),
    Mutant("the robots.txt answered releases nobody", FRONTIER, "        lane.held = False\n        self._heed", "        self._heed", ("V5", "V6")),
    Mutant("a fault of our own keeps the turn to ask", PATIENCE, "            self.frontier.book.forget_ask(visit.task)\n", "", ("V5", "V6")),
    Mutant("a lost sitemap holds up its pages", FRONTIER, "        self.lane(visit.task, now, utc).walks[visit.task].failed(visit.first_url, failure)\n", "", ("V5", "V6")),
    Mutant("the wall clock spaces", CRAWL, "            step = self.plan.next_ready(now,", "            now = self.clock.utc().timestamp()\n            step = self.plan.next_ready(now,", ("P1", "V5", "V1", "P3")),
    Mutant("polling without a pause", CRAWL, "return 0.0 if pouring else max(0.0, step.instant - now)", "return 0.0", ("V5",)),
    Mutant("a stored page is asked for again", INTAKE, "        if is_stored:\n            frontier.recall", "        if visit.task == '':\n            frontier.recall", ("R1", "R2")),
    Mutant("a claimed task is not looked for in the table", INTAKE, "            elif visit.task in self.stored:", "            elif visit.task == '':", ("R1", "L1")),
    Mutant("what its sitemap calls fresh is asked for", "core/frontier/recall.py", "return is_stale(stored.crawled_at, entry.lastmod, entry.changefreq, utc)", "return True", ("R1",)),
    Mutant("a 304 is taken for a page", PLAN, "        elif unchanged and failure is None:", "        elif unchanged and visit.url == '':", ("R2",)),
    Mutant("an unasked 304 is taken for a page", PLAN, "        if unchanged and not visit.is_conditional:", "        if unchanged and visit.url == '':", ("R2", "L1", "L3")),
    Mutant("a page that cannot be had again loses its row", FRONTIER, "if final.visit.stored and final.failure is not None", "if final.visit.url == '' and final.failure is not None", ("R2",)),
    Mutant("what does not fit the window is forgotten", LANES, "        changes.overflow.append(visit)\n", "", ("L1", "V6", "V5", "V0")),
    Mutant("nobody is hungry", BACKLOG, "            self.hungry[domain] = None\n", "            pass\n", ("V5",)),
    Mutant("the end does not wait for the store", FRONTIER, " or self.backlog.busy", "", ("V6", "L1")),
    Mutant("the end does not wait for what is recalled", FRONTIER, "coming = self.recalls or ", "coming = ", ("V6", "L1")),
    Mutant("what is claimed for a crawl that has stopped is lost", INTAKE, "                changes.finals.append(Final(visit, *STOPPED))", "                pass", ("L1", "V6")),
    Mutant("a deferred domain is claimed for all the same", FRONTIER, "            self.deferred += self.backlog.leave(lane.domain)", "            self.backlog.leave(lane.domain)", ("L1", "V6", "V5")),
    Mutant("a resumed job has its budgets per domain anew", INTAKE, "        frontier.pages.update(pages)\n", "", ("L1",)),
    Mutant("a short block does not outlive a restart", "core/pacing/learned.py", "if left_s > 0 else None", "if left_s > 60 else None", ("P3",)),
    Mutant("another crawl keeps no distance to the last one", "jobs/rows.py", "now - max(0.0, age_s)", "now - 1e9", ("P1",)),
    Mutant("two sites that name one sitemap share its end", "core/frontier/recall.py", "self.visit.kind, self.visit.task, self.visit.url", "self.visit.kind, self.visit.url, self.visit.url", ("V6", "V5", "L1")),
    Mutant("what the table holds is in the budget", INTAKE, "        if is_stored:\n", "        frontier.spent += is_stored\n        if is_stored:\n", ("L1",)),
    Mutant("an update is not in the budget", INTAKE, "            frontier.spent += recall.fetched is None", "            frontier.spent += 0", ("L1",)),
    Mutant("a broken connection is made good for ever", PLAN, "if fetched.stale and not visit.new_connection:", "if fetched.stale:", ("C1", "L1")),
    Mutant("a broken connection is made good over a kept one", "core/frontier/visit.py", "return self._replace(new_connection=True, spared=self.spared + 1)", "return self", ("C1",)),
    Mutant("a trial costs a try", PLAN, "was_trial = failure is not None and", "was_trial = self.settings is None and failure is not None and", ("L6",)),
    Mutant("a trial never costs a try", PLAN, "visit.spared < visit.attempt - 1", "visit.spared >= 0", ("C1",)),
    Mutant("one try less than wanted", PLAN, "tries_left = visit.attempt <= (min(1, most)", "tries_left = visit.attempt < (min(1, most)", ("L6",)),
    Mutant("a broken connection costs a try", PLAN, "            self._repeat(visit, permit, lane, now, changes)\n", "            self._repeat(visit.again(), permit, lane, now, changes)\n", ("L1",)),
    Mutant("the network is down before anybody was asked", OUTAGE, "return Turn.DOUBT if self._proven else self.go_down(now)", "return self.go_down(now)", ("N1",)),
    Mutant("a resolver that denies everybody is believed", OUTAGE, "        return Fault.DENIED\n", "        return _ANSWERED\n", ("N2",)),
    Mutant("a wrong certificate is always the site's", OUTAGE, "        return Fault.UNTRUSTED\n", "        return _ANSWERED\n", ("N2",)),
    Mutant("it is asked over connections and by names from before", INQUIRY, "return self._way.taken_by(visit)._replace(asks_network=True)", "return visit._replace(asks_network=True)", ("N2",)),
    Mutant("what fails while it is asked is counted at once", PATIENCE, "if self._is_known or fault not in DOUBTFUL or fault is None:", "if self._is_known or fault is not None:", ("N2",)),
    Mutant("what was held is forgotten", PATIENCE, "        held, self._held = self._held, []\n        return held", "        self._held = []\n        return []", ("V5", "V6", "P2", "L1")),
    Mutant("failing hosts are waited for without end", TAIL, "failing = self._failing(now)", "failing: list[Lane] = []", ("V7",)),
    Mutant("one that fails is taken for one that works", TAIL, "if lane is None or (lane.fails and now >= lane.pause_until):", "if lane is None:", ("V7",)),
    Mutant("who brought a page is given up like the others", TAIL, "        self._delivered.add(domain)\n", "", ("V8",)),
    Mutant("a page gives the others no more time", TAIL, "        self._since, self._spent_s = None, 0.0\n\n    def", "\n    def", ("V8",)),
    Mutant("the time of a pause counts", CRAWL, "        self.plan.tail.stop_clock(self.clock.monotonic())\n", "", ("V8",)),
    Mutant("what is abandoned is waited for", CRAWL, "            if permit.domain in domains:\n                cancel()", "            if permit.domain in domains:\n                pass", ("V7", "V8")),
    Mutant("whoever waits for an address is never called", LANES, "                self.schedule(first, now)\n                return\n", "                return\n", ("V5", "V1", "V6")),
    Mutant("a hang is judged by one answer", "core/pacing/latency.py", "HANGS_TIMES, HANGS_ANSWERS, HANGS_S = 20.0, 10, 5.0", "HANGS_TIMES, HANGS_ANSWERS, HANGS_S = 20.0, 1, 5.0", ("H1",)),
    Mutant("a quick site has no patience", "core/pacing/latency.py", "max(HANGS_S, HANGS_TIMES * (percentile_s(ring, 0.5) or 0.0))", "HANGS_TIMES * (percentile_s(ring, 0.5) or 0.0)", ("H1",)),
    Mutant("a second try has no more time than the first", FRONTIER, "* 2.0 ** (visit.attempt - 1)", "* 2.0 ** 0", ("H1",)),
    Mutant("the last try has no more time than others", FRONTIER, "hangs_after_s is None or visit.attempt > self.registry.settings.max_retries", "hangs_after_s is None", ("H1",)),
    Mutant("a sitemap has no more time than a page", FRONTIER, "        if visit.kind is Kind.PAGE:\n            visit = self._timed", "        if visit.kind is not Kind.ROBOTS:\n            visit = self._timed", ("H1",)),
    Mutant("pages wait for guesses", "core/frontier/discovery.py", "late = self.settings.follow_links is True", "late = False", ("G1",)),
    Mutant("a guess is not late", LANE, "rank, self._late_in = _LATE, self._late_in or LATE_AFTER", "rank, self._late_in = _SITEMAP, 0", ("G1",)),
    Mutant("a late guess never has its turn", LANE, "return _PAGE if self.under_way else _LATE", "return _PAGE", ("V6", "V5")),
    Mutant("half of the longest Retry-After is kept", "core/answer.py", "min(asked_s, retry_after_max_s)", "min(asked_s, 0.5 * retry_after_max_s)", ("P3",)),
    Mutant("what the WHERE does not take is taken", INTAKE, "zip(part.visits, taken, strict=True) if not is_taken", "zip(part.visits, taken, strict=True) if False", ("W1",)),
    Mutant("a sitemap that was not there lately is asked for", INTAKE, "        if known is None:\n", "        if known is None or known.failure is not None:\n", ("R1",)),
    Mutant("the end does not wait for what is judged", FRONTIER, " or self.unjudged or", " or", ("V6", "L1")),
    Mutant("what is being judged at a stop is lost", FRONTIER, "(*self.inflows, *(part.rest for part in self.unjudged))", "tuple(self.inflows)", ("L1", "V6")),
)  # fmt: skip


def try_out(mutant: Mutant) -> tuple[bool, str]:
    """Whether a mutant was noticed, and by what."""
    with tempfile.TemporaryDirectory() as folder:
        copied = Path(folder) / "src"
        shutil.copytree(SOURCE, copied, ignore=shutil.ignore_patterns("__pycache__"))
        path = copied / "amble" / mutant.file
        text = path.read_text("utf-8")
        if text.count(mutant.old) != 1:
            return False, f"the text to replace occurs {text.count(mutant.old)} times in {mutant.file}"
        path.write_text(text.replace(mutant.old, mutant.new), "utf-8")
        command = [sys.executable, "-m", "amble.testing.simulation", "--seeds", str(SEEDS), "--until-failure"]
        env = {**os.environ, "PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run([*LIMITED, *command], env=env, cwd=folder, capture_output=True, text=True)
        if ran.returncode < 0:
            return STUCK in mutant.rules, f"{STUCK} not done after {CPU_S} s of processor time"
        said = ran.stdout.strip() or ran.stderr.strip()[-300:]
        noticed = ran.returncode == 1 and said.split(" ")[0] in mutant.rules
        return noticed, said if ran.returncode else f"survived {SEEDS} seeds"


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not names or any(name in mutant.name for name in names)]
    with ThreadPoolExecutor(2) as pool:
        killed = 0
        for mutant, (noticed, said) in zip(chosen, pool.map(try_out, chosen), strict=True):
            killed += noticed
            sys.stdout.write(f"{'killed  ' if noticed else 'SURVIVED'} {mutant.name}: {said}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{killed} of {len(chosen)} mutants killed\n")
    return 0 if killed == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
