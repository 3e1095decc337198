"""Records for traces that nobody made a record for, where a profile reads nothing but spans."""

from collections.abc import Iterable, Sequence

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.trace import TraceAssertionTask
from scouter.model.attributes import CONVERSATION_ID, ENTITY_PREFIX
from scouter.model.record import EvalRecord
from scouter.model.span import Span


def records_of_traces(
    profile: AgentEvalProfile, spans: Iterable[Span], records: Sequence[EvalRecord]
) -> list[EvalRecord]:
    """Make a record for each trace that a profile is to judge and that has none.

    A profile is to judge a trace if one of its spans is marked with the profile, by
    `active_profile`, `set_entity` or `ScouterInstrumentor().instrument(eval_profiles=)`. Records
    are made only for a profile all of whose tasks are trace assertions: every other task would
    look for a context that is not there.

    Args:
        profile: The profile.
        spans: The spans of one attempt.
        records: The records that the attempt made for the profile.

    Returns:
        Records with an empty context, by the start of their traces. Their session is the
        conversation that the first span names, if one does.
    """
    if not all(isinstance(task, TraceAssertionTask) for task in profile.tasks):
        return []
    has_record = {record.trace_id for record in records}
    mark, starts, sessions = ENTITY_PREFIX + profile.uid, dict[str, int](), dict[str, str]()
    for span in spans:
        if isinstance(session := span.attributes.get(CONVERSATION_ID), str):
            sessions.setdefault(span.trace_id, session)
        if span.trace_id not in has_record and span.attributes.get(mark) == profile.uid:
            starts[span.trace_id] = min(span.start_ns, starts.get(span.trace_id, span.start_ns))
    return [
        EvalRecord(trace_id=trace_id, session_id=sessions.get(trace_id), created_ns=start_ns)
        for trace_id, start_ns in sorted(starts.items(), key=lambda item: (item[1], item[0]))
    ]
