"""The limiter inside the HTTP clients people already use; one file for each."""
