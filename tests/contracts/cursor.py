"""Duties of every cursor of sent results. A new one adds one small subclass."""

from collections.abc import Callable

import pytest

from collector.results.sender import Cursor
from collector.store.rows import FIRST_RESULT, ResultPlace

Make = Callable[[str], Cursor]
"""Opens the cursor of an endpoint, as a process does at its start."""


class CursorContract:
    """The tests; a subclass gives the fixture `make`."""

    @pytest.fixture
    def make(self) -> Make:
        """Opens cursors."""
        raise NotImplementedError

    def test_it_begins_with_the_first_result(self, make: Make) -> None:
        assert make("http://a").read() == FIRST_RESULT

    def test_the_next_process_goes_on_at_the_place(self, make: Make) -> None:
        cursor = make("http://a")
        for place in (ResultPlace(7, 3), ResultPlace(2**62, 0), ResultPlace(8, 1)):
            cursor.write(place)
            assert make("http://a").read() == cursor.read() == place

    def test_another_endpoint_begins_with_the_first_result(self, make: Make) -> None:
        make("http://a").write(ResultPlace(7, 3))
        assert make("http://b").read() == FIRST_RESULT
