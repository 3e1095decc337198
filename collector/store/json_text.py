"""JSON text for columns.

An evaluation and its task results as one text, so that reading it is reading one column.

DuckDB plans a query by column and reads each from a block of its own: an evaluation and five
results out of fifty columns take three times as long. The other columns of `evaluations` and
`task_results` are what evaluations are found and counted by.

The text is a JSON array of two: the values of `EVALUATION`, and for each task those of `TASK`.
"""

import json
from collections.abc import Sequence
from math import isfinite
from operator import attrgetter
from typing import Any, Final, cast

from pydantic import JsonValue

from collector.store.rows import Completeness, EvaluationRow, Scope, TaskRow
from scouter.evaluate.judge.port import JudgeUsage
from scouter.evaluate.outcome import Outcome
from scouter.model.json_value import plain_texts, to_json_value

_WORDS: Final = {True: "true", False: "false", None: "null"}
_HALF: Final = "\\ud"
"""Beginning of the escape of a lone surrogate in a column; a pair of surrogates begins likewise."""
_encode: Final = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), check_circular=False
).encode


def dump_json(value: object) -> str:
    """Write JSON by the rule of `to_json_value`; text that is not Unicode is escaped."""
    kind = type(value)
    if kind is bool or value is None:
        return _WORDS[cast(bool | None, value)]
    try:
        is_plain = kind is int or (kind is float and isfinite(cast(float, value)))
        text = repr(value) if is_plain else _encode(value)
    except (ValueError, TypeError):
        value = to_json_value(value)
        text = _encode(value)
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text


def plain_json(text: str) -> str:
    """Rewrite a text of `dump_json` for answers: U+FFFD replaces a lone surrogate."""
    return dump_json(load_json(text)) if _HALF in text else text


def load_json(text: str) -> JsonValue:
    """Read what `dump_json` wrote. Half a character becomes U+FFFD: no answer has it."""
    value: JsonValue = json.loads(text)
    return plain_texts(value) if _HALF in text else value


EVALUATION: Final = (
    "space", "evaluation_id", "record_uid", "revision", "record_id", "session_id", "trace_id",
    "profile_uid", "profile_digest", "profile_name", "alias", "outcome", "completeness",
    "missing_parents", "reads_spans", "service_name", "service_version", "environment", "tags",
    "created_ns", "evaluated_ns", "duration_ns", "input_seq", "scope", "was_decided",
    "is_backfill",
)  # fmt: skip
"""Fields of an evaluation, but its tasks."""
TASK: Final = (
    "task_id", "task_type", "outcome", "reason", "expected", "actual", "message", "operator",
    "condition", "stage", "question", "answer", "usage", "span_ids", "stated_score",
)  # fmt: skip
"""Fields of a task result."""
USAGE: Final = (
    "calls", "cached", "input_tokens", "output_tokens", "cost_usd", "unpriced_calls",
)  # fmt: skip
"""Fields of a task result's usage, an array in its place."""

_evaluation_values: Final = attrgetter(*EVALUATION)
_task_values: Final = attrgetter(*TASK[:-3])
_usage_values: Final = attrgetter(*USAGE)


def encode_evaluation(row: EvaluationRow) -> str:
    """Write an evaluation."""
    tasks = [
        (
            *_task_values(task),
            None if task.usage is None else _usage_values(task.usage),
            task.span_ids,
            task.stated_score,
        )
        for task in row.tasks
    ]
    return dump_json((_evaluation_values(row), tasks))


def decode_evaluation(text: str) -> EvaluationRow:
    """Read an evaluation."""
    values, tasks = cast("tuple[list[Any], list[list[Any]]]", load_json(text))
    fields = dict(zip(EVALUATION, values, strict=True))
    fields["outcome"] = Outcome(fields["outcome"])
    fields["completeness"] = Completeness(fields["completeness"])
    fields["scope"] = Scope(fields["scope"])
    return EvaluationRow(**fields, tasks=tuple(map(_task, tasks)))


def _task(values: Sequence[Any]) -> TaskRow:
    fields = dict(zip(TASK, values, strict=True))
    fields["outcome"] = Outcome(fields["outcome"])
    if (usage := fields["usage"]) is not None:
        fields["usage"] = JudgeUsage(**dict(zip(USAGE, usage, strict=True)))
    fields["span_ids"] = tuple(fields["span_ids"])
    return TaskRow(**fields)
