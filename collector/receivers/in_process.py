"""Spans and records of agents in the collector's own process."""

from concurrent.futures import Future
from typing import Any, Final

from collector.receivers.ingest import Ingest
from scouter.errors import TransientError
from scouter.transport.guard import GUARD
from scouter.transport.in_process.transport import Batch, Sink

_SPAN_BYTES: Final = 2000
"""A guess at a span's size: nothing was written that could be measured."""


def in_process_sink(ingest: Ingest) -> Sink:
    """Make the sink for `InProcessConfig`; it returns once a batch is durable.

    Args:
        ingest: The way in.
    """

    def take(batch: Batch) -> int:
        if ingest.is_full:
            raise TransientError("the collector is behind", retry_after_s=1)
        size = _SPAN_BYTES * (len(batch.spans) + len(batch.records))
        records = ingest.take_records(batch.records, "in_process", size)
        futures: list[Future[Any]] = list(records.futures)
        if batch.spans:
            futures.append(ingest.take_spans(batch.spans, size))
        for future in futures:
            future.result()
        if batch.drops:  # last: what is refused comes again, with the same counts
            ingest.take_dropped(batch.drops).result()
        problems = records.outcome().problems
        said = f"record {problems[0].index}: {problems[0].message}" if problems else ""
        return GUARD.rejected("records", len(problems), said)

    return take
