"""Alerts of the detectors, told to people: one module for each channel, one thread for each."""
