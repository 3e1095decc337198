"""Paths into values: dotted paths, JSONPath, and templates that hold them."""
