"""Names of tools with what a framework adds to them."""

from typing import Any

import pytest

from scouter.evaluate import ReliabilityEvaluator
from scouter.evaluate.trajectory.comparison import (
    compare_trajectories,
    trajectory_exact_match,
    trajectory_single_tool_use,
)


def call(name: str) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": {"id": 7}}


@pytest.mark.parametrize(
    ("called", "expected", "same"),
    [
        ("mcp__shop__pay", "pay", True), ("Shop-pay", "pay", True), ("pay.__call__", "pay", True),
        ("mcp__shop__pay", "mcp__shop__pay", True), ("pay", "mcp__shop__pay", False),
        ("mcp__shop__pay", "mcp__bank__pay", False), ("shop_pay", "pay", False),
    ],
)  # fmt: skip
def test_a_call_is_the_expected_one_by_its_bare_name(
    called: str, expected: str, *, same: bool
) -> None:
    assert trajectory_exact_match([call(called)], [call(expected)]) == same
    assert trajectory_single_tool_use([call(called)], expected) == same
    evaluator = ReliabilityEvaluator([expected], order_matters=True, exact_match=True)
    assert evaluator.check([called]).passed == same


def test_a_full_name_that_is_expected_is_not_shortened() -> None:
    """Two servers have a tool `pay`; one of them is meant by its full name."""
    called = [call("mcp__shop__pay"), call("mcp__bank__pay")]
    assert trajectory_exact_match(called, [call("mcp__shop__pay"), call("pay")]) == 1
    assert trajectory_exact_match(called, [call("pay"), call("mcp__shop__pay")]) == 0


def test_vertex_and_upsonic_know_whole_names_only() -> None:
    called, expected = [call("mcp__shop__pay")], [call("pay")]
    assert compare_trajectories(called, expected, compat="vertex").matched == 0
    assert trajectory_single_tool_use(called, "pay", compat="vertex") == 0
    evaluator = ReliabilityEvaluator(["pay"], compat="upsonic-0.77")
    assert not evaluator.check(["mcp__shop__pay"]).passed
