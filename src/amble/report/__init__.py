"""Questions answered from the store."""
