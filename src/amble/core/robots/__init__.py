"""robots.txt: bytes to groups, groups to rules, answers to policies, policies to a book of origins. Pure.

lines    which lines say something                parse    whom they address
pattern  how paths are spelled                    match    whether the rules allow a path (stars: those with `*`)
delay    Crawl-delay and Request-rate             usage    Content-Signal and Content-Usage
policy   what an answer means for its origin      book     every origin: asked once, trusted for a day
"""
