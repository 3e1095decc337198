"""Rules of completeness, for one trace in its own time."""

from collector.pipeline.join.joined_trace import JoinedTrace, Waiting
from collector.store.rows import Completeness
from collector.worker.times import JoinTimes


def next_look(trace: JoinedTrace, times: JoinTimes) -> float | None:
    """Say when the trace is to be looked at, if nothing comes before; None if it has to be loaded.

    Never after anything about it can be decided.
    """
    if trace.waiting and not trace.is_loaded:
        return None
    at = trace.last_arrival + times.quiet_s
    if trace.waiting:
        expires = trace.waiting[0].arrived + times.deadline_s
        at = expires if trace.facts.has_gaps else min(at, expires)
        if trace.facts.is_complete:
            at = min(at, trace.last_span + _settle_s(trace, times))
    return at


def is_quiet(trace: JoinedTrace, times: JoinTimes, now: float) -> bool:
    """Say whether nothing has come for the trace for so long that nothing more is expected."""
    return now >= trace.last_arrival + times.quiet_s


def take_decided(
    trace: JoinedTrace, times: JoinTimes, now: float
) -> tuple[list[Waiting], Completeness]:
    """Take out the records that wait no longer, and say why they do not.

    Where spans are known to be missing, silence says nothing: only the deadline ends the wait.
    """
    if not trace.is_loaded:  # an appointment made before the record came
        return [], Completeness.COMPLETE
    facts, waiting = trace.facts, trace.waiting
    is_settled = facts.is_complete and now >= trace.last_span + _settle_s(trace, times)
    if is_settled or (is_quiet(trace, times, now) and not facts.has_gaps):
        trace.waiting = []
        return waiting, Completeness.COMPLETE if facts.is_complete else Completeness.QUIET
    expired = [each for each in waiting if each.arrived + times.deadline_s <= now]
    trace.waiting = [each for each in waiting if each.arrived + times.deadline_s > now]
    return expired, Completeness.DEADLINE


def _settle_s(trace: JoinedTrace, times: JoinTimes) -> float:
    return times.foreign_settle_s if trace.facts.is_foreign else times.settle_s
