"""Alerts of the detectors, sent to people: one module for each channel, one thread for each."""
