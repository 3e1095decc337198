"""The law of the pipeline: however things arrive, the last evaluation is the offline one."""

import tempfile
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from collector.metrics import TotalName
from collector.store.rates import TaskQuery
from collector.store.rows import RecordRow
from collector.worker.records import eval_record
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.span import Resource, Span
from tests.collector.worker.process_support import Process
from tests.contracts.store_data import SPACE, record
from tests.support.examples import examples

STEPS: Final = TraceAssertion.span_count(SpanFilter.by_name("step"))
TASKS: Final[list[Task]] = [
    AssertionTask("answer", "answer", 1, "GreaterThanOrEqual"),
    TraceAssertionTask("steps", STEPS, 2, "GreaterThanOrEqual", condition=True),
    TraceAssertionTask("all", TraceAssertion.trace_span_count(), 3, "Equals"),
    AssertionTask("behind", "steps", 3, "LessThan", depends_on=["steps"]),
    AssertionTask(
        "said", "records[*].context.answer", [0, 1], "Equals", condition=True, scope="session"
    ),
    TraceAssertionTask("session steps", STEPS, 3, "LessThan", scope="session"),
    TraceAssertionTask(
        "session spans", TraceAssertion.trace_span_count(), 4, "LessThan",
        depends_on=["said"], scope="session",
    ),
]  # fmt: skip
PROFILE: Final = AgentEvalProfile(TASKS, alias="answers")


@contextmanager
def folder() -> Generator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


@st.composite
def trace(draw: st.DrawFn, number: int) -> list[Span]:
    """One tree or two of up to five spans in all, of one process, of two or of three.

    Each may be without stamps, as of another SDK. If not, it stamps its local roots:
    with the spans that it made below each, and maybe one that never comes.
    """
    size = draw(st.integers(1, 5))
    count = draw(st.integers(1, 3))
    is_ours = [draw(st.sampled_from([True, True, False])) for _ in range(count)]
    parents: dict[int, int | None] = {1: None}
    process = {1: 0}
    for n in range(2, size + 1):
        is_root = (
            draw(st.sampled_from([False, False, False, True]))
            and list(parents.values()).count(None) < 2
        )
        parents[n] = None if is_root else draw(st.integers(1, n - 1))
        process[n] = draw(st.integers(0, count - 1))
    local_root: dict[int, int] = {}
    for n, parent in parents.items():  # parents come first
        is_local = parent is None or process[parent] != process[n]
        local_root[n] = n if is_local else local_root[parent or 0]
    spans: list[Span] = []
    for n, parent in parents.items():
        ours, is_local = is_ours[process[n]], local_root[n] == n
        attributes: dict[str, Any] = {"n": n}
        if ours and is_local:
            made = list(local_root.values()).count(n)
            attributes = {PROCESS_SPAN_COUNT: made + draw(st.sampled_from([0, 0, 0, 1]))}
        is_remote = is_local and parent is not None
        # Not every sender says so; of our own spans, the stamp does as well.
        flag = draw(st.sampled_from([is_remote, is_remote, None]))
        spans.append(
            Span(
                trace_id=f"{number:032x}",
                span_id=f"{n:016x}",
                parent_span_id=None if parent is None else f"{parent:016x}",
                parent_is_remote=flag,
                name=draw(st.sampled_from(["step", "other"])),
                start_ns=n,
                end_ns=10,
                attributes=attributes,
                resource=Resource(attributes={PROCESS_ID: f"p{process[n]}"} if ours else {}),
            )
        )
        if draw(st.booleans()):  # an unfinished version that was sent before
            early: dict[str, Any] = {"name": "early", "end_ns": 5, "attributes": {}}
            last = spans[-1]
            fields = {name: getattr(last, name) for name in Span.__dataclass_fields__}
            spans.append(Span(**(fields | early)))
    return spans


def is_whole(spans: list[Span]) -> bool:
    """The completeness of a trace, once all of it came."""
    best = {span.span_id: span for span in sorted(spans, key=lambda span: span.end_ns)}
    left: Counter[Any] = Counter()
    for span in best.values():
        made = span.attributes.get(PROCESS_SPAN_COUNT, 0)
        assert isinstance(made, int)
        left[span.resource.attributes.get(PROCESS_ID)] += 1 - made
    return bool(best) and all(n >= 0 for n in left.values())


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[Span], list[RecordRow], list[Any]]:
    """Traces, records and how they arrive: batches, repeats, pauses, restarts and lags."""
    traces = [draw(trace(number)) for number in range(1, draw(st.integers(1, 2)) + 1)]
    spans = [span for each in traces for span in each]
    records = [
        record(
            f"u{n}",
            trace_id=f"{draw(st.integers(1, 3)):032x}",
            session_id=draw(st.sampled_from(["s1", "s1", "s2", ""])),
            context={"answer": n},
        )
        for n in range(draw(st.integers(1, 3)))
    ]
    repeats = draw(st.lists(st.sampled_from(spans), max_size=3))
    arrivals = draw(st.permutations([*spans, *repeats, *records]))
    events: list[Any] = []
    for each in arrivals:
        events.append([each] if isinstance(each, Span) else each)
        if isinstance(each, Span) and len(events) > 1 and draw(st.booleans()):
            before = events[-2]
            if isinstance(before, list):
                before.append(each)
                events.pop()
                continue
        pause = draw(st.sampled_from([0.0, 0.1, 0.6, 8.0, 31.0, 61.0, "restart", "lag", "read"]))
        if pause:
            events.append(pause)
    return spans, records, events


# A store per example: shrinking would take minutes.
@settings(
    max_examples=examples(10),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    story=stories(),
    source=st.sampled_from(["http", "kafka:spans:0:1"]),
)
def test_the_last_verdict_is_the_offline_one(
    story: tuple[list[Span], list[RecordRow], list[Any]], source: str
) -> None:
    """Over orders, repeats, splits, pauses longer than the quiet period, restarts and lags.

    Every record and every session has one visible evaluation; its tasks are those of `EvalDataset`
    with all records and spans.
    """
    spans, rows, events = story
    with folder() as data:
        process = Process(data, PROFILE, 1000.0)
        rows = [
            record(row.uid, trace_id=row.trace_id, session_id=row.session_id, context=row.context,
                   profile_uid=process.profile_uid)
            for row in rows
        ]  # fmt: skip
        by_uid = {row.uid: row for row in rows}
        try:
            for event in events:
                if event == "restart":
                    process.close()
                    process = Process(data, PROFILE, process.now + 100)
                elif isinstance(event, float):
                    process.after(event)
                elif isinstance(event, RecordRow):
                    process.records(by_uid[event.uid], source=source)
                elif isinstance(event, str):
                    process.topic(lags=event == "lag")
                else:
                    process.spans(*event, source=source)
            process.topic(lags=False)
            process.after(700)
            process.after(700)  # a restart while the topic lags begins the deadline anew
            found = process.evaluations()
            sheet = process.store.conservation(SPACE)
            totals = [process.total(name) for name in (TotalName.RECORDS, TotalName.SESSIONS)]
            counted = sum(
                row.passed + row.failed + row.errored + row.skipped
                for row in process.store.task_counts(TaskQuery(space=SPACE))
            )
        finally:
            process.close()
    offline = EvalDataset([eval_record(row) for row in rows], TASKS, spans).evaluate()
    expected = {
        (result.record_uid if result.scope == "record" else f"session {result.session_id}"): [
            (task.task_id, str(task.outcome), task.score, task.actual, task.message)
            for task in result.tasks
        ]
        for result in offline.records
    }
    assert {
        uid: [
            (task.task_id, str(task.outcome), task.score, task.actual, task.message)
            for task in row.tasks
        ]
        for uid, row in found.items()
    } == expected
    whole = {row.uid: is_whole([each for each in spans if each.trace_id == row.trace_id])
             for row in rows}  # fmt: skip
    assert {uid: found[uid].completeness == "complete" for uid in whole} == whole
    assert {found[uid].missing_parents for uid in whole} == {0}
    assert (sheet.records.waiting, sheet.spans.late) == (0, 0)
    assert sheet.records.evaluated == len(rows)
    sessions = len({row.session_id or row.uid for row in rows})
    assert totals == [len(rows), sessions]
    assert counted == 4 * len(rows) + 3 * sessions
