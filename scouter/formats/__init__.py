"""Files and data of other evaluation systems: read, and written."""
