"""Records for traces that nobody made a record for."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.spans.derived import derive_record
from scouter.model.attributes import ENTITY_PREFIX
from scouter.model.record import EvalRecord
from scouter.model.span import Span


def records_of_traces(
    profile: AgentEvalProfile, spans: Iterable[Span], records: Sequence[EvalRecord]
) -> list[EvalRecord]:
    """Make a record for each trace that a profile is to judge and that has none.

    A profile is to judge a trace if one of its spans is marked with the profile, by
    `active_profile`, `set_entity` or `ScouterInstrumentor().instrument(eval_profiles=)`. Records
    are made only for a profile that takes marks (`AgentEvalProfile.takes_marks`), as in a
    collector.

    Args:
        profile: The profile.
        spans: The spans of one attempt.
        records: The records that the attempt made for the profile.

    Returns:
        Records that are derived from their traces, by the start of these.
    """
    if not profile.takes_marks:
        return []
    has_record = {record.trace_id for record in records}
    mark, marked = ENTITY_PREFIX + profile.uid, set[str]()
    by_trace: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        by_trace[span.trace_id].append(span)
        if span.trace_id not in has_record and span.attributes.get(mark) == profile.uid:
            marked.add(span.trace_id)
    found = [derive_record(by_trace[trace_id], profile=profile.alias) for trace_id in marked]
    return sorted(found, key=lambda record: (record.created_ns, record.trace_id or ""))
