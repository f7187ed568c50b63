-- WHERE and EXTRACT of a job, as JSON: whoever takes it up goes on with them.
CREATE TABLE amble.clauses (
    job_id  BIGINT NOT NULL,
    clauses VARCHAR NOT NULL
);

-- What each job got for each URL, so that two crawls can be compared: the target table keeps the latest alone.
-- About 20 bytes a row. `DELETE FROM amble.history WHERE job_id < ...` forgets old crawls.
CREATE TABLE amble.history (
    job_id      BIGINT NOT NULL,
    url         VARCHAR NOT NULL,
    http_status INTEGER,            -- 304: as it was
    error_type  VARCHAR,
    content_key UBIGINT             -- the first 64 bits of content_hash
);

-- The links of each page as it was last read.
CREATE VIEW amble.latest_links AS
SELECT
    job_id, from_url, split_part(line, chr(9), 1) AS to_url, nullif(split_part(line, chr(9), 2), '') AS rel,
    nullif(split_part(line, chr(9), 3), '') AS anchor
FROM (
    SELECT job_id, from_url, unnest(string_split(lines, chr(10))) AS line
    FROM amble.link_lines
    WHERE seq IN (SELECT max(seq) FROM amble.link_lines GROUP BY from_url)
);

-- Links with what became of their targets: FROM amble.page_links('pages').
CREATE MACRO amble.page_links(t) AS TABLE
SELECT
    link.from_url, link.to_url, link.anchor, link.rel,
    coalesce(list_contains(string_split(lower(link.rel), ' '), 'nofollow'), false) AS nofollow,
    target.http_status AS to_status, target.error_type AS to_error,
    split_part(link.from_url, '/', 3) = split_part(link.to_url, '/', 3) AS internal,
    link.job_id
FROM amble.latest_links AS link
JOIN (SELECT url, coalesce(final_url, url) AS read_at FROM query_table(t)) AS page ON page.read_at = link.from_url
LEFT JOIN query_table(t) AS target ON target.url = link.to_url;

-- What people look at first when they look after a site: FROM amble.seo_pages('pages').
CREATE MACRO amble.seo_pages(t) AS TABLE
WITH page AS (
    SELECT *, coalesce(final_url, url) AS read_at FROM query_table(t)
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

-- What differs between two crawls: FROM amble.changes_between(1, 2).
CREATE MACRO amble.changes_between(before_job, after_job) AS TABLE
WITH old AS (
    SELECT * FROM amble.history WHERE job_id = before_job
), new AS (
    SELECT * FROM amble.history WHERE job_id = after_job
), pair AS (
    SELECT
        coalesce(new.url, old.url) AS url, old.http_status AS status_before, new.http_status AS status_after,
        coalesce(old.http_status = 304 OR (old.http_status < 400 AND old.error_type IS NULL), false) AS was_there,
        coalesce(new.http_status = 304 OR (new.http_status < 400 AND new.error_type IS NULL), false) AS is_there,
        new.url IS NULL AS not_asked, old.content_key AS key_before, new.content_key AS key_after,
        new.error_type AS error_type
    FROM old FULL JOIN new ON old.url = new.url
)
SELECT
    url,
    CASE
        WHEN is_there AND NOT was_there THEN 'new'
        WHEN is_there THEN 'changed'
        WHEN not_asked THEN 'not visited'
        WHEN status_after IN (404, 410) THEN 'gone'
        ELSE 'failed'
    END AS change,
    status_before, status_after, error_type
FROM pair
WHERE (is_there OR was_there)
    AND NOT (is_there AND was_there AND (status_after = 304 OR key_before IS NOT DISTINCT FROM key_after));

-- The same for the last two crawls of one table. Crawls for a single statement (`FROM crawl(...)`) leave no table.
CREATE VIEW amble.changes AS
FROM amble.changes_between(
    (
        SELECT max(id) FROM amble.jobs
        WHERE id < (SELECT max(id) FROM amble.jobs WHERE NOT starts_with(target, '"amble_staging"'))
            AND target = (SELECT arg_max(target, id) FROM amble.jobs WHERE NOT starts_with(target, '"amble_staging"'))
    ),
    (SELECT max(id) FROM amble.jobs WHERE NOT starts_with(target, '"amble_staging"'))
);
