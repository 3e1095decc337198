"""Records and spans handed to a function."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from scouter.errors import DataError, TransientError
from scouter.model.span import Span
from scouter.transport.config import InProcessConfig
from scouter.transport.drops import dropped_text
from scouter.transport.in_process import Batch
from tests.contracts.transport import TransportContract
from tests.contracts.transport_data import make_items, make_spans


class TestContract(TransportContract):
    """The whole contract, without a wire."""

    @pytest.fixture(autouse=True)
    def running(self) -> None:
        self.batches: list[Batch] = []
        self.is_away = False

    def take(self, batch: Batch) -> None:
        if self.is_away:
            raise TransientError("not now")
        self.batches.append(batch)

    def config(self) -> InProcessConfig:
        return InProcessConfig(sink=self.take)

    @contextmanager
    def away(self) -> Generator[None]:
        self.is_away = True
        yield
        self.is_away = False

    def received_drops(self) -> list[str]:
        return [dropped_text(batch.drops) for batch in self.batches if batch.drops]

    def received_records(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [each for batch in self.batches for each in batch.records]
        assert len(found) >= count
        return found

    def received_spans(self, count: int) -> list[Span]:
        found = [each for batch in self.batches for each in batch.spans]
        assert len(found) >= count
        return found


def test_a_sink_may_refuse_some() -> None:
    transport = InProcessConfig(sink=lambda batch: len(batch.records)).connect()

    assert transport.send_records(make_items(3)) == 3
    assert transport.send_spans(make_spans(3)) == 0


def test_a_sink_that_fails_is_named() -> None:
    def take(batch: Batch) -> int:
        raise KeyError(f"no place for {len(batch.spans)}")

    transport = InProcessConfig(sink=take).connect()
    with pytest.raises(DataError, match="sink raised KeyError: 'no place for 2'"):
        transport.send_spans(make_spans(2))
