"""Alerts that prove themselves: every active profile is watched by detectors."""
