"""Evaluation of joined records and sessions, and the commit of the results."""
