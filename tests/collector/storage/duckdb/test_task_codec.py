"""An evaluation as text: nothing is lost, and texts of before are read."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from collector.store.evaluation_codec import decode_evaluation, encode_evaluation
from collector.store.rows import Completeness, EvaluationRow, Scope, TaskRow
from scouter.evaluate.judge.usage import JudgeUsage
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import evaluation

_texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | _texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_texts, inner, max_size=3),
    max_leaves=6,
).filter(lambda value: "Infinity" not in json.dumps(value))
_counts = st.none() | st.integers(0, 2**62)
_tasks = st.builds(
    TaskRow,
    task_id=_texts,
    task_type=_texts,
    outcome=st.sampled_from(Outcome),
    reason=st.none() | _texts,
    expected=_json,
    actual=_json,
    message=_texts,
    operator=_texts,
    condition=st.booleans(),
    stage=st.integers(0, 99),
    question=_texts,
    answer=_json,
    span_ids=st.lists(_texts, max_size=3).map(tuple),
    stated_score=st.none() | st.floats(-5, 5),
    usage=st.none()
    | st.builds(
        JudgeUsage,
        calls=st.integers(0, 99),
        cached=st.integers(0, 99),
        input_tokens=_counts,
        output_tokens=_counts,
        cost_usd=st.none() | st.floats(0, 1e6),
        unpriced_calls=st.integers(0, 99),
    ),
)
_evaluations = st.builds(
    EvaluationRow,
    **dict.fromkeys(
        ("space", "evaluation_id", "record_uid", "record_id", "session_id", "profile_uid",
         "profile_digest", "profile_name", "alias", "service_name", "service_version",
         "environment"),
        _texts,
    ),
    **dict.fromkeys(
        ("revision", "missing_parents", "created_ns", "evaluated_ns", "duration_ns", "input_seq"),
        st.integers(0, 2**63 - 1),
    ),
    trace_id=st.none() | _texts,
    outcome=st.sampled_from(Outcome),
    completeness=st.sampled_from(Completeness),
    reads_spans=st.booleans(),
    tags=st.dictionaries(_texts, _texts, max_size=3),
    scope=st.sampled_from(Scope),
    was_decided=st.booleans(),
    tasks=st.lists(_tasks, max_size=3).map(tuple),
)  # fmt: skip


@given(_evaluations)
def test_what_is_written_is_read(row: EvaluationRow) -> None:
    read = decode_evaluation(encode_evaluation(row))
    assert (read, repr(read)) == (row, repr(row))


def test_half_a_character_becomes_a_replacement_character() -> None:
    """A judge or a provider may have said it; no answer, and no file, could be written with it."""
    task = TaskRow(
        task_id="a",
        task_type="t",
        outcome=Outcome.FAILED,
        actual={"\ud800": ["é\ud83d"]},
        message="it says \udfff",
    )
    row = evaluation("u1", Outcome.FAILED, tasks=(task,))
    plain = replace(task, actual={"\ufffd": ["é\ufffd"]}, message="it says \ufffd")
    assert decode_evaluation(encode_evaluation(row)) == replace(row, tasks=(plain,))


def test_a_value_that_json_cannot_say() -> None:
    """It is stored by the rule of `to_json_value`."""
    task = TaskRow(task_id="a", task_type="t", outcome=Outcome.FAILED, actual=float("nan"))
    row = evaluation("u1", Outcome.FAILED, tasks=(task,))
    assert decode_evaluation(encode_evaluation(row)) == replace(
        row, tasks=(replace(task, actual=None),)
    )


def test_fields_that_a_text_lacks_have_their_defaults() -> None:
    """So that a new field, behind all others, needs no new text for what is stored."""
    task = TaskRow(task_id="a", task_type="t", outcome=Outcome.PASSED, usage=JudgeUsage(calls=3))
    row = evaluation("u1", tasks=(task,))
    head, (result,) = json.loads(encode_evaluation(row))
    assert result.pop() is None  # as before there were scores
    assert decode_evaluation(json.dumps([head, [result]])) == row
    assert result.pop() == []  # as before tasks named their spans
    result[-1] = result[-1][:1]
    assert decode_evaluation(json.dumps([head[:-1], [result]])) == row
    assert decode_evaluation(json.dumps([head[:-1], [result[:-1]]])).tasks[0].usage is None
    result[-1] = [3, 1, 20, 5, 0.25]  # as before there were calls without a price beside others
    (before,) = decode_evaluation(json.dumps([head, [result]])).tasks
    assert before.usage == JudgeUsage(
        calls=3, cached=1, input_tokens=20, output_tokens=5, cost_usd=0.25, unpriced_calls=0
    )
