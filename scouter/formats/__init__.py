"""Files of other evaluation systems: read, and written."""
