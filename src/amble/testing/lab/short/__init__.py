"""Short crawls of sites as a crawl meets them: pages found by links, a hidden limit of any kind, half a minute long.

    python -m amble.testing.lab --group short-buckets

`draws` makes the hosts, `crawl` plays one with a pace, `score` judges it against a client that knows everything,
`groups` has the targets and folds the scores into lines, `table` prints them.
"""
