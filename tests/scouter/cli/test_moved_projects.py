"""Projects of the other systems, as they are there, moved as the pages say: right, or refused.

The folders of `tests/documents/projects` have the files of each system's own example projects, in
short. What was changed in them to move them, or what a refusal says to change, is done here.
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from scouter.errors import ConfigError, FileFormatError
from scouter.formats.vertex import EvalTask
from tests.scouter.cli.conftest import Scouter

PROJECTS: Final = Path(__file__).parents[2] / "documents/projects"


@pytest.fixture
def move(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Copies a project into the folder where the test stands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return lambda name: shutil.copytree(PROJECTS / name, tmp_path, dirs_exist_ok=True)


def read(path: str | Path) -> Any:
    return json.loads(Path(path).read_text(encoding="utf-8"))


def replace_in(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new), encoding="utf-8")


def execute(path: Path, **given: object) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path), **given}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)  # noqa: S102 our own
    return names


# --- NVIDIA: the config of the VSS blueprint's base profile ---

VARIABLES: Final = {
    "EVAL_DIR": "eval", "DATASET_FILE_NAME": "dataset.json",
    "REPORT_REFERENCE_BASE_DIR": "eval/references", "EVAL_LLM_JUDGE_NAME": "judge",
    "EVAL_LLM_JUDGE_BASE_URL": "http://127.0.0.1:9",
}  # fmt: skip
"""Those that evaluation needs; all others of the file belong to the agent."""
VSS: Final = ("eval", "--config", "config.yml", "--agent", "vss_agent:answer")


def test_vss(move: Callable[[str], Path], scouter: Scouter) -> None:
    """By hand: the report is (1 + (1 + 0.9) / 2 + 0.8) / 3, with what the judge says of two fields.

    Reports are read from a folder, and the blueprint has them in memory: refused, with the way.
    """
    folder = move("nvidia")
    refused = scouter(*VSS, "--judge", "vss_agent:judge", **VARIABLES)
    assert refused.returncode == 2
    assert "expected local_object_store: {_type: folder, path: DIR}" in refused.stderr
    replace_in(folder / "config.yml", "_type: in_memory", "_type: folder\n    path: reports")
    gate = ("--min-score", "qa_evaluator=0.8")
    right = scouter(*VSS, "--judge", "vss_agent:judge", *gate, "--save", "run.json", **VARIABLES)
    assert right.returncode == 0, right.stdout + right.stderr
    scores = {
        path.name.removesuffix("_output.json"): read(path)["average_score"]
        for path in Path("eval/results").glob("*_evaluator_output.json")
    }
    assert scores == {
        "report_evaluator": pytest.approx(2.75 / 3),
        "qa_evaluator": 0.9,
        "trajectory_evaluator": pytest.approx(0.9),
    }
    worse = scouter(
        *VSS, "--judge", "vss_agent:strict_judge", *gate, "--baseline", "run.json", **VARIABLES
    )
    assert worse.returncode == 1
    assert "gate mean score of 'qa_evaluator': 0.0000 (of 1)" in worse.stdout


def test_a_variable_of_the_evaluation_has_to_be_set(
    move: Callable[[str], Path], scouter: Scouter
) -> None:
    move("nvidia")
    done = scouter(*VSS, **{**VARIABLES, "DATASET_FILE_NAME": ""})
    assert done.returncode == 2
    done = scouter(*VSS, EVAL_DIR="eval")
    assert done.returncode == 2
    assert "DATASET_FILE_NAME is not set; set it: export DATASET_FILE_NAME=" in done.stderr


def test_the_evaluators_of_the_toolkit_itself(
    move: Callable[[str], Path], scouter: Scouter
) -> None:
    """Refused by name with what to use; so moved, every row is judged."""
    config = move("nvidia") / "calculator.yml"
    agent = ("--agent", "vss_agent:answer", "--judge", "vss_agent:judge")
    refused = scouter("eval", "--config", "calculator.yml", *agent)
    assert refused.returncode == 1
    for evaluator, instead in (
        ("tunable_rag_evaluator", "customized_qa_evaluator"),
        ("ragas", "customized_qa_evaluator"),
        ("trajectory", "customized_trajectory_evaluator"),
    ):
        assert f"(_type: {evaluator}; use {instead})" in refused.stdout
    text, _, _ = config.read_text(encoding="utf-8").partition("      default_scoring")
    text = text.replace("_type: tunable_rag_evaluator", "_type: customized_qa_evaluator")
    config.write_text(f'{text}      evaluation_method_id: ""\n', encoding="utf-8")
    right = scouter("eval", "--config", config, *agent, "--min-score", "tuneable_eval=0.8")
    assert right.returncode == 0, right.stdout + right.stderr
    found = read(".tmp/nat/simple_calculator/tuneable_eval_output.json")
    assert [each["score"] for each in found["eval_output_items"]] == [0.9, 0.9]


def test_spans_of_the_toolkit(move: Callable[[str], Path], scouter: Scouter) -> None:
    """The profile wants the one call, with its argument; another argument is not it."""
    folder = move("nvidia")
    traces = ("eval", "--traces", "spans.jsonl", "--profile", "watch.yaml", "--min-pass-rate", "1")
    assert scouter(*traces).returncode == 0
    replace_in(folder / "watch.yaml", "3 * 7", "3 * 8")
    assert scouter(*traces).returncode == 1


# --- watsonx Orchestrate: the HR agent of its examples ---

HR: Final = ("--format", "watsonx", "--simulated-user", "hr:employee", "--agent")


def test_hr(move: Callable[[str], Path], scouter: Scouter) -> None:
    """The user says `END`; the fuzzy reason is decided without a judge, and nothing is 0."""
    move("watsonx")
    done = scouter("eval", "config.yml", *HR, "hr:answer")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "provider_config: there is no provider entry 'model_proxy'" in done.stderr
    [folder] = Path("test_command").iterdir()
    means = read(folder / "average_metrics.json")
    measures = ("Journey Success", "Tool Call Recall", "Tool Parameter F1", "Text Match")
    assert [means[name] for name in measures] == [1.0] * 4
    messages = read(folder / "messages/data_simple.messages.json")
    assert [each["role"] for each in messages].count("user") == 2


def test_an_agent_with_context_variables(move: Callable[[str], Path], scouter: Scouter) -> None:
    move("watsonx")
    right = scouter("eval", "data_context.json", *HR, "hr:logged_in")
    assert right.returncode == 0, right.stdout + right.stderr
    refused = scouter("eval", "data_context.json", *HR, "hr:answer")
    assert refused.returncode == 2
    assert "give it a parameter called 'runtime_context'" in refused.stderr


# --- Vertex AI and ADK: the notebook on an agent for products, and a desk ---


def judge(request: Any) -> dict[str, Any]:
    """Finds everything in order, in the form that is requested."""
    if request.task_id == "response_follows_trajectory":
        return {"score": 1, "explanation": "it does"}
    return {"score": 1.0, "reasoning": "safe"}


def test_the_notebook(move: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: three of five references are met; two have a price that nobody requested."""
    names = execute(move("vertex") / "notebook.py", judge=judge)
    assert "Follows trajectory: Does the answer follow" in capsys.readouterr().out
    means = names["trajectory"].summary_metrics
    found = [means[f"{name}/mean"] for name in names["trajectory_metrics"]]
    assert found == [0.6, 0.6, 0.6, 1.0, 0.8]
    assert names["single"].summary_metrics["trajectory_single_tool_use/mean"] == 0.2
    assert Path("bucket/single-metric-eval/single-1/metrics_table.jsonl").is_file()
    columns = list(names["single"].metrics_table.columns)
    assert columns[:3] == ["prompt", "reference_trajectory", "response"]
    brought = names["brought"].summary_metrics
    assert brought["trajectory_exact_match/mean"] == 1.0
    assert brought["response_follows_trajectory/mean"] == 1.0


def test_what_the_notebook_asks_and_nobody_here_answers(move: Callable[[str], Path]) -> None:
    data = execute(move("vertex") / "notebook.py", judge=judge)["eval_data"]
    with pytest.raises(ConfigError, match=r"PointwiseMetric\('coherence', template\)"):
        EvalTask(data, ["coherence"])
    with pytest.raises(ConfigError, match="gcloud storage cp -r"):
        EvalTask(data, ["trajectory_recall"], output_uri_prefix="gs://bucket/x")


def test_rows_as_a_frame_writes_them(move: Callable[[str], Path], scouter: Scouter) -> None:
    move("vertex")
    rows = ("eval", "rows.csv", "--format", "vertex", "--metrics", "trajectory_exact_match")
    assert scouter(*rows, "--min-score", "trajectory_exact_match=0.5").returncode == 0
    assert scouter(*rows, "--min-score", "trajectory_exact_match=0.6").returncode == 1
    saved = scouter(*rows, "--save", "run.json", "--repeats", "2")
    assert saved.returncode == 2
    assert "--agent" in saved.stderr
    assert scouter(*rows, "--save", "run.json").returncode == 0
    assert scouter(*rows, "--baseline", "run.json").returncode == 0


def test_an_eval_set_and_its_criteria(move: Callable[[str], Path], scouter: Scouter) -> None:
    folder = move("vertex")
    command = ("eval", "simple.test.json", "--format", "adk", "--agent", "desk:answer")
    right = scouter(*command)
    assert right.returncode == 0, right.stdout + right.stderr
    replace_in(folder / "test_config.json", '"response_match_score": 0.2', '"safety_v1": 0.2')
    refused = scouter(*command)
    assert refused.returncode == 1
    assert "safety_v1" in refused.stdout


# --- the original Scouter: its example without interaction ---


def test_scouter(move: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A key stands twice in its tasks; then all tasks of both scenarios pass, the judge's too."""
    folder = move("scouter")
    sys.modules.pop("setup", None)
    with pytest.raises(FileFormatError, match=r"line 15: the key 'expected_value' stands twice"):
        execute(folder / "evaluate.py")
    line = "    expected_value: 10000.0\n"
    replace_in(folder / "tasks.yaml", line + line, line)
    metrics = execute(folder / "evaluate.py")["results"].metrics
    sys.modules.pop("setup", None)
    assert (metrics.total_scenarios, metrics.passed_scenarios) == (2, 2)
    assert metrics.overall_pass_rate == 1.0
    out = capsys.readouterr().out
    assert "100.0% (8/8)" in out, out
    assert "support_agent" in out


# --- Upsonic: its tests of the three evaluators ---


def test_upsonic(move: Callable[[str], Path], capsys: pytest.CaptureFixture[str]) -> None:
    names = execute(move("upsonic") / "evals.py")
    accuracy, reliability = names["accuracy"], names["reliability"]
    assert [each.score for each in accuracy.evaluation_scores] == [9, 9]
    assert accuracy.average_score == 9.0
    assert accuracy.generated_output == "Tokyo is the capital of Japan."
    assert names["with_output"].generated_output == "Tokyo."
    assert reliability.passed
    assert reliability.actual_tool_calls == ["calculate_sum", "calculate_product"]
    assert [each.times_called for each in reliability.checks] == [1, 1]
    with pytest.raises(AssertionError, match=r"Missing expected tool calls: get_weather\."):
        names["missing"].assert_passed()
    performance = names["performance"]
    assert len(performance.all_runs) == 2
    stats = performance.latency_stats
    assert 0 < stats["min"] <= stats["median"] <= stats["max"]
    assert "Actual: ['calculate_sum', 'calculate_product']\n" in capsys.readouterr().out


def test_a_judge_of_upsonic(move: Callable[[str], Path]) -> None:
    """An `Agent` is no judge; the error says what is one."""
    path = move("upsonic") / "evals.py"
    replace_in(path, "    judge_agent=judge,", "    judge_agent=agent,")
    with pytest.raises(TypeError, match=r"judge_agent: .*function"):
        execute(path)
