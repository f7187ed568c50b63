-- Every redirect that was met, a hop per row. The row of its first URL tells in final_url where the chain ended.
CREATE TABLE amble.redirects (
    job_id     BIGINT NOT NULL,
    from_url   VARCHAR NOT NULL,
    to_url     VARCHAR,            -- resolved; as it was sent, where that is no URL that may be asked for; NULL: none
    status     INTEGER,
    hop        INTEGER NOT NULL,   -- its place in the chain as it was followed, from 1
    crawled_at TIMESTAMP
);

-- The page at the end of a chain has a row of its own: a redirect has no links, though it names that page.

-- Links with what became of their targets: FROM amble.page_links('pages').
CREATE OR REPLACE MACRO amble.page_links(t) AS TABLE
SELECT
    link.from_url, link.to_url, link.anchor, link.rel,
    coalesce(list_contains(string_split(lower(link.rel), ' '), 'nofollow'), false) AS nofollow,
    target.http_status AS to_status, target.error_type AS to_error,
    split_part(link.from_url, '/', 3) = split_part(link.to_url, '/', 3) AS internal,
    link.job_id
FROM amble.latest_links AS link
JOIN (
    SELECT url, CASE WHEN http_status BETWEEN 300 AND 399 THEN url ELSE coalesce(final_url, url) END AS read_at
    FROM query_table(t)
) AS page ON page.read_at = link.from_url
LEFT JOIN query_table(t) AS target ON target.url = link.to_url;

-- What people look at first when they look after a site: FROM amble.seo_pages('pages').
CREATE OR REPLACE MACRO amble.seo_pages(t) AS TABLE
WITH page AS (
    SELECT *, CASE WHEN http_status BETWEEN 300 AND 399 THEN url ELSE coalesce(final_url, url) END AS read_at FROM query_table(t)
), link AS (
    SELECT DISTINCT from_url, to_url FROM amble.latest_links
), into_it AS (
    SELECT to_url, count(*) AS inlinks FROM link WHERE from_url <> to_url GROUP BY to_url
), out_of_it AS (
    SELECT
        from_url, count(*) AS outlinks,
        count(*) FILTER (split_part(from_url, '/', 3) <> split_part(to_url, '/', 3)) AS outlinks_external
    FROM link GROUP BY from_url
), judged AS (
    SELECT
        page.*,
        CASE
            WHEN http_status IS NULL THEN coalesce(error_type, 'not fetched')
            WHEN redirect_count > 0 THEN 'redirect'
            WHEN http_status NOT BETWEEN 200 AND 299 THEN 'status ' || http_status
            WHEN error_type IS NOT NULL THEN error_type
            WHEN list_contains(string_split(coalesce(directives, ''), ', '), 'noindex') THEN 'noindex'
            WHEN canonical_url IS NOT NULL AND canonical_url <> read_at THEN 'canonical is another URL'
        END AS not_indexable_because
    FROM page
)
SELECT
    url, http_status AS status, content_type, title, length(title) AS title_length, description,
    length(description) AS description_length, canonical_url, canonical_url = read_at AS canonical_is_self, directives,
    depth, coalesce(inlinks, 0) AS inlinks, coalesce(outlinks, 0) AS outlinks,
    coalesce(outlinks_external, 0) AS outlinks_external, redirect_count AS redirects,
    CASE WHEN redirect_count > 0 THEN final_url END AS redirects_to,
    not_indexable_because IS NULL AS indexable, not_indexable_because,
    CASE WHEN body IS NOT NULL THEN len(regexp_extract_all(
        regexp_replace(body::VARCHAR, '(?is)<script\b.*?</script>|<style\b.*?</style>|<[^>]*>', ' ', 'g'), '\S+'
    )) END AS words,
    elapsed_ms, content_hash, crawl_time, discovered_by, parent_url, error, error_type, job_id
FROM judged
LEFT JOIN into_it ON into_it.to_url = judged.url
LEFT JOIN out_of_it ON out_of_it.from_url = judged.read_at;
