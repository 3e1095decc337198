"""Spans and records of agents in the collector's own process."""

from collector.receivers.intake import Intake
from scouter.errors import TransientError
from scouter.transport.guard import GUARD
from scouter.transport.in_process import Batch, Sink


def in_process_sink(way: Intake) -> Sink:
    """Make the sink for `InProcessConfig`; it returns once a batch is durable.

    Args:
        way: The way in.
    """

    def take(batch: Batch) -> int:
        if way.is_full:
            raise TransientError("the collector is behind", retry_after_s=1)
        taken = way.batch(batch)
        for future in taken.futures:
            future.result()
        if batch.drops:  # last: what is refused comes again, with the same counts
            way.take_dropped(batch.drops).result()
        problems = taken.outcome.problems
        said = f"record {problems[0].index}: {problems[0].message}" if problems else ""
        return GUARD.rejected("records", len(problems), said)

    return take
