"""The lists of what is left to do, on both databases."""

from tests.contracts.store_waiting import WaitingContract


class TestWaiting(WaitingContract):
    """What a start reads."""
