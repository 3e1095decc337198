"""The spool: on disk, what the far side cannot take now."""
