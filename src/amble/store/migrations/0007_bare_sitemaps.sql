-- Sitemaps that list nothing of their site: asked for lately, they need not be asked for again.
CREATE TABLE amble.bare_sitemaps (
    sitemap    VARCHAR NOT NULL,
    failure    VARCHAR,            -- why there is none; NULL: it was read, and lists nothing
    fetched_at TIMESTAMP,
    job_id     BIGINT
);
