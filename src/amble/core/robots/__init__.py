"""robots.txt: bytes to groups, groups to rules, answers to policies, policies to a book of origins. Pure.

lines    which lines say something                parse    whom they address
pattern  how paths are spelled                    match    whether the rules allow a path (stars: those with `*`)
delay    Crawl-delay and Request-rate             usage    Content-Signal and Content-Usage
policy   what an answer means for its origin      book     every origin: asked once, trusted for a day
"""

from amble.core.robots.book import RobotsBook, robots_url_of
from amble.core.robots.groups import RobotsTxt, parse, product_token
from amble.core.robots.match import Rule, Rules
from amble.core.robots.pattern import escape_path, path_of
from amble.core.robots.policy import Access, Policy, RobotsAnswer, Terms, access_of, policy_of, read_policy
from amble.core.robots.settings import RobotsSettings
from amble.core.robots.verdict import Allowed, Ask, Refused, RobotsRow, Standing, Verdict, Wait

__all__ = [
    "Access",
    "Allowed",
    "Ask",
    "Policy",
    "Refused",
    "RobotsAnswer",
    "RobotsBook",
    "RobotsRow",
    "RobotsSettings",
    "RobotsTxt",
    "Rule",
    "Rules",
    "Standing",
    "Terms",
    "Verdict",
    "Wait",
    "access_of",
    "escape_path",
    "parse",
    "path_of",
    "policy_of",
    "product_token",
    "read_policy",
    "robots_url_of",
]
