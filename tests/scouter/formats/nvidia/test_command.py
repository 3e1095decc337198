"""`scouter eval --config`: from the document's files to its result files."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
import yaml

from scouter.cli.app import main
from scouter.client.client import ScouterClient
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.engine.checks import use_checks
from tests.collector.conftest import Service
from tests.scouter.formats.nvidia.project import CONFIG, SINGLES, TALK, TRUTH, make_project
from tests.scouter.formats.nvidia.recording_server import RecordingServer
from tests.support.served import serve

ROOT: Final = Path(__file__).parents[4]
START: Final = ("eval", "--config", "config.yml")
OWN_JUDGE: Final = ["--judge", "vss_agent:judge"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder, in which commands run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCOUTER_PROVIDERS", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("DATASET_FILTER", raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))
    make_project(tmp_path)
    return tmp_path


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a command."""

    exit_code: int
    output: str
    """Text of both streams."""


Run = Callable[..., Done]


@pytest.fixture
def run(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process, with these arguments more."""

    def command(*more: str, agent: str = "vss_agent:answer", start: Sequence[str] = START) -> Done:
        capsys.readouterr()
        options = ["--agent", agent] if agent else []
        monkeypatch.setattr(sys, "argv", ["scouter", *start, *options, *more])
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        for name in ("vss_agent", "failing", "worse"):
            sys.modules.pop(name, None)
        return Done(code, "".join(capsys.readouterr()))

    return command


def output(project: Path, name: str) -> Any:
    return json.loads((project / "results" / name).read_text("utf-8"))


def keys(schema: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema of an object that has these keys and no others."""
    return {
        "type": "object", "properties": schema, "required": list(schema),
        "additionalProperties": False,
    }  # fmt: skip


SCORE: Final[dict[str, Any]] = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
TEXT: Final[dict[str, Any]] = {"type": "string"}
SKIPPED: Final = keys({"id": TEXT, "score": {"type": "null"}, "reasoning": TEXT})


def items(*kinds: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {"anyOf": [SKIPPED, *kinds]}}


SECTION: Final = keys({
    "section_score": SCORE, "method": TEXT, "actual_value": {}, "reference_value": {},
    "error": {"type": ["string", "null"]},
    "field_scores": {"type": "object", "additionalProperties": {"$ref": "#/$defs/section"}},
})  # fmt: skip
REPORT: Final = {
    **keys({
        "average_score": SCORE, "average_vlm_field_score": SCORE,
        "eval_output_items": items(keys({
            "id": TEXT, "score": SCORE, "vlm_field_score": SCORE,
            "reasoning": keys({
                "sections": {"type": "object", "additionalProperties": {"$ref": "#/$defs/section"}},
                "metadata": keys({"reference_file": TEXT, "actual_file": TEXT}),
            }),
        })),
    }),
    "$defs": {"section": SECTION},
}  # fmt: skip
QA: Final = keys({
    "average_score": SCORE,
    "eval_output_items": items(keys({
        "id": TEXT, "score": SCORE,
        "reasoning": keys({
            "reasoning": TEXT, "question": TEXT, "generated_answer": TEXT, "ground_truth": TEXT,
        }),
    })),
})  # fmt: skip
CALLS: Final = {
    "type": ["array", "null"],
    "items": keys({"step": {"type": "integer"}, "name": TEXT, "params": {"type": "object"}}),
}
TRAJECTORY: Final = keys({
    "average_score": SCORE,
    "eval_output_items": items(keys({
        "id": TEXT, "score": SCORE,
        "reasoning": keys({
            "reasoning": TEXT, "query": TEXT, "actual_tool_calls": CALLS,
            "expected_tool_calls": CALLS, "final_answer": TEXT,
            "trajectory": {"type": "array"}, "conversation_history": {"type": "array"},
            "track_agent_selected_tools_only": {"type": "boolean"},
        }),
    })),
})  # fmt: skip
LATENCY: Final = keys({
    "average_latency_seconds": {"type": "number"},
    "items": {"type": "array", "items": keys({
        "id": TEXT, "query": TEXT, "latency_seconds": {"type": ["number", "null"]},
    })},
})  # fmt: skip


def test_the_files_of_the_document(project: Path, run: Run) -> None:
    """Five files with the keys of the document's samples, and scores worked out by hand."""
    done = run(*OWN_JUDGE)
    assert done.exit_code == 0, done.output
    assert {path.name for path in (project / "results").iterdir()} == {
        "workflow_output.json", "report_evaluator_output.json", "qa_evaluator_output.json",
        "trajectory_evaluator_output.json", "latency_summary.json",
    }  # fmt: skip
    report, qa = (
        output(project, "report_evaluator_output.json"),
        output(project, "qa_evaluator_output.json"),
    )
    trajectory = output(project, "trajectory_evaluator_output.json")
    latency = output(project, "latency_summary.json")
    for value, schema in ((report, REPORT), (qa, QA), (trajectory, TRAJECTORY), (latency, LATENCY)):
        jsonschema.validate(value, schema)
    ids = ["001", "2", "3", "mt_001_turn_1", "mt_001_turn_2"]
    for found in (report, qa, trajectory):
        assert [item["id"] for item in found["eval_output_items"]] == ids
    assert report["average_score"] == pytest.approx((1 + 0.75 + 0.25) / 3)
    assert report["average_vlm_field_score"] == 0.25
    assert qa["average_score"] == pytest.approx(0.2)  # the last number, and not 1
    assert [item["score"] for item in qa["eval_output_items"]] == [None, 0.2, None, None, 0.2]
    assert trajectory["average_score"] == pytest.approx(0.9)
    assert qa["eval_output_items"][0]["reasoning"] == "Skipped: not marked for qa evaluation"
    assert "workflow:" in done.output
    assert "functions:" in done.output
    assert re.search(r"qa_evaluator +0\.2000 +0\.0000 +2 +0", done.output)


def test_the_question_to_the_judge(project: Path, run: Run) -> None:
    """The third row has no expected calls; the second turn has the first one as history."""
    assert run(*OWN_JUDGE).exit_code == 0
    lines = (project / "questions.txt").read_text("utf-8").splitlines()
    questions = [json.loads(line) for line in lines]
    third = next(each for each in questions if "What videos are available?" in each)
    assert third.startswith("WITHOUT")
    assert "(no previous turns)" in third
    assert "Action: list_videos" in third
    assert "NaN" not in third
    with_history = next(each for each in questions if "[turn_1] User:" in each)
    assert "[turn_1] Assistant: I see a street." in with_history
    first_turn = next(each for each in questions if "Show the video" in each and "WITH " in each)
    assert '"sensor_id": "example-video"' in first_turn
    rows = output(project, "workflow_output.json")
    assert rows[2]["generated_answer"] == "<agent-think>hm</agent-think>example-video"
    assert rows[2]["intermediate_steps"][0]["payload"]["name"] == "list_videos"
    assert rows[4]["_conversation_history"] == [
        {"turn_id": "turn_1", "query": "Show the video example-video", "answer": "I see a street."}
    ]
    messages = (project / "messages.txt").read_text("utf-8").splitlines()
    assert "2 And what do you see in it?" in messages  # a question and an answer came before


def test_a_filter_runs_whole_conversations(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATASET_FILTER", "qa")
    assert run(*OWN_JUDGE).exit_code == 0
    qa = output(project, "qa_evaluator_output.json")["eval_output_items"]
    assert [(item["id"], item["score"]) for item in qa] == [
        ("2", 0.2), ("mt_001_turn_1", None), ("mt_001_turn_2", 0.2),
    ]  # fmt: skip
    assert len((project / "messages.txt").read_text("utf-8").splitlines()) == 3
    trajectory = output(project, "trajectory_evaluator_output.json")
    assert trajectory["average_score"] is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("all,qa", "DATASET_FILTER='all' cannot be combined with other values"),
        ("foo", "Invalid DATASET_FILTER values: {'foo'}. Must be one of:"),
        ("report", "dataset.json: no row of the dataset is wanted, by DATASET_FILTER"),
    ],
)
def test_a_filter_that_means_nothing(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    (project / "dataset.json").write_text(json.dumps([SINGLES[2]]), "utf-8")
    monkeypatch.setenv("DATASET_FILTER", value)
    done = run(*OWN_JUDGE)
    assert done.exit_code == 2
    assert said in " ".join(done.output.split())
    assert not (project / "messages.txt").exists()


def test_nothing_of_the_user_is_deleted(project: Path, run: Run) -> None:
    """Also where the file asks for it, as its own toolkit does before each run."""
    (project / "results").mkdir()
    (project / "results/mine.txt").write_text("mine", "utf-8")
    config = CONFIG.replace(
        "    output_dir: results\n", "    output: {dir: results, cleanup: true}\n"
    )
    (project / "config.yml").write_text(config, "utf-8")
    done = run(*OWN_JUDGE)
    assert done.exit_code == 0, done.output
    assert (project / "results/mine.txt").read_text("utf-8") == "mine"
    assert "no file of yours is deleted" in done.output
    assert not (project / "results/.scouter").exists()


KILLING: Final = """
import os, signal
import vss_agent

calls = 0


def answer(message, history):
    global calls
    calls += 1
    if calls == int(os.environ["KILL_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)
    return vss_agent.answer(message, history)
"""


def test_a_killed_run_goes_on(project: Path) -> None:
    """After 5 of 10 rows the process is killed; the same command asks the other 5."""
    rows = [
        {"id": f"{at:03}", "query": f"What is in video {at}?", "ground_truth": "a street",
         "evaluation_method": ["qa"]}
        for at in range(10)
    ]  # fmt: skip
    (project / "dataset.json").write_text(json.dumps(rows), "utf-8")
    config = CONFIG.replace("max_concurrency: 10", "max_concurrency: 1")
    (project / "config.yml").write_text(config, "utf-8")
    (project / "killing.py").write_text(KILLING, "utf-8")
    command = [sys.executable, "-c", "from scouter.cli.app import main; main()"]
    options = ["eval", "--config", "config.yml", "--agent", "killing:answer", *OWN_JUDGE]
    environ = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{project}", "KILL_AT": "6"}
    first = subprocess.run(
        [*command, *options], env=environ, capture_output=True, text=True, timeout=120
    )
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert len((project / "messages.txt").read_text("utf-8").splitlines()) == 5
    assert not (project / "results/workflow_output.json").exists()
    second = subprocess.run(
        [*command, *options], env=environ, capture_output=True, text=True, timeout=120
    )
    assert second.returncode == 0, second.stderr
    messages = (project / "messages.txt").read_text("utf-8").splitlines()
    assert sorted(messages) == [f"0 What is in video {at}?" for at in range(10)]
    assert "5 of 10 attempts taken from" in second.stderr
    qa = output(project, "qa_evaluator_output.json")
    assert [item["score"] for item in qa["eval_output_items"]] == [0.2] * 10
    assert len(output(project, "workflow_output.json")) == 10
    assert not (project / "results/.scouter").exists()


def test_a_conversation_that_was_killed_has_the_same_verdicts_per_turn(project: Path) -> None:
    """The process dies in the second turn, so that the first one runs again as well."""
    rows = [SINGLES[1], TALK, {**TALK, "id": "mt_002"}]
    (project / "dataset.json").write_text(json.dumps(rows), "utf-8")
    config = CONFIG.replace("max_concurrency: 10", "max_concurrency: 1")
    (project / "config.yml").write_text(config, "utf-8")
    command = [sys.executable, "-c", "from scouter.cli.app import main; main()"]
    (project / "killing.py").write_text(KILLING, "utf-8")

    def verdicts(kill_at: int) -> "tuple[int, Any]":
        environ = {
            **os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{project}", "KILL_AT": f"{kill_at}"
        }  # fmt: skip
        options = ["eval", "--config", "config.yml", "--agent", "killing:answer", *OWN_JUDGE]
        done = subprocess.run([*command, *options], env=environ, capture_output=True, timeout=120)
        names = ("trajectory_evaluator", "qa_evaluator")
        return done.returncode, {
            name: [(item["id"], item["score"]) for item in found["eval_output_items"]]
            for name in names if done.returncode == 0
            for found in [output(project, f"{name}_output.json")]
        }  # fmt: skip

    code, whole = verdicts(0)
    assert code == 0
    ids = ["2", "mt_001_turn_1", "mt_001_turn_2", "mt_002_turn_1", "mt_002_turn_2"]
    assert [name for name, _ in whole["qa_evaluator"]] == ids
    assert verdicts(5) == (-signal.SIGKILL, {})
    count = len((project / "messages.txt").read_text("utf-8").splitlines())
    assert verdicts(0) == (0, whole)
    assert len((project / "messages.txt").read_text("utf-8").splitlines()) == count + 2


def test_a_run_that_was_complete_asks_anew(project: Path, run: Run) -> None:
    (project / "dataset.json").write_text(json.dumps([SINGLES[2]]), "utf-8")
    for _ in range(2):
        assert run(*OWN_JUDGE).exit_code == 0
    assert len((project / "messages.txt").read_text("utf-8").splitlines()) == 2


FAILING: Final = """
import vss_agent


def answer(message, history):
    if "Show" in message or "available" in message:
        raise RuntimeError("no video")
    return vss_agent.answer(message, history)
"""


def test_an_agent_that_fails_leaves_the_others_their_scores(project: Path, run: Run) -> None:
    (project / "failing.py").write_text(FAILING, "utf-8")
    done = run(*OWN_JUDGE, agent="failing:answer")
    assert done.exit_code == 1
    verdicts = output(project, "trajectory_evaluator_output.json")["eval_output_items"]
    assert [item["score"] for item in verdicts] == [None, 0.9, None, None, None]
    assert "RuntimeError: no video" in verdicts[2]["reasoning"]["error"]
    assert verdicts[4]["reasoning"]["error"].endswith("not called: an earlier turn failed")
    rows = output(project, "workflow_output.json")
    assert rows[2]["generated_answer"] is None
    assert [row.get("error", "")[:12] for row in rows] == ["", "", "RuntimeError", "RuntimeError",
                                                          "not called: "]  # fmt: skip
    assert output(project, "latency_summary.json")["items"][4]["latency_seconds"] is None


# --- models of the file ---


def write_config(project: Path, url: str) -> None:
    """Have the models of the file called at an address, about one row."""
    config = CONFIG.replace("http://127.0.0.1:9/v1", url)
    (project / "config.yml").write_text(config, "utf-8")
    (project / "dataset.json").write_text(json.dumps([SINGLES[1]]), "utf-8")


def test_no_key_goes_to_a_foreign_address(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But where the user's own settings have an entry for the model, and name the key."""
    for name in ("OPENAI_API_KEY", "NVIDIA_API_KEY", "HOUSE_KEY"):
        monkeypatch.setenv(name, f"secret-of-{name}")
    with RecordingServer("0.7") as server:
        write_config(project, server.url)
        done = run("--judge-cache", "none")
        assert done.exit_code == 0, done.output
        assert len(server.bodies) == 2  # the answer, and the trajectory
        assert "secret" not in json.dumps([server.headers, server.bodies])
        assert server.bodies[0]["model"] == "judge-model"
        assert (server.bodies[0]["max_tokens"], server.bodies[0]["temperature"]) == (2048, 0.0)
        assert "is called without a key" in done.output
        entry = {"kind": "openai", "base_url": server.url, "key_variable": "HOUSE_KEY"}
        providers = {"providers": {"eval_llm_judge": entry}}
        (project / "providers.json").write_text(json.dumps(providers), "utf-8")
        assert run("--judge-cache", "none", "--providers", "providers.json").exit_code == 0
        assert [each["authorization"] for each in server.headers[2:]] == [
            "Bearer secret-of-HOUSE_KEY"
        ] * 2
    assert output(project, "qa_evaluator_output.json")["average_score"] == 0.7


def test_a_key_in_the_file_is_not_used(project: Path, run: Run) -> None:
    with RecordingServer("1") as server:
        write_config(project, server.url)
        text = (project / "config.yml").read_text("utf-8")
        text = text.replace("    max_tokens", "    api_key: secret-1\n    max_tokens")
        (project / "config.yml").write_text(text, "utf-8")
        done = run("--judge-cache", "none")
        assert done.exit_code == 0, done.output
        assert "secret-1" not in json.dumps(server.headers)
    assert "llms.eval_llm_judge.api_key is not used" in done.output
    assert "secret-1" not in done.output


def test_a_judge_that_has_no_number_is_an_error(project: Path, run: Run) -> None:
    with RecordingServer("8/10") as server:
        write_config(project, server.url)
        done = run("--judge-cache", "none")
        assert len(server.bodies) == 6  # either question three times
    assert done.exit_code == 1
    [verdict] = output(project, "qa_evaluator_output.json")["eval_output_items"]
    assert verdict["score"] is None
    assert verdict["reasoning"]["error"].startswith("parse: Could not extract score")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("_type: nim", "_type: aws_bedrock", "llms.eval_llm_judge: the _type 'aws_bedrock'"),
        ("http://127.0.0.1:9/v1", "LLM_URL", "llms.eval_llm_judge: Value error, expected an"),
        ("llm_name: eval_llm_judge\n      evaluation_method_id: qa", "llm_name: other",
         "evaluator 'qa_evaluator': llm_name 'other': there is no such entry"),
        ("metrics.yml", "none.yml", "none.yml"),
        ("path: reports", "bucket: x", "reports are read from a folder"),
        ("path: reports", "path: nowhere", "there is no such folder"),
        ("include_vlm_output: true", "include_vlm: true", "config.yml, line"),
        ("_type: json", "_type: custom", "runs a function of the toolkit"),
        ("dataset.json", "none.json", "none.json: there is no such file"),
        ("    qa_evaluator:", "    ../qa:", "evaluator '../qa': no file can be called so"),
        ("    qa_evaluator:", "    Workflow:", "evaluator 'Workflow': no file can be called so"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_before_any_call(
    project: Path, run: Run, old: str, new: str, said: str
) -> None:
    assert old in CONFIG
    (project / "config.yml").write_text(CONFIG.replace(old, new, 1), "utf-8")
    done = run(*OWN_JUDGE)
    assert (done.exit_code, (project / "messages.txt").exists()) == (2, False), done.output
    assert said in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("kind", "text", "said"),
    [
        ("csv", "id,query\n1,What, then?\n", "data.txt: row 1 has not 2 cells, as the header has"),
        ("csv", 'id,query\n1,"What', "data.txt, line 1: no CSV: "),
        ("json", "[{]", "data.txt, line 1: "),
        ("parquet", "PAR1", "data.txt: cannot read the file: "),
    ],
)
def test_a_dataset_that_cannot_be_read_is_named(
    project: Path, run: Run, kind: str, text: str, said: str
) -> None:
    """Whatever its name ends with."""
    (project / "data.txt").write_text(text, "utf-8")
    config = CONFIG.replace("_type: json", f"_type: {kind}").replace("dataset.json", "data.txt")
    (project / "config.yml").write_text(config, "utf-8")
    done = run(*OWN_JUDGE)
    assert done.exit_code == 2, done.output
    assert said in " ".join(done.output.split())


def test_a_row_whose_id_another_one_has_is_not_lost_in_silence(project: Path, run: Run) -> None:
    """A copy of a row asks nothing more."""
    rows = [SINGLES[1], SINGLES[1]]
    (project / "dataset.json").write_text(json.dumps(rows), "utf-8")
    assert run(*OWN_JUDGE).exit_code == 0
    rows[1] = {**SINGLES[1], "query": "And what then?"}
    (project / "dataset.json").write_text(json.dumps(rows), "utf-8")
    done = run(*OWN_JUDGE)
    assert done.exit_code == 1, done.output
    assert "not judged: a second row with the id '2' is left out" in " ".join(done.output.split())


def test_an_evaluator_of_another_kind_is_left_out(project: Path, run: Run) -> None:
    more = "    ragas_accuracy:\n      _type: ragas\n      metric: AnswerAccuracy\n"
    (project / "config.yml").write_text(CONFIG + more, "utf-8")
    (project / "dataset.json").write_text(json.dumps([TALK]), "utf-8")
    done = run(*OWN_JUDGE)
    assert done.exit_code == 1, done.output
    assert (
        "not judged: evaluator 'ragas_accuracy' (_type: ragas; use customized_qa_evaluator)"
        in " ".join(done.output.split())
    )
    assert not (project / "results/ragas_accuracy_output.json").exists()
    assert run(*OWN_JUDGE, "--allow-unjudged").exit_code == 0


def test_an_evaluator_of_ones_own_is_a_check_of_its_name(project: Path, run: Run) -> None:
    """It reads the row, is gated and written like any other; one that raises has no score."""
    (project / "own_checks.py").write_text(
        "def is_short(context, spans):\n"
        "    answer = context['generated_answer']\n"
        "    return len(answer) < 100, f'{len(answer)} letters'\n\n\n"
        "def breaks(context, spans):\n    raise KeyError('x')\n",
        "utf-8",
    )
    config = yaml.safe_load(CONFIG)
    config["eval"]["evaluators"] = {"brief": {"_type": "is_short"}}
    (project / "config.yml").write_text(yaml.safe_dump(config), "utf-8")
    (project / "dataset.json").write_text(json.dumps([SINGLES[1]]), "utf-8")
    unknown = run(*OWN_JUDGE)
    assert unknown.exit_code == 1
    assert (
        "evaluator 'brief' (_type: is_short; use a check in Python of that name, of the group "
        "scouter.checks)" in said(unknown)
    )
    own = (*OWN_JUDGE, "--checks", "own_checks")
    try:
        done = run(*own, "--min-score", "brief=1")
        config["eval"]["evaluators"]["brief"] = {"_type": "is_short", "threshold": 3}
        (project / "config.yml").write_text(yaml.safe_dump(config), "utf-8")
        refused = run(*own)
        config["eval"]["evaluators"]["brief"] = {"_type": "breaks"}
        (project / "config.yml").write_text(yaml.safe_dump(config), "utf-8")
        broken = run(*own)
    finally:
        use_checks("")  # the program ran in this process
    assert done.exit_code == 0, done.output
    assert refused.exit_code == 2
    assert "eval.evaluators.brief.threshold" in said(refused)
    assert broken.exit_code == 1
    assert "KeyError: 'x' (own_checks.py:7 in breaks)" in said(broken)
    assert output(project, "brief_output.json")["average_score"] is None


@pytest.mark.parametrize("kinds", [(), ("ragas", "trajectory", "tunable_rag_evaluator")])
def test_a_run_without_a_score_is_no_success(
    project: Path, run: Run, kinds: tuple[str, ...]
) -> None:
    """Kind: a green build that evaluated nothing; the toolkit's own evaluators are not here."""
    config = yaml.safe_load(CONFIG)
    config["eval"]["evaluators"] = {f"{kind}_1": {"_type": kind} for kind in kinds}
    (project / "config.yml").write_text(yaml.safe_dump(config), "utf-8")
    (project / "dataset.json").write_text(json.dumps([TALK]), "utf-8")
    done = run(*OWN_JUDGE, "--allow-unjudged", "--allow-errors")
    assert done.exit_code == 1, done.output
    assert "nothing was judged" in done.output
    named = " ".join(run(*OWN_JUDGE).output.split())
    assert all(f"evaluator '{kind}_1' (_type: {kind}; use " in named for kind in kinds)


# --- the run: gates, baseline, repeats, reports ---


def said(done: Done) -> str:
    """Its output with single spaces."""
    return " ".join(done.output.split())


STORED: Final = ("eval", "results.json", "--config", "config.yml")
"""Scores the answers of an earlier run."""


@pytest.mark.parametrize(
    ("gate", "exit_code"),
    [
        ("qa_evaluator=0.8", 1), ("qa_evaluator=0.2", 0), ("report_evaluator=0.6", 0),
        ("report_evaluator=0.7", 1),
    ],
)  # fmt: skip
def test_a_gate_on_a_mean(project: Path, run: Run, gate: str, exit_code: int) -> None:
    """By hand: 0.2 for either answer, and (1 + 0.75 + 0.25) / 3 for the report."""
    done = run(*OWN_JUDGE, "--min-score", gate)
    assert done.exit_code == exit_code, done.output
    if exit_code:
        assert f"gate mean score of '{gate.partition('=')[0]}'" in done.output


def test_a_gate_says_from_which_score_on_a_row_passes(project: Path, run: Run) -> None:
    """Two of seven scores are those of answers, and below; without a gate every score passes."""
    options = (*OWN_JUDGE, "--min-score", "qa_evaluator=0.2", "--min-scenario-pass-rate", "1")
    assert run(*options).exit_code == 0
    done = run(*OWN_JUDGE, "--min-score", "QA_evaluator=0.3", "--min-pass-rate", "0.8")
    assert done.exit_code == 1
    assert "2 of 4 scenarios passed" in said(done)
    assert "71.4%" in said(done), said(done)  # 5 of 7


def test_a_run_and_its_stored_answers_are_the_same(project: Path, run: Run) -> None:
    """The saved run is compared with one of its own result file, turn by turn."""
    assert run(*OWN_JUDGE, "--save", "base.json").exit_code == 0
    verdicts = {
        name: output(project, f"{name}_output.json")
        for name in ("report_evaluator", "qa_evaluator", "trajectory_evaluator")
    }
    messages = (project / "messages.txt").read_text("utf-8")
    (project / "results/workflow_output.json").rename(project / "results.json")
    for path in (project / "results").iterdir():
        path.unlink()
    base = ScenarioEvalResults.load(project / "base.json")
    assert base.scenario_ids == ["001", "2", "3", "mt_001"]
    done = run(
        *OWN_JUDGE, "--baseline", "base.json", "--save", "again.json", start=STORED, agent=""
    )
    assert done.exit_code == 0, done.output
    assert "No regression seen. 4 of 4 scenarios passed, 4 of 4 in the baseline" in said(done)
    assert (project / "messages.txt").read_text("utf-8") == messages
    assert verdicts == {name: output(project, f"{name}_output.json") for name in verdicts}
    assert {path.name for path in (project / "results").iterdir()} == {
        f"{name}_output.json" for name in verdicts
    }
    again = ScenarioEvalResults.load(project / "again.json")
    comparison = again.compare_to(base)
    assert not comparison.changes
    assert [each.scenario_id for each in again.scenarios] == base.scenario_ids


def test_answers_that_are_not_there_are_no_answers(project: Path, run: Run) -> None:
    """Of two rows one has an answer; the other's is missing, and that is an error."""
    start = ("eval", "--config", "config.yml")
    without = run(*OWN_JUDGE, start=start, agent="")
    assert without.exit_code == 2
    assert "no row has 'generated_answer'" in said(without)
    rows = [SINGLES[1] | {"generated_answer": "a street"}, SINGLES[1] | {"id": "4"}]
    (project / "dataset.json").write_text(json.dumps(rows), "utf-8")
    done = run(*OWN_JUDGE, start=start, agent="")
    assert done.exit_code == 1
    found = output(project, "qa_evaluator_output.json")
    assert [item["score"] for item in found["eval_output_items"]] == [0.2, None]
    error = found["eval_output_items"][1]["reasoning"]["error"]
    assert error == "the agent failed: the row has no 'generated_answer'"


def test_steps_that_the_toolkit_wrote(project: Path, run: Run) -> None:
    """What only began is no step; the tool is the one that the model requested."""
    calls = "Tool calls: [{'id': '1', 'function': {'name': 'look', 'arguments': {}}}]"
    steps = [
        {"parent_id": "root", "payload": {"event_type": kind, "name": name, "data": data}}
        for kind, name, data in (
            ("LLM_START", "m", {}),
            ("LLM_END", "m", {"input": "q", "output": calls}),
            ("TOOL_END", "look", {"input": "{'sensor_id': 'example-video'}", "output": "a street"}),
            ("TOOL_END", "other", {"input": "{}", "output": ""}),
        )
    ]
    row = {**SINGLES[1], "generated_answer": "a street", "intermediate_steps": steps}
    (project / "dataset.json").write_text(json.dumps([row]), "utf-8")
    assert run(*OWN_JUDGE, start=("eval", "--config", "config.yml"), agent="").exit_code == 0
    [item] = output(project, "trajectory_evaluator_output.json")["eval_output_items"]
    assert item["reasoning"]["actual_tool_calls"] == [
        {"step": 1, "name": "look", "params": {"sensor_id": "example-video"}}
    ]


def test_a_stored_turn_refers_to_an_earlier_one(project: Path, run: Run) -> None:
    """The video of the second turn is what a tool of the first one gave back."""
    expected = [{"name": "look", "step": 1, "params": {
        "sensor_id": {"$ref": {"tool": "list_videos", "path": [0], "turn": "turn_1"}}
    }}]  # fmt: skip
    first, second = TALK["conversation"]
    conversation = TALK | {"conversation": [first, second | {"trajectory_ground_truth": expected}]}
    (project / "dataset.json").write_text(json.dumps([conversation]), "utf-8")
    assert run(*OWN_JUDGE).exit_code == 0
    rows = output(project, "workflow_output.json")
    rows[0]["intermediate_steps"] = [{"payload": {
        "event_type": "TOOL_END", "name": "list_videos",
        "data": {"input": {}, "output": "['example-video']"},
    }}]  # fmt: skip
    (project / "results.json").write_text(json.dumps(rows), "utf-8")
    assert run(*OWN_JUDGE, start=STORED, agent="").exit_code == 0
    items = output(project, "trajectory_evaluator_output.json")["eval_output_items"]
    assert [item["id"] for item in items] == ["mt_001_turn_1", "mt_001_turn_2"]
    assert items[1]["reasoning"]["resolved_expected_tool_calls"] == [
        {"name": "look", "step": 1, "params": {"sensor_id": "example-video"}}
    ]


def test_calls_that_nobody_reported_are_no_evidence(project: Path, run: Run) -> None:
    """An agent without spans may have called anything; its answers are judged all the same."""
    (project / "worse.py").write_text(WORSE, "utf-8")
    (project / "dataset.json").write_text(json.dumps(SINGLES[1:2]), "utf-8")
    done = run(*OWN_JUDGE, agent="worse:answer")
    assert done.exit_code == 1, done.output
    assert "not reported: the agent has left no spans of its work" in said(done)
    for _ in range(2):  # of the agent, and of its stored answers
        [item] = output(project, "trajectory_evaluator_output.json")["eval_output_items"]
        assert (item["score"], list(item["reasoning"])) == (None, ["error"])
        assert output(project, "qa_evaluator_output.json")["average_score"] == 0.2
        (project / "results/workflow_output.json").rename(project / "results.json")
        (project / "results/trajectory_evaluator_output.json").unlink()
        assert run(*OWN_JUDGE, start=STORED, agent="").exit_code == 1
        (project / "results.json").rename(project / "results/workflow_output.json")


def test_a_check_is_planned_by_stored_runs(project: Path, run: Run) -> None:
    """Nothing runs, and the command to type is one of a config file."""
    assert run(*OWN_JUDGE, "--repeats", "2", "--save", "base.json").exit_code == 0
    messages = (project / "messages.txt").read_text("utf-8")
    done = run(*OWN_JUDGE, "--baseline", "base.json", "--plan")
    assert done.exit_code == 0, done.output
    assert "scouter eval --config config.yml --agent vss_agent:answer" in said(done)
    assert (project / "messages.txt").read_text("utf-8") == messages


def test_a_run_is_pushed(project: Path, run: Run) -> None:
    """The stored evaluator is a task whose function nobody runs there."""
    service = Service(project / "there")
    with serve(service.collector.app) as url:
        assert run(*OWN_JUDGE, "--push", url).exit_code == 0
        with ScouterClient(url) as client:
            [found] = client.runs()
            assert (found.scenarios, found.agent) == (4, "vss_agent:answer")
    service.stop()


def test_repeats_are_called_as_the_toolkit_calls_them(project: Path, run: Run) -> None:
    """All rows once, then all again; the journal of the run is gone."""
    assert run(*OWN_JUDGE, "--repeats", "2").exit_code == 0
    names = ("001", "2", "3")
    ids = [
        each
        for at in (0, 1)
        for each in (
            *(f"{name}_rep{at}" for name in names),
            f"mt_001_rep{at}_turn_1", f"mt_001_rep{at}_turn_2",
        )
    ]  # fmt: skip
    rows = output(project, "workflow_output.json")
    assert [row["id"] for row in rows] == ids
    found = output(project, "qa_evaluator_output.json")["eval_output_items"]
    assert [item["id"] for item in found] == ids
    assert len(output(project, "latency_summary.json")["items"]) == 10
    assert not (project / "results/.scouter").exists()


def test_repeats_of_one_conversation_stay_apart_where_they_are_stored(
    project: Path, run: Run
) -> None:
    """Nothing stands between their rows."""
    (project / "dataset.json").write_text(json.dumps([TALK]), "utf-8")
    assert run(*OWN_JUDGE, "--repeats", "2").exit_code == 0
    (project / "results/workflow_output.json").rename(project / "results.json")
    done = run(*OWN_JUDGE, "--save", "again.json", start=STORED, agent="")
    assert done.exit_code == 0, done.output
    again = ScenarioEvalResults.load(project / "again.json")
    assert [each.scenario_id for each in again.scenarios] == ["mt_001_rep0", "mt_001_rep1"]


def test_a_conversation_needs_no_question_and_a_right_answer_may_be_long(
    project: Path, run: Run
) -> None:
    """The row of a conversation asks nothing itself; a long text is no path of a reference."""
    conversation = {name: value for name, value in TALK.items() if name != "query"}
    row = {**SINGLES[1], "ground_truth": "a street " * 100, "evaluation_method": ["qa", "report"]}
    (project / "dataset.json").write_text(json.dumps([conversation, row]), "utf-8")
    assert run(*OWN_JUDGE).exit_code == 1
    assert len(output(project, "workflow_output.json")) == 3
    scores = [
        each["score"] for each in output(project, "qa_evaluator_output.json")["eval_output_items"]
    ]
    assert scores == [None, 0.2, 0.2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("WITH {question}", "WITH the {question}"),
        ("track_agent_selected_tools_only: true", "track_agent_selected_tools_only: false"),
        ("model_name: judge-model", "model_name: another"),
    ],
)
def test_an_evaluator_that_changed_is_not_compared(
    project: Path, run: Run, old: str, new: str
) -> None:
    """A prompt, a setting and a model; the evaluator that did not change is."""
    assert run(*OWN_JUDGE, "--save", "base.json").exit_code == 0
    text = (project / "config.yml").read_text("utf-8")
    assert old in text
    (project / "config.yml").write_text(text.replace(old, new), "utf-8")
    done = run(*OWN_JUDGE, "--baseline", "base.json")
    assert done.exit_code == 3, done.output
    assert "trajectory_evaluator" in said(done)
    accepted = ["--accept-changed", "trajectory_evaluator"]
    if "model" in old:
        accepted += ["--accept-changed", "qa_evaluator", "--accept-changed", "report_evaluator"]
    assert run(*OWN_JUDGE, "--baseline", "base.json", *accepted).exit_code == 0


def test_another_reference_is_another_question(project: Path, run: Run) -> None:
    """The right report is in a file beside the dataset; the other rows are compared."""
    assert run(*OWN_JUDGE, "--save", "base.json").exit_code == 0
    (project / "truth.json").write_text(json.dumps(TRUTH | {"title": "Fire"}), "utf-8")
    done = run(*OWN_JUDGE, "--baseline", "base.json")
    assert done.exit_code == 3, done.output
    assert run(*OWN_JUDGE, "--baseline", "base.json", "--accept-changed", "001").exit_code == 0


def test_a_gate_that_came_since_judges_the_baseline_too(project: Path, run: Run) -> None:
    """No judge is called again: the stored scores, 0.2, are compared with the new least one."""
    assert run(*OWN_JUDGE, "--save", "base.json").exit_code == 0
    lower = run(*OWN_JUDGE, "--baseline", "base.json", "--min-score", "qa_evaluator=0.1")
    assert lower.exit_code == 0, lower.output
    assert "4 of 4 scenarios passed, 4 of 4 in the baseline" in said(lower)
    higher = run(*OWN_JUDGE, "--baseline", "base.json", "--min-score", "qa_evaluator=0.3")
    assert higher.exit_code == 1
    assert "2 of 4 scenarios passed, 2 of 4 in the baseline" in said(higher)


def test_reports_and_a_worse_version(project: Path, run: Run) -> None:
    """A version without its tool calls and with other answers; the judge tells by the answer."""
    (project / "worse.py").write_text(WORSE, "utf-8")
    rows = [SINGLES[1] | {"id": f"r{at}"} for at in range(12)]
    (project / "dataset.json").write_text(json.dumps(rows), "utf-8")
    judge = ("--judge", "worse:judge", "--min-score", "qa_evaluator=0.5")
    assert run(*judge, "--save", "base.json").exit_code == 0
    reports = ("--html", "r.html", "--junit", "r.xml", "--markdown", "r.md", "--json", "r.json")
    worse = run(*judge, "--baseline", "base.json", *reports, agent="worse:answer")
    assert worse.exit_code == 1, worse.output
    assert said(worse).count("egress") >= 1
    report = json.loads((project / "r.json").read_text("utf-8"))
    assert report["exit_code"] == 1
    assert all("r11" in (project / name).read_text("utf-8") for name in ("r.html", "r.xml", "r.md"))
    beside = run(*judge, "--interleave", "vss_agent:answer", "--confirm", "2", agent="worse:answer")
    assert beside.exit_code == 1, beside.output


WORSE: Final = """
def answer(message):
    return "I see nothing."


def judge(request):
    return "0.9" if "a street." in request.messages[-1]["content"] else "0.1"
"""

CANNOT: Final = {
    "--repeats 2": "the answers of the file are scored, which are there once",
    "--confirm 2 --baseline b.json": "give --agent, or leave it out",
    "--retries 1": "give --agent",
    "--resume r.jsonl": "give --agent",
    "--profile p.yaml": "give --agent",
    "--timeout 3": "give --agent",
    "--simulated-user judge": "give --agent",
    "--calibration c.json": "evaluators of --config give scores",
    "--plan": "give --agent",
    "--format vertex": "the file is a format of its own",
    "--output out": "the file names the folder of its results itself",
    "--min-score nope=1": "no evaluator 'nope' gives a score",
}
"""Options of a run of stored answers that cannot be, and why."""


@pytest.mark.parametrize("options", CANNOT)
def test_what_cannot_be_is_refused_with_the_reason(project: Path, run: Run, options: str) -> None:
    (project / "results.json").write_text(
        json.dumps([SINGLES[1] | {"generated_answer": "a street"}]), "utf-8"
    )
    done = run(*OWN_JUDGE, *options.split(), start=STORED, agent="")
    assert done.exit_code == 2, done.output
    assert options.split()[0].partition("=")[0] in said(done) or "nope" in options
    assert CANNOT[options] in said(done)
    assert not (project / "results").exists()


def test_nobody_plays_the_user_of_a_row(project: Path, run: Run) -> None:
    done = run(*OWN_JUDGE, "--simulated-user", "judge")
    assert done.exit_code == 2
    assert "rows have all their turns" in said(done)
    without = run(start=["eval"])
    assert without.exit_code == 2
    assert "missing argument SCENARIOS, or --config FILE" in said(without)


def test_importing_the_engine_loads_no_formats() -> None:
    code = "import scouter.evaluate, sys; print([m for m in sys.modules if 'formats' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stderr
