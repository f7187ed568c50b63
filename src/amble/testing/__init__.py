"""What tests and demonstrations stand on: servers, clocks and whole crawls that never leave this machine."""
