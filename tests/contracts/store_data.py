"""Rows for the store's contract suite, short to write and random where it helps."""

import math
from typing import Any

from hypothesis import strategies as st

from collector.store.letters import DeadLetter, LetterKind
from collector.store.rows import Completeness, EvaluationRow, ProfileRow, RecordRow, TaskRow
from scouter.evaluate.outcome import Outcome
from scouter.model.span import (
    AttributeValue,
    Resource,
    Scope,
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
    StatusCode,
)

SPACE = "default"
TRACE = "0af7651916cd43dd8448eb211c80319c"


def span(number: int = 1, *, trace_id: str = TRACE, **fields: Any) -> Span:
    """A small span; its id is the number."""
    given: dict[str, Any] = {"name": f"step {number}", "start_ns": 10, "end_ns": 20} | fields
    return Span(trace_id=trace_id, span_id=f"{number:016x}", **given)


def record(uid: str = "u1", **fields: Any) -> RecordRow:
    """A small record of a profile that is known."""
    given: dict[str, Any] = {
        "space": SPACE, "digest": f"digest of {uid}", "profile_ref": "answers",
        "profile_uid": "p1", "profile_name": "answers", "alias": "answers", "created_ns": 5,
        "received_ns": 6, "context": {"answer": [1, None, "é"]}, "tags": {"team": "blue"},
    }  # fmt: skip
    return RecordRow(uid=uid, **(given | fields))


def evaluation(
    uid: str = "u1", outcome: Outcome = Outcome.PASSED, tasks: Any = None, **fields: Any
) -> EvaluationRow:
    """An evaluation with one task of the same outcome."""
    if tasks is None:
        tasks = (TaskRow(task_id="t1", task_type="Assertion", outcome=outcome),)
    given: dict[str, Any] = {
        "space": SPACE, "evaluation_id": f"evaluation of {uid}", "record_id": f"record {uid}",
        "session_id": "s1", "trace_id": None, "profile_uid": "p1", "profile_digest": "d1",
        "profile_name": "answers", "alias": "answers", "completeness": Completeness.COMPLETE,
        "created_ns": 5, "evaluated_ns": 100, "was_decided": fields.get("revision", 1) > 1,
    }  # fmt: skip
    return EvaluationRow(record_uid=uid, outcome=outcome, tasks=tasks, **(given | fields))


def letter(**fields: Any) -> DeadLetter:
    """Something that could not be used."""
    given: dict[str, Any] = {
        "space": SPACE, "kind": LetterKind.RECORD, "reason": "invalid_record",
        "message": "no profile", "source": "http", "payload": b"{\x00\xff}", "received_ns": 9,
    }  # fmt: skip
    return DeadLetter(**(given | fields))


def profile(uid: str, *, is_active: bool = False, **fields: Any) -> ProfileRow:
    """A registration."""
    given: dict[str, Any] = {
        "space": SPACE, "digest": f"digest of {uid}", "name": "answers", "alias": "answers",
        "body": "{}", "registered_ns": 1,
    }  # fmt: skip
    return ProfileRow(uid=uid, is_active=is_active, **(given | fields))


def same(left: object, right: object) -> bool:
    """Equality that tells 1 from 1.0 and True, and takes NaN for equal to NaN."""
    return repr(left) == repr(right)


_scalars: st.SearchStrategy[AttributeValue] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.sampled_from([math.nan, math.inf, -math.inf, -0.0]),
    st.text(max_size=20),
    st.sampled_from(["$bytes", '"$', "\x00", "𝄞", "line\nline"]),
    st.binary(max_size=20),
)
_keys = st.one_of(st.text(max_size=10), st.sampled_from(["$bytes", "$float", "$object", "$"]))
values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple), st.dictionaries(_keys, inner, max_size=3)
    ),
    max_leaves=8,
)
attributes = st.dictionaries(_keys, values, max_size=6)
_times = st.integers(0, 2**63 - 1)
_span_ids = st.integers(1, 2**64 - 1).map(lambda n: f"{n:016x}")
_trace_ids = st.integers(1, 2**128 - 1).map(lambda n: f"{n:032x}")
spans = st.builds(
    Span,
    trace_id=_trace_ids,
    span_id=_span_ids,
    parent_span_id=st.none() | _span_ids,
    name=st.text(max_size=20),
    kind=st.sampled_from(SpanKind),
    start_ns=_times,
    end_ns=_times,
    status=st.sampled_from(StatusCode),
    status_message=st.text(max_size=10),
    attributes=attributes,
    events=st.lists(
        st.builds(SpanEvent, name=st.text(max_size=5), time_ns=_times, attributes=attributes),
        max_size=2,
    ).map(tuple),
    links=st.lists(
        st.builds(SpanLink, trace_id=_trace_ids, span_id=_span_ids, attributes=attributes),
        max_size=2,
    ).map(tuple),
    resource=st.builds(Resource, attributes=attributes),
    scope=st.builds(Scope, name=st.text(max_size=5), version=st.text(max_size=5)),
    trace_state=st.text(max_size=5),
    parent_is_remote=st.none() | st.booleans(),
)
