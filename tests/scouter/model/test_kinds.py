"""Kinds by the names of the original, as its version 0.25.0 and its later code have them."""

import pytest

from scouter.evaluate.judge.port import TokenUsage
from scouter.model.record import DriftType, EntityType, EvalRecord, RecordType


def test_a_record_tells_its_kind() -> None:
    record = EvalRecord()

    assert record.entity_type is EntityType.GenAI
    assert record.get_record_type() is RecordType.GenAIEval
    assert EntityType.GenAI is EntityType.Agent
    assert RecordType.GenAIEval is not RecordType.Trace


@pytest.mark.parametrize(
    ("value", "member"),
    [
        ("GenAI", DriftType.Agent),
        ("genai", DriftType.Agent),
        ("AGENT", DriftType.Agent),
        ("x", None),
        ("", None),
    ],
)
def test_drift_types_by_name(value: str, member: DriftType | None) -> None:
    """The original, too, answers None for an unknown name."""
    assert DriftType.from_value(value) is member


def test_a_drift_type_as_text() -> None:
    assert DriftType.GenAI.to_string == "Agent"


def test_token_usage_is_three_numbers_or_none() -> None:
    usage = TokenUsage(1, 2, 3)

    assert (usage.input_tokens, usage.output_tokens, usage.total_tokens) == (1, 2, 3)
    assert TokenUsage(input_tokens=1) == TokenUsage(1, None, None)
