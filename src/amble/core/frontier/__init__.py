"""What to visit next, and what becomes of each visit. Pure."""
