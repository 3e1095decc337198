"""Reads of the join: whole records by uid, evaluated traces, traces with late spans."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.storage.duckdb.store import DuckDBStore
from tests.contracts.store_data import SPACE, evaluation, record, span


@pytest.fixture
def store(tmp_path: Path) -> Iterator[DuckDBStore]:
    opened = DuckDBStore(tmp_path)
    yield opened
    opened.close()


def test_records_are_read_back_by_uid(store: DuckDBStore) -> None:
    rows = [record("a", context={"n": [1, None]}), record("b"), record("a", space="other")]
    store.append_records(rows).result()
    assert store.records_of(SPACE, ["a", "a", "nobody"]) == [rows[0]]
    assert {row.uid for row in store.records_of(SPACE, ["a", "b"])} == {"a", "b"}
    assert store.records_of(SPACE, []) == []


def test_traces_of_evaluations_that_read_spans(store: DuckDBStore) -> None:
    """The second one reads no spans, the third has no trace, the last one is too old."""
    evaluations = [
        evaluation("a", trace_id="1" * 32, reads_spans=True),
        evaluation("b", trace_id="2" * 32, reads_spans=False),
        evaluation("c", trace_id=None, reads_spans=True),
        evaluation("d", trace_id="4" * 32, reads_spans=True, evaluated_ns=99),
    ]
    store.append_evaluations(evaluations).result()
    judged = store.judged_traces(100)
    assert [n for n in range(1, 5) if judged(f"{n}" * 32)] == [1]
    assert not store.judged_traces(10**18)("1" * 32)


def test_traces_with_spans_that_no_evaluation_has_seen(store: DuckDBStore) -> None:
    """Of trace 1 the second span is late until a revision has seen it; trace 2 is complete."""
    first = store.append_spans(SPACE, [span(1, trace_id=each * 32) for each in "12"], 1).result()
    evaluations = [
        evaluation(each, trace_id=each * 32, reads_spans=True, input_seq=first.seq) for each in "12"
    ]
    store.append_evaluations(evaluations).result()
    assert store.late_traces(0) == []
    late = store.append_spans(SPACE, [span(2, trace_id="1" * 32)], 2).result()
    assert store.late_traces(0) == [(SPACE, "1" * 32)]
    assert store.late_traces(101) == []  # the evaluation is older
    seen = evaluation(
        "1", trace_id="1" * 32, reads_spans=True, input_seq=late.seq, revision=2,
        evaluation_id="second",
    )  # fmt: skip
    store.append_evaluations([seen]).result()
    assert store.late_traces(0) == []
