"""The log in front of the store: what was accepted waits here, on the disk, until it is stored."""
