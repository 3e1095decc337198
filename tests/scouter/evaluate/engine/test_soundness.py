"""Values that must not pass, vanish or be misread without a word."""

import pytest

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import AttributeFilterTask
from scouter.model.record import EvalRecord


@pytest.mark.parametrize(
    ("operator", "expected", "outcome"),
    [
        ("NotContains", "a", "failed"),
        ("Contains", "b", "passed"),
        ("HasUniqueItems", True, "failed"),
        ("HasLengthEqual", 3, "passed"),
        ("Equals", ["a", "b", "a"], "passed"),
        ("NotEqual", "a", "failed"),
    ],
)
def test_a_path_into_items_is_read_by_every_operator(
    operator: str, expected: object, outcome: str
) -> None:
    """Ignoring it for operators on lists would let `NotContains "a"` pass."""
    task = AssertionTask("t", "v", expected, operator, item_context_path="n")
    record = EvalRecord({"v": [{"n": "a"}, {"n": "b"}, {"n": "a"}]})

    (result,) = EvalDataset([record], [task]).evaluate().records

    assert result.outcome == outcome


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_a_constant_that_json_lacks_is_refused(number: float) -> None:
    """As null it would pass on null."""
    with pytest.raises(ValueError, match="JSON has no such number"):
        AssertionTask("t", "v", number, "Equals")


@pytest.mark.parametrize("more", [{"depends_on": ["other"]}, {"condition": True}])
def test_a_task_inside_a_filter_stands_alone(more: dict[str, object]) -> None:
    inner = AssertionTask.model_validate(
        {"id": "t", "context_path": "v", "operator": "Equals", "expected_value": 1, **more}
    )

    with pytest.raises(ValueError, match="stands alone"):
        AttributeFilterTask.assertion(inner)


def test_a_result_is_found_by_its_id_as_it_was_written() -> None:
    task = AssertionTask("Quality", "v", 1, "Equals")
    (record,) = EvalDataset([EvalRecord({"v": 1})], [task]).evaluate().records

    assert record["Quality"].passed


@pytest.mark.parametrize("value", ["a\ud800b", 10**3000, "é"])
def test_results_of_any_context_can_be_saved(value: object) -> None:
    task = AssertionTask("t", "v", "x", "NotEqual")
    results = EvalDataset([EvalRecord({"v": value})], [task]).evaluate()

    assert EvalResults.model_validate_json(results.model_dump_json()) == results


def test_one_record_that_cannot_be_read_costs_no_other() -> None:
    """An integer beyond every text form errors its own record only."""
    records = [EvalRecord({"v": 10**5000}), EvalRecord({"v": 1})]
    results = EvalDataset(records, [AssertionTask("t", "v", 1, "Equals")]).evaluate()

    assert [record.outcome for record in results.records] == ["errored", "passed"]
    results.model_dump_json()
