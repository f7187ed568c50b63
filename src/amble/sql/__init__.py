"""CRAWL in SQL: tokens to statements, the connection that understands them, and the functions it adds to DuckDB."""
