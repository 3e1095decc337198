"""The three evaluators by the rules of `sound`."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scouter.errors import ConfigError, DataError
from scouter.evaluate import (
    EvalItem,
    JudgeError,
    JudgeReply,
    QAEvaluator,
    ReportEvaluator,
    TrajectoryEvaluator,
    TrajectoryStep,
)
from scouter.evaluate.judge.port import Answer, JudgeRequest
from scouter.evaluate.report.field_judge import read_score
from scouter.evaluate.report.field_metrics import MetricsConfig, field_score
from scouter.evaluate.report.report_evaluator import FolderStore
from scouter.evaluate.report.tree import read_report
from tests.scouter.evaluate.report.vss_support import Replies, caller_of, field_judge

CASES: Final = Path(__file__).parents[3] / "cases/score_texts.txt"
LINES: Final = [
    line.split("\t") for line in CASES.read_text("utf-8").splitlines() if line[:1] != "#"
]

METRICS: Final = """
Overall Report:
  method: average
  fields:
    title:
      method: exact_match
    Basic Information:
      method: average
      fields:
        Report Identifier:
          method: non_empty
        Date of Incident:
          method: llm_judge
    Vehicles Involved:
      method: average
      allow_dynamic_field_discovery: true
"""
REFERENCE: Final[dict[str, Any]] = {
    "title": "Collision",
    "Basic Information": {"Report Identifier": "R1", "Date of Incident": "5 May 2024"},
    "Vehicles Involved": {"Vehicle 1234": "White Truck", "Vehicle 4321": "Dark Blue Truck"},
}
MARKDOWN: Final = """\
# Collision

## Basic Information

| Field | Value |
| :-- | :-- |
| **Report Identifier** | R-77 |
| **Date of Incident** | 2024-05-05 |

## Vehicles Involved

| Field | Value |
| :-- | :-- |
| Vehicle (1234) | Blue Truck |
| Vehicle (5678) | Dark Blue Car |
"""
FAKE: Final = {
    "single": "0.5",
    "Vehicle (1234)": {"score": 0.5, "reference": "Vehicle 1234"},
    "Vehicle (5678)": {"score": 0.0, "reference": None},
}


# --- a judge's number ---


@pytest.mark.parametrize(("score", "text"), LINES, ids=range(len(LINES)))
def test_the_score_in_a_text(score: str, text: str) -> None:
    reply = JudgeReply(response=text.replace("\\n", "\n"))
    if score == "-":
        with pytest.raises(JudgeError, match="Expected a number between"):
            read_score(reply)
    else:
        assert read_score(reply)[0] == float(score)


def test_other_forms_of_an_answer() -> None:
    assert read_score(JudgeReply(response=0.3)) == (0.3, "")
    assert read_score(JudgeReply(response={"score": 1, "reasoning": "all"})) == (1.0, "all")
    message: Any = {"content": "0.4", "reasoning_content": "why"}
    assert read_score(JudgeReply(response=message)) == (0.4, "why")
    with pytest.raises(JudgeError, match="No actual content"):
        read_score(JudgeReply(response=""))


@given(st.floats(0, 1), st.text(st.characters(exclude_categories=["N", "Cs"]), max_size=30))
def test_a_number_on_the_last_line_is_the_score(score: float, before: str) -> None:
    reply = JudgeReply(response=f"Step 1 of 7: {before.replace('<', '')}\n{score:.3f}")
    assert read_score(reply)[0] == float(f"{score:.3f}")


# --- reports ---


def evaluator(fake: dict[str, Any] | None = None, **more: Any) -> ReportEvaluator:
    metrics = more.pop("metrics", yaml.safe_load(METRICS))
    return ReportEvaluator(metrics, judge=caller_of(field_judge(fake or FAKE)), **more)


def test_a_report_from_its_fields_up() -> None:
    """By hand: vehicles (0.5 + 0) / 2 = 0.25, basic (1 + 0.5) / 2, all (1 + 0.75 + 0.25) / 3."""
    found = evaluator().score(REFERENCE, MARKDOWN)
    vehicles = found.field_scores["Vehicles Involved"]
    assert vehicles.section_score == 0.25
    assert found.section_score == pytest.approx(2 / 3)
    written = vehicles.field_scores["Vehicle (1234)"].to_json()
    assert written == {
        "section_score": 0.5,
        "method": "llm_judge_with_field_discovery",
        "actual_value": "Blue Truck",
        "reference_value": "White Truck",
        "error": None,
        "field_scores": {},
    }


def test_the_recall_penalty_counts_what_the_report_left_out() -> None:
    """By hand: 0.5, 0, and 0 for vehicle 4321, which nothing matches."""
    metrics = yaml.safe_load(METRICS)
    metrics["Overall Report"]["fields"]["Vehicles Involved"]["recall_penalty"] = True
    found = evaluator(metrics=metrics).score(REFERENCE, MARKDOWN)
    assert found.field_scores["Vehicles Involved"].section_score == pytest.approx(1 / 6)


def test_a_section_with_a_judge_is_compared_as_a_whole() -> None:
    """The document's own tree: discovered fields are shown, the section's score is the judge's."""
    metrics = yaml.safe_load(METRICS)
    metrics["Overall Report"]["fields"]["Vehicles Involved"]["method"] = "llm_judge"
    found = evaluator({**FAKE, "single": "0.5"}, metrics=metrics).score(REFERENCE, MARKDOWN)
    vehicles = found.field_scores["Vehicles Involved"]
    assert vehicles.section_score == 0.5
    assert [each.section_score for each in vehicles.field_scores.values()] == [0.5, 0.0]


def test_what_neither_side_has_is_in_no_average() -> None:
    tree = {"R": {"method": "average", "fields": {"a": {"method": "f1"}, "b": {"method": "f1"}}}}
    found = ReportEvaluator(tree).score({"a": "x y"}, {"a": "x"})
    assert found.section_score == pytest.approx(2 / 3)
    assert found.field_scores["b"].section_score is None
    assert found.field_scores["b"].error is None
    assert ReportEvaluator(tree).score({"a": "x", "b": "y"}, {"a": "x"}).section_score == 0.5
    assert ReportEvaluator(tree).score({"a": "x"}, {"a": "x", "b": "y"}).section_score == 0.5


def test_a_section_that_the_report_left_out_scores_0() -> None:
    section = {"method": "average", "fields": {"b": {"method": "exact_match"}}}
    tree = {"R": {"method": "average", "fields": {"a": {"method": "f1"}, "S": section}}}
    assert ReportEvaluator(tree).score({"a": "x", "S": {"b": "y"}}, {"a": "x"}).section_score == 0.5
    both_without = ReportEvaluator(tree).score({"a": "x"}, {"a": "x"})
    assert both_without.section_score == 1.0
    wrong = ReportEvaluator(tree).score({"a": "x", "S": "y"}, {"a": "x"})
    assert wrong.section_score is None
    assert wrong.error == "no score of S"
    assert wrong.field_scores["S"].error == "Reference at 'R.S' is str, expected dict for section"


def test_a_dead_judge_is_no_score() -> None:
    """The field is errored, and so is what would be averaged with it; nothing is 0."""
    calls: list[str] = []

    def judge(request: JudgeRequest) -> Answer:
        calls.append(request.task_id)
        raise ConnectionError("refused")

    tree = {"R": {"method": "average", "fields": {"a": {"method": "f1"}, "b": {}}}}
    found = ReportEvaluator(tree, judge=caller_of(judge)).score({"a": "x", "b": "y"}, {"a": "x"})
    assert (found.section_score, found.error) == (None, "no score of b")
    assert found.field_scores["a"].section_score == 1.0
    assert "refused (called 3 times)" in str(found.field_scores["b"].error)
    assert calls == ["report_field"] * 3


def test_a_discovery_that_tells_too_little_is_requested_again() -> None:
    """A match with a field that is not in the reference is no verdict."""
    replies = Replies(
        [
            {"x": {"score": 1, "reference_field": "nope"}, "y": {"score": 1}},
            {"x": {"score": 2, "reference_field": "a"}, "y": {"score": 1}},
            "no JSON",
        ]
    )
    tree = {"R": {"method": "average", "allow_dynamic_field_discovery": True}}
    found = ReportEvaluator(tree, judge=caller_of(replies)).score({"a": "1"}, {"x": "1", "y": "2"})
    assert found.section_score is None
    assert found.field_scores["y"].section_score == 1.0
    assert found.field_scores["x"].error == "LLM failed to score this field during discovery"
    assert len(replies.prompts) == 3


def test_a_discovery_that_nobody_answers_says_why() -> None:
    def judge(request: JudgeRequest) -> Answer:
        raise ConnectionError("refused")

    tree = {"R": {"method": "average", "allow_dynamic_field_discovery": True}}
    found = ReportEvaluator(tree, judge=caller_of(judge)).score({"a": "1"}, {"x": "1"})
    assert (found.section_score, found.error) == (None, "no score of x")
    assert "refused" in str(found.field_scores["x"].error)


def test_a_tree_without_judge_needs_none() -> None:
    tree = {"R": {"method": "average", "fields": {"a": {"method": "regex"}}}}
    assert ReportEvaluator(tree).score({"a": r"\d+-\d+"}, {"a": "12-5"}).section_score == 1.0
    assert MetricsConfig.of(tree).methods() == ["regex"]
    with pytest.raises(ConfigError, match="ask a judge, and there is none"):
        ReportEvaluator({"R": {}})
    with pytest.raises(ConfigError, match=r"method 'bleu': expected one of exact_match, f1"):
        ReportEvaluator({"R": {"method": "bleu"}})


def test_a_wrong_metrics_file_names_its_line(tmp_path: Path) -> None:
    file = tmp_path / "metrics.yml"
    file.write_text("R:\n  method: average\n  fields:\n    a:\n      metod: f1\n", "utf-8")
    with pytest.raises(ConfigError, match=r"metrics.yml, line 5, field 'R.fields.a.metod'"):
        ReportEvaluator(file)


def test_values_that_are_no_texts() -> None:
    assert field_score("exact_match", 7, "7") == 1.0
    assert field_score("f1", ["x", "y"], ["y", "z"]) == 0.5
    assert field_score("exact_match", {"b": 1, "a": 2}, {"a": 2, "b": 1}) == 1.0
    assert field_score("non_empty", {"a": 1}, None) == 1.0
    assert field_score("non_empty", {}, "x") == 0.0
    assert field_score("exact_match", "$HOME", "$HOME") == 1.0  # nothing comes from outside
    with pytest.raises(ConfigError):
        field_score("regex", "a", "(")


def test_markdown_is_parsed() -> None:
    text = (
        "# A *title*\n\n## One\n\nFirst line\nsecond `line`\n\n## Two\n### Deep\n\n"
        "| a \\| b | c |\n|---|---|\n| d | e | \n\n#### Deeper\n| x | y |\n\n"
        "```\n# no heading\n```\n## Empty\n"
    )
    assert read_report(text) == {
        "title": "A title",
        "One": "First line\nsecond line",
        "Two": {"Deep": {"a | b": "c", "d": "e", "Deeper": {"x": "y"}}},
        "Empty": {},
    }


# --- reports of items ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    (tmp_path / "store/r1.md").write_text(MARKDOWN, "utf-8")
    (tmp_path / "secret.md").write_text(MARKDOWN, "utf-8")
    (tmp_path / "store/link.md").symlink_to(tmp_path / "secret.md")
    (tmp_path / "truth.json").write_text(json.dumps(REFERENCE), "utf-8")
    return tmp_path


def item(answer: object, methods: tuple[str, ...] = ("report",), **more: Any) -> EvalItem:
    entry: dict[str, Any] = {"evaluation_method": list(methods)}
    truth = more.pop("ground_truth", "truth.json")
    return EvalItem(id="1", ground_truth=truth, answer=cast("Any", answer), entry=entry, **more)


def stored(folder: Path, **more: Any) -> ReportEvaluator:
    return evaluator(
        store=folder / "store",
        reference_base_dir=folder,
        report_url_pattern=r"http://x/(\S+\.md)",
        vlm_related_fields=["Vehicles Involved", "No Such Section"],
        **more,
    )


def test_a_report_is_found_by_its_address(folder: Path) -> None:
    output = stored(folder).evaluate([item("see http://x/r1.md"), item("", ("qa",)), item("none")])
    written = cast("Any", output.to_json())
    assert written["average_vlm_field_score"] == 0.125  # 0.25 and 0; the skipped one does not count
    assert output.average_score == pytest.approx((2 / 3 + 0) / 2)
    first, second, third = written["eval_output_items"]
    assert first["vlm_field_score"] == 0.25
    assert first["reasoning"]["metadata"] == {
        "reference_file": str(folder / "truth.json"),
        "actual_file": "http://x/r1.md",
    }
    assert second == {
        "id": "1",
        "score": None,
        "reasoning": "Skipped: not marked for report evaluation",
    }
    assert third["reasoning"]["error"].startswith("No report URL found in response")
    assert (output.n_scored, output.n_errored, output.n_skipped) == (2, 0, 1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ("http://x/../secret.md", "lies outside of the folder"),
        ("http://x//etc/hosts.md", "lies outside of the folder"),
        ("http://x/link.md", "lies outside of the folder"),
    ],
)
def test_nothing_outside_of_the_folder_is_read(folder: Path, answer: str, error: str) -> None:
    [verdict] = stored(folder).evaluate([item(answer)]).items
    assert verdict.score is None
    assert error in verdict.error


def test_what_goes_wrong_is_an_error_of_its_item(folder: Path) -> None:
    items = [
        item("http://x/r1.md", ground_truth="none.json"),
        item(None, failure="RuntimeError: down"),
        EvalItem(id="3", entry={}),
        item("http://x/r1.md"),
        EvalItem(id="5", entry={"evaluation_method": "report"}),
    ]
    verdicts = stored(folder).evaluate(items).items
    assert [each.score is None for each in verdicts] == [True, True, True, False, True]
    assert "none.json" in verdicts[0].error
    assert verdicts[1].error == "the agent failed: RuntimeError: down"
    assert "missing required 'evaluation_method' field" in verdicts[2].error
    assert "Item 5 has invalid 'evaluation_method' field: report. Must" in verdicts[4].error
    with pytest.raises(ConfigError, match="no such folder"):
        stored(folder / "elsewhere")
    (folder / "store/bad.md").write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="no UTF-8"):
        FolderStore(folder / "store").read("bad.md")


# --- answers ---


def qa(judge: Any, **more: Any) -> QAEvaluator:
    return QAEvaluator(caller_of(judge), **more)


@pytest.mark.parametrize(("compat", "score"), [("sound", 0.2), ("vss", 1.0)])
def test_the_last_number_counts(compat: Any, score: float) -> None:
    judge = Replies(["Step 1: fine. Final: 0.2"])
    [verdict] = qa(judge, compat=compat).evaluate([item("A", ("qa",))]).items
    assert verdict.score == score


def test_an_answer_without_score_is_requested_again() -> None:
    judge = Replies(["8/10"] * 5)
    output = qa(judge).evaluate([item("A", ("qa",))])
    [verdict] = output.items
    assert (verdict.score, output.average_score, output.n_errored) == (None, None, 1)
    assert verdict.error.startswith("parse: Could not extract score")
    assert len(judge.prompts) == 3  # and max_retries is 2


def test_what_an_answer_is_judged_by() -> None:
    judge = Replies(["It is right.\n0.9"])
    truth = EvalItem(
        id="q1",
        question="How many?",
        ground_truth=0,
        answer="<agent-think>hm 5</agent-think>None.",
        entry={"evaluation_method": ["qa"]},
    )
    output = qa(judge).evaluate([truth])
    assert output.to_json() == {
        "average_score": 0.9,
        "eval_output_items": [
            {
                "id": "q1",
                "score": 0.9,
                "reasoning": {
                    "reasoning": "It is right.\n0.9",
                    "question": "How many?",
                    "generated_answer": "None.",
                    "ground_truth": 0,
                },
            }
        ],
    }
    assert "hm 5" not in judge.prompts[0]
    [none] = qa(judge).evaluate([item("A", ("qa",), ground_truth=None)]).items
    assert (none.score, none.error) == (
        None,
        "Error: marked for QA evaluation but no ground_truth provided",
    )


def test_an_own_form_is_filled_in() -> None:
    judge = Replies(["1", "1"])
    form = 'Q {question} A {answer} R {reference} {{"a": {other}}}'
    own = item("{reference}", ("qa",), ground_truth="T", question="?")
    asyncio.run(qa(judge, custom_prompt_template=form).judge_item(own))
    asyncio.run(qa(judge, custom_prompt_template=form, compat="vss").judge_item(own))
    assert judge.prompts[1] == 'Q ? A {reference} R T {"a": {other}}'
    assert '{"a": {other}}' in judge.prompts[0]
    assert judge.prompts[0].count("<data-") == 3
    assert "alone on the last line" in judge.prompts[0]


# --- trajectories ---

ASK: Final = "\n\nTool calls: [{'id': '1', 'function': {'name': 'search', 'arguments': '{}'}}]"
STEPS: Final = (
    TrajectoryStep(name="gpt", is_model=True, input="q", output=ASK),
    TrajectoryStep(name="search", input='{"q": "a"}', output={"items": [{"id": 7}]}, uid="t1"),
    TrajectoryStep(name="inner", input="{}", output="x", parent="t1"),
    TrajectoryStep(name="gpt", is_model=True, output="done"),
)


def trajectory(judge: Any, **more: Any) -> TrajectoryEvaluator:
    return TrajectoryEvaluator(caller_of(judge), **more)


def walked(expected: object = None, **more: Any) -> EvalItem:
    entry: dict[str, Any] = {"evaluation_method": ["trajectory"], **more.pop("entry", {})}
    if expected is not None:
        entry["trajectory_ground_truth"] = expected
    return EvalItem(id="t", question="Q", answer="A", entry=entry, steps=STEPS, **more)


def test_calls_against_expected_ones() -> None:
    judge = Replies(["fine\n1"])
    expected = [{"step": 1, "name": "fetch", "params": {"id": {"$ref": {
        "tool": "search", "path": ["items", 0, "id"]}}}}]  # fmt: skip
    [verdict] = trajectory(judge).evaluate([walked(expected)]).items
    said = cast("Any", verdict.reasoning)
    assert set(said) == {
        "reasoning", "query", "actual_tool_calls", "expected_tool_calls", "final_answer",
        "trajectory", "conversation_history", "track_agent_selected_tools_only",
        "resolved_expected_tool_calls",
    }  # fmt: skip
    assert said["actual_tool_calls"] == [{"step": 1, "name": "search", "params": {"q": "a"}}]
    assert said["expected_tool_calls"] == expected
    assert said["resolved_expected_tool_calls"][0]["params"] == {"id": 7}
    assert len(said["trajectory"]) == 2
    assert said["trajectory"][1] == [
        {"tool": "search", "tool_input": '{"q": "a"}', "log": ASK},
        {"items": [{"id": 7}]},
    ]
    assert '"id": 7' in judge.prompts[0]


def test_no_model_and_no_inner_tool_is_a_call() -> None:
    judge = Replies(["1"])
    whole = trajectory(judge, track_agent_selected_tools_only=False)
    [verdict] = whole.evaluate([walked([])]).items
    calls = [call["name"] for call in cast("Any", verdict.reasoning)["actual_tool_calls"]]
    assert calls == ["search", "inner"]
    assert "trajectory_ground_truth" not in judge.prompts[0]


def test_calls_without_expected_ones() -> None:
    judge = Replies(["0.5", "0.5"])
    history = [{"turn_id": "turn_1", "query": "q1", "answer": "a1"}]
    schemas: Any = [{"name": "search", "parameters": {"q": "string"}}]
    own = trajectory(judge, tool_schemas=schemas)
    own.evaluate([walked(entry={"_conversation_history": history})])
    own.evaluate([walked()])
    first, second = judge.prompts
    assert "[turn_1] User: q1\n[turn_1] Assistant: a1" in first
    assert '"parameters"' in first
    assert "Action: search" in first
    assert "Action: inner" not in first
    assert "(no previous turns)" in second


@pytest.mark.parametrize("most", [1, 2, 5])
def test_so_many_items_at_a_time(most: int) -> None:
    """As many as may be, and no more: each question waits until so many are there."""
    here, largest = 0, 0
    full = asyncio.Event()

    async def judge(_: JudgeRequest) -> str:
        nonlocal here, largest
        here += 1
        largest = max(largest, here)
        if here == most:
            full.set()
        await full.wait()
        here -= 1
        return "1"

    items = [replace(walked(), id=str(n)) for n in range(6)]
    found = TrajectoryEvaluator(judge, max_concurrency=most).evaluate(items)
    assert largest == most
    assert found.n_scored == 6


def test_where_the_definitions_of_tools_come_from() -> None:
    """A file before the row, the row before spans; where nobody tells, the judge hears so."""
    judge = Replies(["0.5"] * 5)
    row: Any = {"tool_schemas": [{"name": "of_row"}]}
    spans: Any = ({"name": "of_spans"},)
    given: Any = [{"name": "of_file"}]
    trajectory(judge, tool_schemas=given).evaluate([replace(walked(entry=row), tools=spans)])
    trajectory(judge).evaluate([replace(walked(entry=row), tools=spans)])
    trajectory(judge).evaluate([replace(walked(), tools=spans)])
    trajectory(judge).evaluate([walked()])
    named = [[n for n in ("of_file", "of_row", "of_spans") if n in p] for p in judge.prompts]
    assert named == [["of_file"], ["of_row"], ["of_spans"], []]
    assert "nothing tells of them; judge no parameter" in judge.prompts[3]


def test_tools_stay_where_no_model_tells_of_its_calls() -> None:
    judge = Replies(["1"])
    alone = EvalItem(
        id="t", question="Q", answer="A", steps=STEPS[1:3],
        entry={"evaluation_method": ["trajectory"], "trajectory_ground_truth": []},
    )  # fmt: skip
    [verdict] = trajectory(judge).evaluate([alone]).items
    calls = [call["name"] for call in cast("Any", verdict.reasoning)["actual_tool_calls"]]
    assert calls == ["search"]
