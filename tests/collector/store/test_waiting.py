"""The lists of what is left to do, on both databases and on a share of a fleet."""

import pytest

from tests.contracts.store_opened import Open
from tests.contracts.store_waiting import WaitingContract


@pytest.fixture
def open_store(open_for_work: Open) -> Open:
    """Also a share."""
    return open_for_work


class TestWaiting(WaitingContract):
    """What a start reads."""
