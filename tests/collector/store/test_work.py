"""Evaluations as they are appended, and what they count, on both databases."""

from tests.contracts.store_work import WorkContract


class TestWork(WorkContract):
    """What the worker decided."""
