"""robots.txt: bytes to groups, groups to rules, answers to policies, policies to a book of origins. Pure."""
