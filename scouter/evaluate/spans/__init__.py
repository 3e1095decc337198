"""The spans of a trace: tree, filters, measures."""
