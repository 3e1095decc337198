"""The memory of requests, while they wait for the pipeline."""

from typing import Any

import pytest

from collector.pipeline.join.input_clock import Via
from tests.collector.conftest import Start
from tests.contracts.store_data import span
from tests.support.processes import wait_until


def test_bytes_count_until_the_pipeline_has_taken_them(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody looks just before the spans are in the pipeline's inbox; nobody empties that."""
    service = start()
    pipeline, ingest = service.collector.pipeline, service.collector.ingest
    pipeline.stop()
    appended, looked = pipeline.spans_appended, list[int]()

    def watched(done: Any, via: Via) -> None:
        looked.append(ingest.budget.used)
        appended(done, via)

    monkeypatch.setattr(pipeline, "spans_appended", watched)
    ingest.take_spans([span(1)], 1000).result()
    wait_until(lambda: ingest.budget.used == 1000, what="the bytes of what waits")
    assert looked == [0]
