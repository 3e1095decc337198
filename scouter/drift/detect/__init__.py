"""Detectors that watch a stream of outcomes, with a stated chance of ever alarming for nothing."""
