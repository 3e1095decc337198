"""Traces that a profile watches are judged without any record."""

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from collector.storage.erase_rows import EraseTarget
from collector.storage.rows import watched_uid
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.watch import Watch, WatchMatch
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.derived import derive_record
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.span import Resource, Span
from tests.collector.pipeline.process_support import Process
from tests.contracts.store_data import SPACE, TRACE, record, span

ANSWERED = AssertionTask("answered", "answer", "four days", Op.Equals)
STEPS = TraceAssertionTask(
    "two_steps", TraceAssertion.span_count(SpanFilter.by_name("step")), 2, Op.Equals
)
SHOP = Resource(attributes={"service.name": "shop"})
PROFILE = AgentEvalProfile(
    [ANSWERED, STEPS], alias="shop", watch=Watch(match=WatchMatch(service="shop"))
)
UID = watched_uid(TRACE, "shop")


def trace(
    trace_id: str = TRACE, answer: str = "four days", conversation: str = ""
) -> tuple[Span, ...]:
    """A root, two steps and a call of a model, as any OpenTelemetry SDK writes them."""
    said = f'[{{"role": "assistant", "parts": [{{"type": "text", "content": "{answer}"}}]}}]'
    asked = '[{"role": "user", "parts": [{"type": "text", "content": "When?"}]}]'
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": asked,
        "gen_ai.output.messages": said,
    }
    root = {"gen_ai.conversation.id": conversation} if conversation else {}
    return (
        span(1, trace_id=trace_id, name="agent", parent_span_id=None, attributes=root,
             resource=SHOP),
        *(span(at, trace_id=trace_id, name="step", parent_span_id=f"{1:016x}", resource=SHOP)
          for at in (2, 3)),
        span(4, trace_id=trace_id, name="chat", parent_span_id=f"{1:016x}", attributes=chat,
             resource=SHOP),
    )  # fmt: skip


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    found = Process(tmp_path, PROFILE)
    yield found
    found.last.store.close()


def outcomes(process: Process, uid: str = UID) -> dict[str, str]:
    return {task.task_id: task.outcome.value for task in process.verdicts()[uid].tasks}


def test_a_watched_trace_is_judged_once_it_is_complete(process: Process) -> None:
    process.spans(*trace())
    process.after(5)
    assert process.verdicts() == {}
    assert process.store.conservation(SPACE).records.accepted == 0
    process.after(5)
    verdict = process.verdicts()[UID]
    assert outcomes(process) == {"answered": "passed", "two_steps": "passed"}
    assert (verdict.trace_id, verdict.completeness, verdict.service_name) == (
        TRACE, "complete", "shop",
    )  # fmt: skip
    (row,) = process.store.records_of(SPACE, [UID])
    assert row.context == {"question": "When?", "answer": "four days"}
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.derived, sheet.evaluated, sheet.duplicates) == (1, 1, 1, 0)


def test_other_traces_cost_nothing(process: Process) -> None:
    process.spans(span(1, name="agent", parent_span_id=None))
    process.after(400)
    assert process.verdicts() == {}
    assert process.store.conservation(SPACE).records.accepted == 0


def test_spans_that_come_later_give_another_answer(process: Process) -> None:
    """The whole record is derived anew: a task that reads its context changes, too."""
    *first, chat = trace()
    process.spans(*first)
    process.after(20)
    assert outcomes(process) == {"answered": "errored", "two_steps": "passed"}
    process.spans(chat)
    process.after(20)
    verdict = process.verdicts()[UID]
    assert verdict.revision == 2
    assert outcomes(process) == {"answered": "passed", "two_steps": "passed"}
    (row,) = process.store.records_of(SPACE, [UID])
    assert row.context == {"question": "When?", "answer": "four days"}
    sheet = process.store.conservation(SPACE)
    assert (sheet.records.accepted, sheet.records.evaluated, sheet.spans.late) == (1, 1, 0)


@pytest.mark.parametrize("first", ["record", "spans"])
def test_a_senders_record_is_judged_in_place_of_a_derived_one(process: Process, first: str) -> None:
    sent = record("sent", profile_uid=process.profile_uid, trace_id=TRACE, alias="shop")
    if first == "record":
        process.records(sent)
        process.spans(*trace())
    else:
        process.spans(*trace())
        process.records(sent)
    process.after(20)
    assert set(process.verdicts()) == {"sent"}
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.derived, sheet.superseded) == (1, 0, 0)


def test_a_senders_record_that_comes_behind_the_verdict_takes_its_place(process: Process) -> None:
    process.spans(*trace())
    process.after(20)
    assert set(process.verdicts()) == {UID}
    process.records(record("sent", profile_uid=process.profile_uid, trace_id=TRACE, alias="shop"))
    process.after(20)
    assert set(process.verdicts()) == {"sent"}
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.derived, sheet.superseded, sheet.erased) == (2, 1, 1, 1)
    assert sheet.evaluated == 1
    assert len(process.store.spans_of(SPACE, [TRACE])[TRACE]) == 4


def test_a_superseded_record_is_found_by_the_next_process(process: Process) -> None:
    """The process ends between the commit of the sender's record and the erasure."""
    process.spans(*trace())
    process.after(20)
    sent = record("sent", profile_uid=process.profile_uid, trace_id=TRACE, alias="shop")
    process.store.append_records([sent]).result()
    again = process.restarted()
    again.after(20)
    assert set(again.verdicts()) == {"sent"}
    assert again.store.conservation(SPACE).records.superseded == 1


@pytest.mark.parametrize("waited_s", [0.0, 3.0])
def test_a_trace_that_waits_is_derived_by_the_next_process(
    process: Process, waited_s: float
) -> None:
    process.spans(*trace(f"{7:032x}"))
    process.after(20)  # from now on the store knows that somebody watches
    process.spans(*trace())
    process.after(waited_s)
    again = process.restarted()
    again.after(20)
    assert set(again.verdicts()) == {UID, watched_uid(f"{7:032x}", "shop")}
    last = again.restarted()
    last.after(40)
    sheet = last.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.derived, sheet.evaluated) == (2, 2, 2)


def test_spans_that_were_committed_and_not_looked_at_are_found(process: Process) -> None:
    """The process ends between the commit of the spans and the thread that watches."""
    process.after(2)
    process.store.append_spans(SPACE, trace(), process.now_ns()).result()
    again = process.restarted()
    again.after(20)
    assert set(again.verdicts()) == {UID}


def test_more_traces_than_memory_has_room_for_wait_in_the_store(tmp_path: Path) -> None:
    process = Process(tmp_path, PROFILE, memory_records=8)
    ids = [f"{number:032x}" for number in range(1, 31)]
    for trace_id in ids:
        process.spans(*trace(trace_id))
    assert process.join.watched == 4
    process.after(60)
    found = process.verdicts()
    assert set(found) == {watched_uid(trace_id, "shop") for trace_id in ids}
    assert {row.outcome.value for row in found.values()} == {"passed"}
    contexts = process.store.records_of(SPACE, list(found))
    assert {str(row.context) for row in contexts} == {
        "{'question': 'When?', 'answer': 'four days'}"
    }
    process.store.close()


def test_any_order_and_repetition_gives_the_same_records(tmp_path: Path) -> None:
    chance = random.Random(5)
    ids = [f"{number:032x}" for number in range(1, 6)]
    expected: dict[str, tuple[object, ...]] = {}
    for round_ in range(6):
        process = Process(tmp_path / str(round_), PROFILE)
        batches = list(itertools.chain.from_iterable(trace(each) for each in ids))
        batches += chance.sample(batches, 8)
        chance.shuffle(batches)
        while batches:
            size = chance.randint(1, 5)
            process.spans(*batches[:size])
            del batches[:size]
            process.after(chance.choice([0.0, 0.2]))
        process.after(60)
        process.spans(*trace(chance.choice(ids)))  # all of it once more
        process.after(60)
        rows = process.store.records_of(SPACE, [watched_uid(each, "shop") for each in ids])
        found = {
            row.uid: (row.context, row.session_id, row.created_ns, dict(row.tags)) for row in rows
        }
        assert len(found) == 5
        expected = expected or found
        assert found == expected
        assert process.store.conservation(SPACE).records.accepted == 5
        process.store.close()


def test_live_and_offline_say_the_same(process: Process) -> None:
    traces = [
        trace(f"{1:032x}"),
        trace(f"{2:032x}", answer="never"),
        trace(f"{3:032x}")[:2],
        trace(f"{4:032x}", conversation="anna"),
    ]
    for each in traces:
        process.spans(*each)
    process.after(400)
    records = [derive_record(each) for each in traces]
    every = tuple(itertools.chain.from_iterable(traces))
    results = EvalDataset(records, PROFILE.tasks, every).evaluate()
    for each, spans in zip(results.records, traces, strict=True):
        uid = watched_uid(spans[0].trace_id, "shop")
        live = process.verdicts()[uid]
        assert [(t.task_id, t.outcome, t.actual) for t in each.tasks] == [
            (t.task_id, t.outcome, t.actual) for t in live.tasks
        ]
    assert process.verdicts()[watched_uid(f"{4:032x}", "shop")].session_id == "anna"
    assert results.records[3].session_id == "anna"


def test_erasing_a_trace_erases_what_was_derived_of_it(process: Process) -> None:
    process.spans(*trace())
    process.after(20)
    process.work.erase(EraseTarget(space=SPACE, trace_id=TRACE))
    process.after(1)
    assert process.verdicts() == {}
    process.spans(*trace())  # sent again, it is a duplicate
    process.after(60)
    sheet = process.store.conservation(SPACE).records
    assert (sheet.accepted, sheet.erased, sheet.evaluated) == (1, 1, 0)


def test_erasing_a_trace_that_waits_leaves_nothing_to_derive(process: Process) -> None:
    process.spans(*trace())
    process.work.erase(EraseTarget(space=SPACE, trace_id=TRACE))
    process.after(60)
    assert process.verdicts() == {}
    assert process.store.conservation(SPACE).records.accepted == 0
    assert process.join.watched == 0


def ids_of(count: int) -> Sequence[str]:
    chance = random.Random(11)
    return [f"{chance.getrandbits(128):032x}" for _ in range(count)]


def test_only_the_sampled_traces_are_judged(tmp_path: Path) -> None:
    watch = Watch(match=WatchMatch(service="shop"), sample=0.3)
    process = Process(tmp_path, AgentEvalProfile([STEPS], alias="shop", watch=watch))
    ids = ids_of(60)
    for trace_id in ids:
        process.spans(*trace(trace_id))
    process.after(60)
    # By hand: the last 56 bits, as a fraction of 2^56, are at least 0.7.
    kept = {each for each in ids if int(each[18:], 16) / 2**56 >= 0.7}
    assert 5 < len(kept) < 35
    assert set(process.verdicts()) == {watched_uid(each, "shop") for each in kept}
    process.store.close()
