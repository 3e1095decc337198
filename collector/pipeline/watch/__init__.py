"""Traces that profiles watch without records."""
