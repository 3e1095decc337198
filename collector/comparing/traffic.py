"""Traffic or behaviour: what the difference of two live sides comes from."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from collector.comparing.live import passed_of
from collector.comparing.side import Side
from collector.store.store import Store
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.statistics.explained import Explained, explain_results, length_trait
from scouter.evaluate.statistics.likeness import conversations_of
from scouter.evaluate.statistics.strata import Result

_NONE: Final = frozenset[str]()


def explain(store: Store, space: str, sides: tuple[Side, Side]) -> Explained | None:
    """Split the change of the rate of records into traffic, route and behaviour.

    Args:
        store: Has the spans, which name tools, models and setups.
        space: Whose.
        sides: Live sides, of which nothing is compared in pairs.

    Returns:
        None where the sides have too few conversations, or no traffic in common.

    Cost: the names in the spans of all records, and that of the split.
    """
    traces = {each.trace_id for side in sides for each in side.results.records if each.trace_id}
    names = {
        trace_id: frozenset([f"{kind} {name}" for kind, name in some])
        for trace_id, some in store.trace_names(space, traces).items()
    }
    before, after = (_results(side, names) for side in sides)
    return explain_results(before, after, is_open=any(side.is_open for side in sides))


def _results(side: Side, names: Mapping[str, frozenset[str]]) -> list[Result]:
    """The records that count, in the order of time, with their traits."""
    records = sorted(side.results.records, key=lambda each: each.created_ns)
    lengths = Counter(each.session_id for each in records if each.session_id)
    known = [(each, passed) for each in records if (passed := passed_of(each)) is not None]
    numbers = conversations_of([(each.session_id, passed) for each, passed in known])
    return [
        Result(
            number, passed, names.get(each.trace_id or "", _NONE).union(_own(each, side, lengths))
        )
        for number, (each, passed) in zip(numbers, known, strict=True)
    ]


def _own(record: RecordResult, side: Side, lengths: Mapping[str, int]) -> Iterator[str]:
    """Traits that no span tells."""
    for key, value in side.tags.get(record.record_uid, {}).items():
        yield f"tag {key}={value}"
    if record.record_id != record.record_uid:
        yield f"record {record.record_id}"
    if length := lengths.get(record.session_id):
        yield length_trait(length)
