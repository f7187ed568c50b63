"""Crawls over a network that is like the internet: latency, loss, names in trouble, black holes, TLS with HTTP/2.

Built from network namespaces on one machine (root on Linux), with no route out. One scenario, small, from a checkout:

    python -m bench.network good --hosts 300
    python -m bench.network dead20 --hosts 300 --against 316e376   # the other commit in turn
    python -m bench.network --list

hosts.py        what kinds of hosts there are, their names and addresses
namespaces.py   the network: namespaces, the link between them, the server of names, the servers of pages
link.py         a process: the link, with delay, loss, and addresses that swallow what is sent there
names.py        a process: the server of names, with kinds of trouble by name
origin.py       a process: servers of pages, good ones and faulty ones
nginx.py        TLS 1.3 with HTTP/2 for the good ones
crawlers.py     who crawls: amble here, amble at another commit, Scrapy, a script with aiohttp
trial.py        one crawl, judged by what the servers logged and by the rows it left
scenarios.py    the webs that are crawled
report.py       tables
"""
