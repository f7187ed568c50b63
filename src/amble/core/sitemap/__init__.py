"""What a sitemap says: bytes to entries, which sitemaps of a site to read next, which pages have gone stale. Pure.

read.py      bytes to entries and a verdict
  unpack.py    gzip by its magic bytes, in bounded pieces
  decode.py    bytes to characters, by byte order mark or XML declaration
  xml.py       how far an XML document is read, on expat
  elements.py  what its elements mean; the table is dialects.py: urlset, sitemapindex, RSS, Atom
  text.py      one URL per line
  collect.py   raw fields to entries: the URL gate, duplicates, the cap
  dates.py     W3C and RFC 822 dates
walk.py      from robots.txt through indexes to every sitemap, once each, within limits
stale.py     whether a page read before is worth reading again
"""
