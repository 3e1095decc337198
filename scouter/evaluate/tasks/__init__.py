"""Kinds of tasks, as people write them."""
