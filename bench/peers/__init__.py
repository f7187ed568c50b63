"""amble beside other crawlers on the same farm, in one run.

__main__.py   the command: installs the peers into a home of their own, runs, writes tables and plots
contest.py    one peer on one web: its process measured, its manners judged by the sites' own log
crawlers.py   who takes part, and how a careful user would start each
install.py    where the peers come from
nameserver.py names for programs that ask the system
report.py     tables in Markdown, and the headline
plot.py       bars in SVG
clients/      the scripts that run in the peers' home
"""
