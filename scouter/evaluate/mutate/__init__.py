"""Faults put into good traces, to learn which of them a profile sees."""
