"""robots.txt: bytes to groups, groups to rules, answers to policies, policies to a book of origins. Pure.

parse    which lines say something, and to whom   match    how paths are spelled, and whether the rules allow one
usage    Content-Signal and Content-Usage         policy   what an answer means for its origin
book     every origin: asked once, trusted for a day; shelf: what of it is held in memory
"""
