"""Results of the evaluators of VSS, by area; `vss` gives the same."""

import ast
import asyncio
import json
from pathlib import Path
from typing import Any, Final, cast

import pytest
from pydantic import ValidationError

from scouter.evaluate.judge.port import Answer, JudgeError, JudgeReply, JudgeRequest
from scouter.evaluate.report.evaluator import EvalItem, EvaluatorOutput, ItemEvaluator, ItemVerdict
from scouter.evaluate.report.field_judge import FieldJudge, read_score
from scouter.evaluate.report.field_metrics import METRICS, Compat, MetricsConfig, metric_of
from scouter.evaluate.report.qa_evaluator import QAEvaluator
from scouter.evaluate.report.report_evaluator import FolderStore, ReportEvaluator
from scouter.evaluate.report.steps import TrajectoryStep, resolve_refs
from scouter.evaluate.report.trajectory_evaluator import TrajectoryEvaluator
from scouter.evaluate.report.tree import SectionScore, TreeScorer, read_report
from tests.scouter.evaluate.report.vss_support import Replies, caller_of, field_judge
from tests.support.nat_vectors import count_line, needed, raised, vectors

AREAS: Final = (
    "nat.base_evaluator", "vss.dynamic_discovery", "vss.evaluate_tree", "vss.field_metric",
    "vss.markdown_parser", "vss.metrics_config", "vss.qa", "vss.report_item", "vss.report_output",
    "vss.retry", "vss.score_parser", "vss.trajectory", "vss.trajectory_ref",
)  # fmt: skip


def test_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(count_line(*AREAS))  # noqa: T201 the counts are requested


# --- fields ---


@pytest.mark.parametrize("vector", vectors("vss.field_metric"))
def test_field_metric(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    given, expected = vector["input"], vector["expected"]
    metric = metric_of(given["metric"], "vss")
    if isinstance(expected, str):
        with pytest.raises((AttributeError, TypeError)) as info:
            metric(given["actual"], given["reference"])
        assert f"{info.type.__name__}: {info.value}" == expected
    else:
        assert metric(given["actual"], given["reference"]) == pytest.approx(expected, rel=1e-12)
    assert given["metric"] in METRICS


@pytest.mark.parametrize("vector", vectors("vss.metrics_config"))
def test_metrics_config(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    expected = vector["expected"]
    if isinstance(expected, dict):
        config = MetricsConfig.of(vector["input"], "vss")
        assert expected == {"root_key": config.root_key, "methods": config.methods("vss")}
        return
    with pytest.raises((ValueError, TypeError)) as info:
        MetricsConfig.of(vector["input"], "vss")
    fault = info.value
    if isinstance(fault, ValidationError):
        if expected.startswith("ERR"):
            assert expected.startswith(f"ERR ValidationError: {str(fault).splitlines()[0]}")
        else:
            assert fault.errors()[0]["msg"] == expected
    else:
        assert expected == f"ERR ValueError: {fault}"


def test_markdown_sample() -> None:
    """The one shape that no vector shows: more than two cells make a list."""
    text = "# T\n\n## S\n| Field | A | B |\n|---|---|---|\n| x | 1 | 2 |\n"
    assert read_report(text, "vss") == {"title": "T", "S": {"x": ["1", "2"]}}


@pytest.mark.parametrize("vector", vectors("vss.markdown_parser"))
def test_markdown_parser(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    assert read_report(vector["input"], "vss") == vector["expected"]


# --- trees ---


def shape(node: SectionScore) -> dict[str, Any]:
    return {
        "section_score": None if node.section_score is None else pytest.approx(node.section_score),
        "method": node.method,
        "error": node.error,
        "field_scores": {name: shape(each) for name, each in node.field_scores.items()},
    }


def _score(given: dict[str, Any]) -> SectionScore:
    judge = FieldJudge(caller=caller_of(field_judge(given["fake_judge"])), compat="vss")
    config = MetricsConfig.of(given["config"], "vss")
    scorer = TreeScorer(config=config, judge=judge, compat="vss")
    return asyncio.run(scorer.score(given["reference"], given["actual"]))


@pytest.mark.parametrize("vector", vectors("vss.evaluate_tree"))
def test_evaluate_tree(vector: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    vector = needed(vector)
    monkeypatch.setenv("HOSTX", "h1")
    monkeypatch.delenv("UNSET_VAR_Z", raising=False)
    given = vector["input"]
    if "judge" in given:
        one = {"config": {"R": {"method": "llm_judge"}}, "reference": "a", "actual": "b"}
        with pytest.raises(ValidationError, match="less than or equal to 1"):
            _score({**one, "fake_judge": {"single": given["judge"]}})
        assert raised(vector["expected"])
    else:
        assert vector["expected"] == shape(_score(given))


@pytest.mark.parametrize("vector", vectors("vss.dynamic_discovery"))
def test_dynamic_discovery(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    given = vector["input"]
    if isinstance(given, str):
        judge = FieldJudge(caller=caller_of(field_judge({})), discovery_form=None, compat="vss")
        with pytest.raises((ValueError, TypeError)) as info:
            asyncio.run(judge.discover({}, {"x": 1}, ["x"]))
        kind, text = cast("tuple[str, str]", raised(vector["expected"]))
        assert (kind, str(info.value)[: len(text)]) == ("ValueError", text)
        return
    reply: Any = None
    if given["structured_reply"] != "x":
        reply = ast.literal_eval(given["structured_reply"])
    calls: list[JudgeRequest] = []

    def answer(request: JudgeRequest) -> Answer:
        calls.append(request)
        if given["structured_reply"] == "x":
            raise OSError("no answer")
        return reply if reply is not None else {}

    judge = FieldJudge(caller=caller_of(answer), compat="vss")
    found = asyncio.run(judge.discover(given["reference"], given["actual"], given["unspecified"]))
    written = {
        name: match and {"score": match.score, "reference_field": match.reference_field}
        for name, match in found.items()
    }
    assert written == vector["expected"]
    assert len(calls) == bool(given["unspecified"])  # one question, and no second one


# --- items of reports ---

FULL: Final = "vss.item.full"


def _report_input(given: dict[str, Any]) -> dict[str, Any]:
    """The whole input of a vector that refers to another one."""
    [full] = [cast("Any", each.values[0]) for each in vectors("vss.report_item")
              if each.id == FULL]  # fmt: skip
    return (
        {**full["input"], **{k: v for k, v in given.items() if k not in SHARED}}
        if (given.get("reference") == "same")
        else {**full["input"], **given}
    )


SHARED: Final = ("config", "reference", "markdown")


def _reports(folder: Path, markdown: str, reference: object) -> None:
    for place in (folder / "store", folder / "store/camera_001"):
        place.mkdir(parents=True, exist_ok=True)
        if place.name != "camera_001":
            (place / "empty.md").write_text("", encoding="utf-8")
        (place / "rep.md").write_text(markdown, encoding="utf-8")
    for name in ("r.json", "camera_001/r.json"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(json.dumps(reference), encoding="utf-8")


def _report_evaluator(given: dict[str, Any], folder: Path) -> ReportEvaluator:
    return ReportEvaluator(
        given["config"],
        store=FolderStore(folder / "store"),
        report_url_pattern=r"http://x/(\S+\.md)",
        reference_base_dir=folder,
        judge=caller_of(field_judge({})),
        include_vlm_output=given["include_vlm_output"],
        vlm_related_fields=given["vlm_related_fields"],
        compat="vss",
    )


@pytest.mark.parametrize("vector", vectors("vss.report_item"))
def test_report_item(vector: dict[str, Any] | None, tmp_path: Path) -> None:
    vector = needed(vector)
    given = _report_input(vector["input"])
    _reports(tmp_path, given["markdown"], given["reference"])
    evaluator = _report_evaluator(given, tmp_path)
    entry = vector["input"].get("full_dataset_entry")
    item = EvalItem(
        id=10 if entry is not None else 1,
        ground_truth=given["expected_output_obj"],
        answer=given["output_obj"],
        entry={"evaluation_method": given["evaluation_method"]} if entry is None else entry,
    )
    if fault := raised(vector["expected"]):
        with pytest.raises(ValueError, match="missing required 'evaluation_method'") as info:
            asyncio.run(evaluator.judge_item(item))
        assert fault == ("ValueError", str(info.value))
        return
    found: dict[str, Any] = cast(
        "Any", asyncio.run(evaluator.judge_item(item)).to_json("vss", with_vlm=True)
    )
    del found["id"]
    reasoning: Any = found["reasoning"]
    if isinstance(reasoning, dict) and "sections" in reasoning:
        sections = cast("dict[str, Any]", found["reasoning"]["sections"])
        scores = {name: node["section_score"] for name, node in sections.items()}
        found["reasoning"]["sections"] = scores
    text = json.dumps(found).replace(str(tmp_path), "<BASE>")
    assert json.loads(text) == vector["expected"]


@pytest.mark.parametrize("vector", vectors("vss.report_output"))
def test_report_output(vector: dict[str, Any] | None, tmp_path: Path) -> None:
    """The last of a run's items, as the file has it: one that is skipped; or a run's means."""
    vector = needed(vector)
    if "average_score" in vector["expected"]:
        output = _means()
        written = {"average_score": output.average_score,
                "average_vlm_field_score": output.average_vlm_field_score}  # fmt: skip
        assert written.items() <= vector["expected"].items()
        return
    (tmp_path / "store").mkdir()
    given = {"config": {"R": {"method": "f1"}}, "include_vlm_output": True,
             "vlm_related_fields": None}  # fmt: skip
    item = EvalItem(id=8, entry={"evaluation_method": ["qa"]})
    output = _report_evaluator(given, tmp_path).evaluate([item])
    assert cast("Any", output.to_json())["eval_output_items"][-1] == vector["expected"]


def _means(compat: Compat = "vss") -> EvaluatorOutput:
    """A report that was found, none, one without reference, and a skipped item."""
    scores = [(0.75, 0.625), (0.0, 0.0), (None, None), (None, None)]
    items = [ItemVerdict(id=i, score=a, vlm_field_score=b) for i, (a, b) in enumerate(scores)]
    return EvaluatorOutput(items=tuple(items), compat=compat, with_vlm=True)


def test_the_means_of_reports() -> None:
    """By hand: [.75, 0, none, none] is 0.38; visual sections .625, 0, 0, 0 are .15625."""
    output = _means()
    assert (output.average_score, output.average_vlm_field_score) == (0.38, 0.15625)
    sound = _means("sound")
    assert (sound.average_score, sound.average_vlm_field_score) == (0.375, 0.3125)


class _Given(ItemEvaluator):
    """Scores an item by what its answer says."""

    async def judge_item(self, item: EvalItem) -> ItemVerdict:
        if item.answer == "boom":
            raise ValueError("boom")
        score: Any = float("nan") if item.answer == "NaN" else item.answer
        return ItemVerdict(id=item.id, score=score, reasoning="")


@pytest.mark.parametrize("vector", vectors("nat.base_evaluator"))
def test_base_evaluator(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    items = [EvalItem(id=at, answer=score) for at, score in enumerate(vector["input"])]

    output = _Given("any", "nat-1.9", 8).evaluate(items)
    if vector["expected"] == "nan":
        assert str(output.average_score) == "nan"
    else:
        assert vector["expected"] == {
            "average_score": output.average_score,
            "items": [[each.score, each.reasoning] for each in output.items],
        }


# --- answers of judges ---


@pytest.mark.parametrize("vector", vectors("vss.score_parser"))
def test_score_parser(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    given: Any = vector["input"]
    expected = vector["expected"]
    # A text alone is no message; a judge's text is the content of one.
    reply = JudgeReply(response=[given] if isinstance(given, str) else given)
    fault = raised(expected)
    if fault is None:
        score, reasoning = read_score(reply, "vss")
        assert {"score": score, "reasoning": reasoning} == expected
        return
    with pytest.raises(JudgeError) as info:
        read_score(reply, "vss")
    said = fault[1].partition("\nFor troubleshooting")[0].partition("Full text: ")[0]
    assert str(info.value).partition("Full text: ")[0] == said


def _qa(given: dict[str, Any]) -> tuple[ItemVerdict, list[str]]:
    """Judge one item as a vector tells it; what it does not tell is as usual."""
    judge = Replies([given.get("reply", "0.5")] * 3)
    form = "{question}|{answer}|{reference}"
    evaluator = QAEvaluator(caller_of(judge), custom_prompt_template=form, compat="vss")
    truth = given.get("gt", "truth")
    item = EvalItem(
        id="x",
        question="Q",
        ground_truth=float("nan") if truth in ("NaN", "nan") else truth,
        answer=given.get("output", "A"),
        entry={"evaluation_method": given.get("m", ["qa"])},
    )
    return asyncio.run(evaluator.judge_item(item)), judge.prompts


@pytest.mark.parametrize("vector", vectors("vss.qa"))
def test_qa(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    verdict, prompts = _qa(vector["input"])
    expected = vector["expected"]
    if not isinstance(expected, dict):
        assert verdict.score == expected
        return
    assert verdict.score == expected["score"]
    if "prompt_ref" in expected:
        reference = prompts[0].split("|")[2] if prompts else None
        assert reference == expected["prompt_ref"]
    if isinstance(expected.get("reasoning"), str):
        assert verdict.reasoning == expected["reasoning"]


@pytest.mark.parametrize("vector", vectors("vss.retry"))
def test_retry(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    given, expected = vector["input"], vector["expected"]
    judge = Replies(given["replies"])
    evaluator = QAEvaluator(caller_of(judge, given["max_retries"]), compat="vss")
    entry = {"evaluation_method": ["qa"]}
    item = EvalItem(id="x", question="Q", ground_truth="T", answer="A", entry=cast("Any", entry))
    verdict = asyncio.run(evaluator.judge_item(item))
    assert (verdict.score, len(judge.prompts)) == (expected["score"], expected["calls"])
    reasoning = expected["reasoning"]
    if isinstance(reasoning, str):
        assert verdict.reasoning == reasoning.partition("\nFor troubleshooting")[0]


# --- trajectories ---


def _steps(given: dict[str, Any]) -> tuple[TrajectoryStep, ...]:
    steps: Any = given.get("steps", "same")
    if steps == "same":
        [first] = [cast("Any", each.values[0]) for each in vectors("vss.trajectory")
                   if each.id == "vss.traj.tracked_ref"]  # fmt: skip
        steps = first["input"]["steps"]
    return tuple(
        TrajectoryStep(
            name=each["name"], is_model=each["type"] == "LLM_END", input=each["input"],
            output=each["output"], parent=each["parent"], uid=each["uuid"],
        )
        for each in steps
    )  # fmt: skip


@pytest.mark.parametrize("vector", vectors("vss.trajectory"))
def test_trajectory(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    given, expected = vector["input"], vector["expected"]
    judge = Replies(["0.9"])
    without: str | None = "NOREF|{question}|{agent_trajectory}|{conversation_history}|{answer}"
    if "templates" in given:
        assert given["templates"] == "only with_reference"
        without = None
    evaluator = TrajectoryEvaluator(
        caller_of(judge),
        track_agent_selected_tools_only=given.get("track", True),
        custom_prompt_template_with_reference="REF|{question}|{reference}|{agent_trajectory}|{answer}",
        custom_prompt_template_without_reference=without,
        compat="vss",
    )
    entry: dict[str, Any] = {"evaluation_method": ["trajectory"]}
    if given.get("ground_truth") is not None:
        entry["trajectory_ground_truth"] = given["ground_truth"]
    if "history" in given:
        entry["_conversation_history"] = [{"turn_id": "turn_1", "query": "q1", "answer": "a1"}]
    item = EvalItem(id="x", question="Q", answer="A", entry=entry, steps=_steps(given))
    if fault := raised(expected):
        with pytest.raises(ValueError, match="trajectory_ground_truth") as info:
            asyncio.run(evaluator.judge_item(item))
        assert fault == ("ValueError", str(info.value))
        return
    verdict = asyncio.run(evaluator.judge_item(item))
    [prompt] = judge.prompts
    if isinstance(expected, str):
        assert prompt.startswith(expected)
        return
    said = cast("Any", verdict.reasoning)
    assert prompt.startswith(expected["prompt"])
    assert {name: value for name, value in expected.items() if name != "prompt"} == {
        "score": verdict.score,
        "actual_tool_calls": said["actual_tool_calls"],
        "expected": said["expected_tool_calls"],
        "n_traj": len(said["trajectory"]),
        "prompt_head": prompt.split("|")[0],
    }


@pytest.mark.parametrize("vector", vectors("vss.trajectory_ref"))
def test_trajectory_ref(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    given = vector["input"]
    found = resolve_refs(given["params"], given["tool_results"], given["previous_turn_results"])
    assert found == vector["expected"]
