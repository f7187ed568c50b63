-- What an index lists are sitemaps, not pages: kept as well, so that what was read lately need not be fetched again.
ALTER TABLE amble.sitemap_urls ADD COLUMN kind VARCHAR;  -- NULL: a page; sitemap
