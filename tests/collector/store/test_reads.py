"""The reads on DuckDB and PostgreSQL: the same rows, and those of a brute force in Python."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from collector.store.commit import RecordId
from collector.store.letters import LetterKind
from collector.store.rows import RecordState
from collector.store.span_rows import TracePlace
from collector.store.work import RecentTrace
from scouter.evaluate.outcome import Outcome
from scouter.model.span import Resource, Span
from tests.contracts.store_data import evaluation, letter, record
from tests.support.store_commits import Engine, Sent, rank

_spaces = itertools.count(1)
TRACES = [f"{number:032x}" for number in (1, 2**127 + 2, 2**64 + 1)]
"""Of the first and the last the lower halves are the same."""


def new_space() -> str:
    return f"space {next(_spaces)}"


def span(trace: int = 0, number: int = 1, end_ns: int = 20, name: str = "step") -> Span:
    return Span(
        trace_id=TRACES[trace],
        span_id=f"{number:016x}",
        parent_span_id=None if number == 1 else f"{1:016x}",
        name=name,
        start_ns=10,
        end_ns=end_ns,
        resource=Resource(attributes={"service.name": "desk"}),
    )


def by_id(spans: Sequence[Span]) -> list[Span]:
    return sorted(spans, key=lambda each: each.span_id)


def recent_of(engine: Engine, space: str, low_seq: int) -> dict[str, RecentTrace]:
    """The traces of a space with spans from a commit on."""
    recent = engine.traces_since(low_seq)
    return {trace_id: each for (of, trace_id), each in recent.items() if of == space}


spans = st.builds(
    span,
    trace=st.integers(0, 2),
    number=st.integers(1, 3),
    end_ns=st.integers(11, 13),
    name=st.sampled_from(["a", "bb"]),
)


@given(commits=st.lists(st.lists(spans, max_size=6), min_size=1, max_size=5))
def test_spans_are_those_of_a_brute_force(engine: Engine, commits: list[list[Span]]) -> None:
    """Any sequence of commits, with duplicates and better spans, in any order."""
    sent = Sent(space=new_space())
    first = engine.last_seq() + 1
    for each in commits:
        sent.append(engine, each)
    last = engine.last_seq()

    for trace_id in TRACES:
        expected = by_id(sent.trace(trace_id))
        assert by_id(engine.trace(sent.space, trace_id, 9).spans) == expected
    places = [TracePlace(trace_id, first, last) for trace_id in TRACES]
    found = engine.spans_at(sent.space, places).found
    assert {trace_id: by_id(each) for trace_id, each in found.items()} == {
        trace_id: by_id(sent.trace(trace_id)) for trace_id in TRACES if sent.trace(trace_id)
    }
    assert engine.stored_spans(sent.space, TRACES) == {
        trace_id: {each.span_id: rank(each) for each in sent.trace(trace_id)}
        for trace_id in TRACES
        if sent.trace(trace_id)
    }
    last_seqs: dict[str, int] = {}
    for (trace_id, _), (seq, _) in sent.stored.items():
        last_seqs[trace_id] = max(seq, last_seqs.get(trace_id, 0))
    recent = recent_of(engine, sent.space, first)
    assert {trace_id: each.last_seq for trace_id, each in recent.items()} == last_seqs
    sheet = engine.conservation(sent.space).spans
    assert (sheet.stored, sheet.accepted) == (len(sent.stored), len(sent.stored))


def test_a_record_has_its_state_and_all_revisions(engine: Engine) -> None:
    sent = Sent(space=new_space())
    names = ("waiting", "evaluated", "skipped", "dead")
    rows = [record(uid, space=sent.space, context={"é": [1, None]}) for uid in names]
    first = sent.append(engine, records=rows)
    passed = evaluation("evaluated", space=sent.space, evaluation_id=f"{sent.space}1")
    failed = replace(
        passed, outcome=Outcome.FAILED, revision=2, was_decided=True, evaluation_id=f"{sent.space}2"
    )
    skipped = evaluation(
        "skipped", Outcome.SKIPPED, space=sent.space, evaluation_id=f"{sent.space}3"
    )
    dead = letter(space=sent.space, uid="dead", was_accepted=True, reason="unknown_profile")
    sent.append(engine, evaluations=[passed, skipped], letters=[dead])
    sent.append(engine, evaluations=[failed])

    states = {name: engine.record_history(sent.space, name) for name in names}
    assert {name: found and found.state for name, found in states.items()} == {
        "waiting": RecordState.WAITING,
        "evaluated": RecordState.EVALUATED,
        "skipped": RecordState.SKIPPED,
        "dead": RecordState.DEAD_LETTERED,
    }
    found = states["evaluated"]
    assert found is not None
    assert (found.record, found.record.seq) == (rows[1], first)
    assert found.evaluations == (failed, passed)
    assert engine.record_history(sent.space, "nobody's") is None
    sheet = engine.conservation(sent.space).records
    assert (sheet.accepted, sheet.waiting, sheet.evaluated, sheet.skipped, sheet.dead_lettered) == (
        4, 1, 1, 1, 1,
    )  # fmt: skip


def test_the_worker_finds_what_waits_and_what_it_has(engine: Engine) -> None:
    sent = Sent(space=new_space())
    old = record("old", space=sent.space)
    sent.append(engine, records=[old])
    waiting = [record(uid, space=sent.space, trace_id=TRACES[0]) for uid in ("b", "a")]
    low = sent.append(engine, [span()], records=[*waiting, record("done", space=sent.space)])
    sent.append(engine, evaluations=[evaluation("done", space=sent.space)])
    sent.append(engine, started=[RecordId(sent.space, "a")])
    sent.append(engine, started=[RecordId(sent.space, "a")])

    found = [each for each in engine.undecided(low) if each.space == sent.space]
    assert [(each.uid, each.seq) for each in found] == [("a", low), ("b", low)]
    assert {key: n for key, n in engine.started(low).items() if key.space == sent.space} == {
        RecordId(sent.space, "a"): 2
    }
    whole = engine.records_at(sent.space, [(low, "b"), (low, "a"), (low, "nobody's")])
    assert whole == {"a": waiting[1], "b": waiting[0]}
    assert engine.stored_records(sent.space, ["old", "nobody's"]) == {"old": old.digest}
    assert engine.stored_records("another space", ["old"]) == {}


def test_traces_are_recent_from_a_commit_on_and_late_behind_an_evaluation(engine: Engine) -> None:
    sent = Sent(space=new_space())
    low = sent.append(engine, [span(0), span(1)])
    seen = evaluation("u", space=sent.space, trace_id=TRACES[0], input_seq=low, reads_spans=True)
    sent.append(engine, evaluations=[seen])
    first, second = TRACES[:2]
    assert recent_of(engine, sent.space, low) == {first: (1, low), second: (1, low)}
    assert engine.conservation(sent.space).spans.late == 0

    late = sent.append(engine, [span(0, 2)])
    assert recent_of(engine, sent.space, low) == {first: (2, late), second: (1, low)}
    assert recent_of(engine, sent.space, late) == {first: (1, late)}
    assert recent_of(engine, "another space", low) == {}
    assert engine.conservation(sent.space).spans.late == 1
    assert [row.evaluation_id for row in engine.trace(sent.space, TRACES[0], 9).evaluations] == [
        seen.evaluation_id
    ]


def test_letters_are_counted_by_reason(engine: Engine) -> None:
    sent = Sent(space=new_space())
    refused = letter(space=sent.space, kind=LetterKind.SPAN, reason="invalid_span")
    others = [letter(space=sent.space), letter(space=sent.space, uid="x")]
    sent.append(engine, letters=[refused, *others, refused])
    sent.append(engine, letters=[refused])  # the same from the same place is one letter

    sheet = engine.conservation(sent.space)
    assert sheet.dead_letters == {"invalid_span": 1, "invalid_record": 2}
    assert sheet.spans.dead_lettered == 1
