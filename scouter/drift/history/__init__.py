"""Stored history, replayed: when the detectors would have fired, and how soon they see a fall."""
