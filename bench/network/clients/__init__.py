"""Crawls as a careful user of each library would write them. They run in the peers' own environment."""
