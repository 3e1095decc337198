"""Records for traces that nobody made a record for."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import is_wanted
from scouter.evaluate.spans.derived import derive_record
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.attributes import ENTITY_PREFIX
from scouter.model.record import EvalRecord
from scouter.model.span import Span


def records_of_traces(
    profile: AgentEvalProfile, spans: Iterable[Span], records: Sequence[EvalRecord]
) -> list[EvalRecord]:
    """Make a record for each trace that a profile is to judge and that has none, as a collector.

    A profile is to judge a trace if one of its spans is marked with the profile, by
    `active_profile`, `set_entity` or `ScouterInstrumentor().instrument(eval_profiles=)`, and the
    profile takes marks (`AgentEvalProfile.takes_marks`). It is to judge a trace as well of which a
    span matches its `watch`. See `is_wanted` for traces without an agent. The shares of a watch are
    for traffic: here each trace counts.

    Args:
        profile: The profile.
        spans: The spans of one attempt.
        records: The records that the attempt made for the profile.

    Returns:
        Records that are derived from their traces, by the start of these.

    Cost: linear in the spans.
    """
    if not profile.takes_marks:
        return []
    has_record = {record.trace_id for record in records}
    by_trace: defaultdict[str, list[Span]] = defaultdict(list)
    for span in spans:
        if span.trace_id not in has_record:
            by_trace[span.trace_id].append(span)
    mark = ENTITY_PREFIX + profile.uid
    matches = profile.watch and profile.watch.match.test

    def is_selected(span: Span) -> bool:
        is_marked = span.attributes.get(mark) == profile.uid
        return is_marked or (matches is not None and matches(span))

    selected = [SpanTree(each) for each in by_trace.values() if any(map(is_selected, each))]
    found = [
        derive_record(tree, profile=profile.alias)
        for tree in selected
        if is_wanted(profile.watch, tree)
    ]
    return sorted(found, key=lambda record: (record.created_ns, record.trace_id or ""))
