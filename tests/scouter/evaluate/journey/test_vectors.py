"""Cases that the original's program computed: the profile wxo-1.6.9 gives the same numbers."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.journey.asking import token_ratio
from scouter.evaluate.journey.call_check import check_tool_calls
from scouter.evaluate.journey.case_faults import flatten, strategy_of
from scouter.evaluate.journey.result import ArgumentMatch, written
from scouter.evaluate.journey.wxo.arguments import (
    as_date_or_number,
    compared,
    cosine,
    f1,
    is_alike_by_tokens,
    matches,
    normalised,
    share_of_yes,
)
from scouter.evaluate.journey.wxo.profile import completion, is_right_order, terminals, tool_rates
from scouter.formats.watsonx.recorded import dataset_of
from scouter.formats.watsonx.result_files import averages
from scouter.model.agent_work import ToolCall
from tests.support.watsonx_vectors import bag_of_words, expected_metrics, run, vectors


def tag(reason: Any) -> Any:
    """A message's reason as the vectors have it."""
    if reason is None or reason["reason"] != "incorrect parameter":
        return None if reason is None else reason["reason"]
    unmatched = [each["name"] for each in reason["parameters"] if not each["matched"]]
    return {"reason": reason["reason"], "unmatched": unmatched}


def test_trajectories(capsys: pytest.CaptureFixture[str]) -> None:
    """Every measure, every lost measure, every reason of a message."""
    ran: Counter[str] = Counter()
    for vector in vectors()["trajectory_vectors"]:
        expected, name = vector["expected"]["1.6.9"], vector["id"]
        ran[name[0]] += 1
        if "dataset_error" in expected:
            with pytest.raises(ConfigError):
                run(vector)
            continue
        result, metrics = run(vector), expected_metrics(vector)
        found = {n: v for n, v in result.metrics.items() if n in metrics or "metrics" not in vector}
        assert found == metrics, name
        lost = sorted(text.split(":")[0] for text in result.problems)
        assert lost == sorted(text.split(" ::")[0] for text in expected.get("errors", [])), name
        if "tags" in expected:
            assert [tag(reason) for reason in result.reasons] == expected["tags"], name
        if "text_match" in expected.get("display", {}):
            assert result.text_match == expected["display"]["text_match"], name
        if "missed_tool_names" in expected:
            assert list(result.missed_tools) == expected["missed_tool_names"], name
    with capsys.disabled():
        print(f"\nwatsonx trajectories: {dict(ran)}")  # noqa: T201 requested
    assert ran.total() >= 93


def is_like(actual: Any, expected: Any) -> bool:
    """The stub of the vectors: the cosine of bags of words."""
    left, right = bag_of_words([str(actual), str(expected)])
    return cosine(left, right) >= 0.8


def _detail(match: ArgumentMatch) -> dict[str, Any]:
    return {k: v for k, v in written(match).items() if k != "link"}


def _f1(case: Any) -> Any:
    if case.get("raises"):
        return None
    score = f1(case["expected"], case["actual"], case["strategy"], is_like)
    return "NaN" if score is None else score


def _relevancy(case: Any) -> Any:
    try:
        return str(share_of_yes(case["in"]))
    except ZeroDivisionError as error:
        return {"raises": type(error).__name__, "message": str(error)}


def _recorded(case: Any) -> Any:
    """The conversation as calls with results; `call` is short for a message with the next id."""
    messages: list[dict[str, Any]] = case["messages"]
    results = {
        inner["tool_call_id"]: message["content"]
        for message in messages if message.get("type") == "tool_response"
        for inner in [json.loads(message["content"])]
    }  # fmt: skip
    made = [message["call"] for message in messages if "call" in message]
    calls = [
        ToolCall(name=call["name"], arguments=call["args"], result=results.get(f"c{at}"),
                 has_result=f"c{at}" in results)
        for at, call in enumerate(made, start=1)
    ]  # fmt: skip
    first = [message["content"] for message in messages if message.get("role") == "user"]
    last = messages[-1]
    answer = last["content"] if last.get("type") == "text" else None
    return dataset_of("", first, calls, answer, compat="wxo-1.6.9", summary="SUMMARY")


def _rates(case: Any) -> Any:
    counts: Counter[str] = Counter(case["in"])
    expected, correct = counts["expected_tool_calls"], counts["correct_tool_calls"]
    recall, precision = tool_rates(expected, correct, counts["total_tool_calls"])
    whole = completion(
        expected, correct, others=counts["num_text_goals"] + counts["total_assertions"],
        met_others=counts["num_text_matches"] + counts["passed_assertions"], recall=recall,
    )  # fmt: skip
    names = ("tool_call_recall", "tool_call_precision", "journey_success_prct")
    found = zip(names, (recall, precision, whole), strict=True)
    return {name: "NaN" if value is None else value for name, value in found}


def _averages(case: Any) -> Any:
    runs = [(name, {k: None if v == "NaN" else v for k, v in row.items()})
            for name, row in case["runs"]]  # fmt: skip
    found = averages(runs)
    return {
        "per_dataset": {n: {k: "NaN" if v is None else v for k, v in row.items()}
                        for n, row in found.per_dataset.items()},
        "overall": {k: "NaN" if v is None else v for k, v in found.overall.items()},
    }  # fmt: skip


AREAS: dict[str, Callable[[Any], Any]] = {
    "normalize_args": lambda case: normalised(case["in"]),
    "compare_as_date_or_number": lambda case: list(
        as_date_or_number(case["actual"], case["expected"])
    ),
    "flatten_dict": lambda case: flatten(case["in"]),
    "resolve_strategy": lambda case: strategy_of(case["path"], case["map"]),
    "argument_matching": lambda case: matches(
        case["expected"], case["actual"] or {}, case["strategy"], is_like
    ),
    "argument_matching_no_client": lambda case: matches(
        case["expected"], case["actual"], case["strategy"], is_alike_by_tokens
    ),
    "argument_matching_detail": lambda case: [
        _detail(each)
        for each in compared(case["expected"], case["actual"], case["strategy"], is_like)
    ],
    "is_topological_sort": lambda case: is_right_order(
        case["graph"], case["ordering"], is_strict=case["is_strict"]
    ),
    "find_terminal_nodes": lambda case: sorted(terminals(case["graph"])),
    "tool_parameter_f1_single": _f1,
    "answer_relevancy": _relevancy,
    "average_aggregation": _averages,
    "record_to_dataset": _recorded,
    "tool_call_and_routing_metrics": _rates,
}
"""The areas of single functions that the profile has."""


@pytest.mark.parametrize("area", AREAS)
def test_functions(area: str, capsys: pytest.CaptureFixture[str]) -> None:
    cases = vectors()["unit_vectors_1.6.9"][area]
    assert cases
    for case in cases:
        wanted = case.get("result", {k: case.get(k) for k in ("raises", "message")})
        assert AREAS[area](case) == wanted, case
    with capsys.disabled():
        print(f"\nwatsonx {area}: {len(cases)}")  # noqa: T201 requested


def test_the_token_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    """The same verdicts; the ratio itself is that of rapidfuzz, within 2 of 100."""
    cases = vectors()["unit_vectors_1.6.9"]["wratio"]
    for case in cases:
        assert is_alike_by_tokens(case["a"], case["b"]) is case["passes_gt_0.8"]
        ratio = token_ratio(case["a"], case["b"])
        assert ratio == pytest.approx(case["wratio"] / 100, abs=0.021)
    with capsys.disabled():
        print(f"\nwatsonx wratio: {len(cases)}")  # noqa: T201 requested


def test_calls_compared_with_definitions(capsys: pytest.CaptureFixture[str]) -> None:
    """The same kinds of faults; where the original breaks over the arguments, that is one, too."""
    found = vectors()["unit_vectors_1.6.9"]["quick_eval_static"]
    for case in found["cases"]:
        call = {"function": {"name": case["name"], "arguments": case["arguments"]}}
        message = {"role": "assistant", "type": "tool_call", "tool_calls": [call]}
        (check,) = check_tool_calls([message], [found["spec"]])
        if "raises" in case:
            assert {*check.faults} == {"invalid_tool_call"}, case
            continue
        assert check.passed is case["result"]["final_decision"], case
        assert {*check.faults} == {*case["result"]["failed"]}, case
    with capsys.disabled():
        print(f"\nwatsonx quick_eval_static: {len(found['cases'])}")  # noqa: T201 requested
