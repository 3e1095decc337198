"""Files and data of other systems, read and written."""
