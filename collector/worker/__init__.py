"""The worker: reads the log in order, joins, judges, and commits rows, results and the offset."""
