"""What a sitemap says: bytes to entries, which sitemaps of a site to read next, which pages have gone stale. Pure.

read.py      bytes to entries and a verdict: gzip, characters, one URL per line
  xml.py       how far an XML document is read, on expat, and what its elements mean: urlset, sitemapindex, RSS, Atom
  collect.py   raw fields to entries: the URL gate, duplicates, the cap
  dates.py     W3C and RFC 822 dates
document.py  entries and verdicts; whether a page read before is worth reading again
walk.py      from robots.txt through indexes to every sitemap, once each, within limits
"""
