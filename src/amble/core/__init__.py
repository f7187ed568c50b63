"""PURE: no await, no clock, no network, no SQL, no logging. Every function here is told what it needs to know."""
