"""The original's defects that its profile keeps, one by one, and what they cost."""

from typing import Any

import pytest

from scouter.evaluate.journey.evaluate import evaluate_journey
from scouter.evaluate.judge.port import JudgeRequest
from tests.support.journeys import ANSWER, GOOD, calls, hr, one_tool, says, user


def wxo(dataset: Any, messages: Any, **more: Any) -> Any:
    return evaluate_journey(dataset, messages, compat="wxo-1.6.9", **more)


def down(texts: list[str]) -> list[list[float]]:
    raise RuntimeError("no embeddings")


def lost(result: Any) -> set[str]:
    """The operators that lost their measures."""
    return {text.partition(":")[0] for text in result.problems}


@pytest.mark.parametrize(("answer", "completion"), [("nothing", 0.0), (ANSWER, 1.0)])
def test_an_embedder_that_fails_takes_all_measures_of_tools(answer: str, completion: float) -> None:
    """Completion counts what is left: the text alone."""
    dataset = hr()
    dataset["goal_details"][0]["arg_matching"] = {"username": "fuzzy"}
    wrong = calls(("get_assignment_id_hr_agent", {"username": "somebody else"}))
    result = wxo(dataset, [user("hi"), wrong, says(answer)], embedder=down)
    assert {"ExpectedToolExtractor", "ToolCalling", "JourneySuccessMetric"} <= lost(result)
    assert "is_success" not in result.metrics
    assert "tool_call_recall" not in result.metrics
    assert result.completion == completion
    assert (result.success, result.recall) == (None, None)


def test_without_a_client_a_wrong_call_takes_them_too() -> None:
    wrong = one_tool({"x": "a"}), [calls(("t", {"x": "b"}))]
    assert lost(wxo(*wrong, judge="none")) == {
        "ExpectedToolExtractor", "ToolCalling", "JourneySuccessMetric",
    }  # fmt: skip
    assert lost(wxo(*wrong)) == set()
    texts = wxo(hr(), GOOD, judge="none")
    assert (texts.text_match, texts.success) == ("Summary MisMatched", False)


def test_a_judge_that_fails_finds_statements_untrue() -> None:
    def broke(request: JudgeRequest) -> Any:
        raise RuntimeError("no credit")

    dataset = hr()
    dataset["goal_details"].append({"type": "assert_llm", "kind": "policy", "check": "is polite"})
    result = wxo(dataset, GOOD, judge=broke)
    assert (result.metrics["assert_llm"], result.success) == (0.0, False)
    assert lost(result) == set()
    assert wxo(dataset, GOOD).checks[0].passed is False  # no judge was called


def test_calls_are_normalised_to_one_text() -> None:
    for expected, actual in (("007", "7"), ("ASC", "asc"), (10.0, "10"), ([2, 1], [1, 2])):
        made = [calls(("t", {"x": actual}))]
        assert wxo(one_tool({"x": expected}), made).success is True
        assert evaluate_journey(one_tool({"x": expected}), made).success is False
