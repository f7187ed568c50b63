-- What is stored besides the pages themselves. Times are UTC, without a zone. No table has a primary key: keys triple
-- the file and the time, and there is one writer. Rows are only appended: what became of something is a later row, and
-- a view shows the latest.

CREATE TABLE amble.jobs (
    id          BIGINT NOT NULL,
    status      VARCHAR NOT NULL,   -- queued running paused completed completed_with_errors failed cancelled deferred
    settings    VARCHAR,            -- JSON
    seeds       VARCHAR,            -- JSON
    target      VARCHAR NOT NULL,   -- the table that its pages go to
    created_at  TIMESTAMP,
    started_at  TIMESTAMP,
    finished_at TIMESTAMP,
    counters    VARCHAR,            -- JSON
    error       VARCHAR
);

-- Tasks as they were found, a bundle of lines per row: what one page gives to one domain at one depth. A line is a URL,
-- and behind tabs the validators of an earlier crawl. One row for many URLs costs a third of one row each.
CREATE TABLE amble.found (
    bundle        BIGINT NOT NULL,  -- counts up
    job_id        BIGINT NOT NULL,
    domain        VARCHAR NOT NULL,
    state         VARCHAR NOT NULL,
    depth         INTEGER,
    attempts      INTEGER,
    parent_url    VARCHAR,
    discovered_by VARCHAR,
    priority      DOUBLE,
    run_at        TIMESTAMP,
    error_type    VARCHAR,
    tasks         INTEGER NOT NULL, -- how many lines
    lines         VARCHAR NOT NULL
);

-- What became of tasks; of several rows for one task, the one with the highest seq holds.
CREATE TABLE amble.settled (
    seq        BIGINT NOT NULL,
    job_id     BIGINT NOT NULL,
    url        VARCHAR NOT NULL,
    state      VARCHAR NOT NULL,
    attempts   INTEGER,
    error_type VARCHAR
);

-- One row per task. `running` does not occur: a process holds what it has claimed in memory, and when it dies, whatever
-- it held waits again without anything having to be undone.
CREATE VIEW amble.tasks AS
WITH line AS (
    SELECT
        bundle, job_id, domain, state, depth, attempts, parent_url, discovered_by, priority, run_at, error_type,
        unnest(string_split(lines, chr(10))) AS line,
        generate_subscripts(string_split(lines, chr(10)), 1) - 1 AS place
    FROM amble.found
), task AS (
    SELECT
        *,
        split_part(line, chr(9), 1) AS url,
        nullif(split_part(line, chr(9), 2), '') AS etag,
        nullif(split_part(line, chr(9), 3), '') AS last_modified
    FROM line
), latest AS (
    SELECT job_id, url, arg_max({state: state, attempts: attempts, error_type: error_type}, seq) AS last
    FROM amble.settled
    GROUP BY job_id, url
)
SELECT
    task.job_id, task.url, task.domain, coalesce(last.state, task.state) AS state, task.depth,
    coalesce(last.attempts, task.attempts) AS attempts, task.parent_url, task.discovered_by, task.priority, task.run_at,
    coalesce(last.error_type, task.error_type) AS error_type, task.etag, task.last_modified, task.bundle, task.place
FROM task LEFT JOIN latest ON latest.job_id = task.job_id AND latest.url = task.url;

CREATE TABLE amble.domain_log (
    seq                          BIGINT NOT NULL,
    domain                       VARCHAR NOT NULL,
    crawl_delay_seconds          DOUBLE,
    adaptive_delay_seconds       DOUBLE,
    adaptive_delay_floor_seconds DOUBLE,
    concurrency                  INTEGER,
    last_request_at              TIMESTAMP,
    last_success_at              TIMESTAMP,
    last_limited_at              TIMESTAMP,
    learned_at                   TIMESTAMP,
    requests                     BIGINT,
    successes                    BIGINT,
    limited                      BIGINT,
    failures                     BIGINT,
    strategy                     VARCHAR,
    numbers                      VARCHAR,  -- JSON: what the strategy itself remembers
    blocked_until_at             TIMESTAMP,
    last_reserved_at             TIMESTAMP
);

CREATE VIEW amble.domains AS
SELECT * EXCLUDE (seq) FROM amble.domain_log
WHERE seq IN (SELECT max(seq) FROM amble.domain_log GROUP BY domain);

CREATE TABLE amble.robots_log (
    seq           BIGINT NOT NULL,
    origin        VARCHAR NOT NULL,
    status        INTEGER,
    body          BLOB,             -- NULL: as before, confirmed at fetched_at
    etag          VARCHAR,
    last_modified VARCHAR,
    served_by     VARCHAR,
    fetched_at    TIMESTAMP
);

CREATE VIEW amble.robots AS
SELECT
    log.origin, log.status, known.body, log.etag, log.last_modified, log.served_by, log.fetched_at
FROM amble.robots_log AS log
JOIN (
    SELECT origin, max(seq) AS seq, arg_max(body, seq) AS body FROM amble.robots_log GROUP BY origin
) AS known USING (origin, seq);

CREATE TABLE amble.sitemap_urls (
    url        VARCHAR NOT NULL,
    sitemap    VARCHAR NOT NULL,
    lastmod    TIMESTAMP,
    changefreq VARCHAR,
    priority   DOUBLE,
    fetched_at TIMESTAMP,
    job_id     BIGINT
);

-- The politeness receipt: every request, the gap it had to keep, the rule that set it, and the gap it kept.
CREATE TABLE amble.requests (
    job_id         BIGINT,
    session        BIGINT,   -- reserved_s and started_s are monotonic seconds, comparable within one session
    domain         VARCHAR,
    url            VARCHAR,
    permit         BIGINT,
    reserved_s     DOUBLE,
    started_s      DOUBLE,
    started_at     TIMESTAMP,
    required_gap_s DOUBLE,
    actual_gap_s   DOUBLE,
    rule           VARCHAR,
    in_flight      INTEGER,
    status         INTEGER,
    outcome        VARCHAR,
    elapsed_s      DOUBLE
);

-- The links of a page, one row per page: target, rel and anchor behind tabs, a line each.
CREATE TABLE amble.link_lines (
    seq      BIGINT NOT NULL,
    job_id   BIGINT,
    from_url VARCHAR NOT NULL,
    links    INTEGER NOT NULL,
    lines    VARCHAR NOT NULL
);

CREATE VIEW amble.links AS
SELECT
    job_id, from_url, split_part(line, chr(9), 1) AS to_url, nullif(split_part(line, chr(9), 2), '') AS rel,
    nullif(split_part(line, chr(9), 3), '') AS anchor
FROM (SELECT job_id, from_url, unnest(string_split(lines, chr(10))) AS line FROM amble.link_lines);

-- One row per transaction, so that after a fault it can be told whether the last one got through.
CREATE TABLE amble.commits (
    commit_no    BIGINT NOT NULL,
    committed_at TIMESTAMP,
    pages        INTEGER
);

-- Rows that could not be stored at all, not even without their text.
CREATE TABLE amble.rejected (
    table_name  VARCHAR,
    job_id      BIGINT,
    row_text    VARCHAR,
    reason      VARCHAR,
    rejected_at TIMESTAMP
);
