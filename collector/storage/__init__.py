"""The storage port and the store that needs nothing else to run."""
