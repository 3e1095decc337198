"""Spans that come after the evaluation: the number of times that a record is judged again."""

import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from collector.settings.model import CollectorSettings
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.span import Resource, Span
from tests.collector.worker.process_support import TIMES, Process
from tests.contracts.store_data import SPACE, TRACE, record, span

COUNT = TraceAssertionTask("spans", TraceAssertion.trace_span_count(), 0, "GreaterThan")
PROFILE = AgentEvalProfile([COUNT], alias="traced")


def ours(number: int) -> Span:
    """The root, stamped with one span, or a child of it: the trace is complete with each."""
    return span(
        number,
        parent_span_id=None if number == 1 else f"{1:016x}",
        attributes={PROCESS_SPAN_COUNT: 1} if number == 1 else {},
        resource=Resource(attributes={PROCESS_ID: "p"}),
    )


@pytest.fixture
def judged(tmp_path: Path) -> Iterator[Process]:
    """A record that was judged with one span."""
    process = Process(tmp_path, PROFILE)
    process.records(record("u1", profile_uid=process.profile_uid, trace_id=TRACE))
    process.spans(ours(1))
    process.after(20)
    assert seen(process) == (1, 1)
    yield process
    process.close()


def seen(process: Process) -> tuple[int, object]:
    """Revision of the evaluation, and the spans that it saw."""
    row = process.evaluations()["u1"]
    return row.revision, row.tasks[0].actual


def test_spans_within_the_settle_time_make_one_revision(judged: Process) -> None:
    """Ten of them, one each 0.4 s: the settle time of 0.5 s begins anew with each."""
    for number in range(2, 12):
        judged.spans(ours(number))
        judged.after(0.4)
        assert seen(judged) == (1, 1)
    judged.after(20)
    assert seen(judged) == (2, 11)
    judged.after(100)
    assert seen(judged) == (2, 11)


def test_there_is_at_most_one_revision_per_settle_time(judged: Process) -> None:
    """Spans come for half a minute, after any pauses; the last revision has seen them all."""
    chance = random.Random(4)
    number, before, last = 1, 1, judged.now
    end = judged.now + 30
    while judged.now < end:
        number += 1
        judged.spans(ours(number))
        judged.after(chance.choice([0.1, 0.3, 0.6, 1.1]))
        revision, _ = seen(judged)
        assert revision - before <= (judged.now - last) / TIMES.settle_s
        if revision > before:
            before, last = revision, judged.now
    judged.after(20)
    revision, spans = seen(judged)
    assert spans == number
    assert 2 < revision < 30 / TIMES.settle_s


def test_an_evaluation_stands_whose_profile_cannot_be_read_any_more(
    judged: Process, caplog: pytest.LogCaptureFixture
) -> None:
    """Say after a downgrade: the span is late, and the record stays in one state."""
    judged.close()
    with duckdb.connect(str(next(judged.folder.glob("*.duckdb")))) as file:
        file.execute("UPDATE profiles SET body = '{}'")
    again = Process(judged.folder, None, now=judged.now + 5)
    again.spans(ours(2))
    again.after(400)
    sheet = again.store.conservation(SPACE)
    assert (sheet.records.evaluated, sheet.records.dead_lettered) == (1, 0)
    assert sheet.spans.late == 1
    assert "spans came behind the result on record u1, which stands" in caplog.text
    again.close()


def test_foreign_spans_settle_for_longer_than_their_batches_take() -> None:
    """By default: OpenTelemetry's batch processor sends what it has every 5 s."""
    delay_ms = BatchSpanProcessor._default_schedule_delay_millis()  # pyright: ignore[reportPrivateUsage]
    assert delay_ms == 5000
    fields = CollectorSettings.model_fields
    assert fields["foreign_settle_s"].default > delay_ms / 1000
    assert fields["late_window_s"].default == 24 * 3600
