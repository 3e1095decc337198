"""Fuzz tests: valid inputs, changed a little."""
