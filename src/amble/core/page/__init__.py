"""What a fetched page says: bytes to text, title, links and directives, in time linear in the page. Pure.

page.py        the one call, and what it gives
  plain.py       the reader for pages without misplaced tags, in one go
  guard.py       whether any other may be given to the tree builder
  tree.py        the reader for calm pages, on Lexbor
  linear.py      the reader for all others, tag by tag
    tokens.py      where tags are
    foreign.py     <svg> and <math>
    references.py  &amp; and its kin
  markup.py      what either reader finds
  links.py       anchors to URLs
    known.py       those that other pages had too
    lines.py       all of them as text, to be kept
  canonical.py   the URL a page prefers
  refresh.py     redirects that wait
  directives.py  what robots are asked
select.py      what a CSS selector finds, for queries
  levels.py      how deep a page nests
  htmlpath.py    paths over a page and the JSON in it
"""
