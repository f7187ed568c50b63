"""amble beside other crawlers on the same farm, in one run.

__main__.py   the command: installs the peers into an environment of their own, runs, writes tables and plots
contest.py    one peer on one web: its process measured, its manners judged by the sites' own log
crawlers.py   who takes part, and how a careful user would start each
report.py     tables in Markdown, and plots
clients/      the scripts that run in the peers' environment
"""
