"""`scouter eval --format vertex` and `adk` as a program; the figures are worked out by hand."""

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from scouter.client.client import ScouterClient
from scouter.evaluate.api.replay import ScenarioEvalResults
from tests.collector.conftest import Service
from tests.scouter.cli.conftest import Scouter
from tests.support.served import serve

VERTEX = ("--format", "vertex")
STORED = (
    "--repeats 2", "--confirm 2 --baseline data.json", "--resume r.jsonl", "--retries 1",
    "--timeout 9", "--simulated-user home:ends", "--profile p.yaml",
    "--sequential --baseline data.json",
)  # fmt: skip
"""Options that need an agent: answers that are stored are there once, and without spans."""


def call(name: str, **arguments: object) -> dict[str, object]:
    return {"tool_name": name, "tool_input": arguments}


OFF = call("set_device_info", device_id="device_2", updates={"status": "OFF"})
PREFERENCES = call("get_user_preferences", user_id="user_y")
ROWS: list[dict[str, Any]] = [
    {
        "prompt": "Turn off device_2.",
        "predicted_trajectory": [call("set_device_info", device_id="device_3")],
        "reference_trajectory": [OFF],
    },
    {
        "prompt": "Make it warm for user_y.",
        "predicted_trajectory": [
            call("get_user_preferences", user_id="user_z"),
            call("set_temperature", location="Living Room", temperature=23),
        ],
        "reference_trajectory": [
            PREFERENCES,
            call("set_temperature", location="Living Room", temperature=23),
        ],
    },
]
"""No call of the first row is right, and one of two calls of the second."""

AGENT = f"""
import sys

def agent(prompt):
    print("prompt:", prompt)
    if "device_2" in prompt:
        return {{"response": "off", "predicted_trajectory": [{OFF!r}]}}
    raise RuntimeError("no such user")


def ends(prompt):
    sys.exit(0)


class Chain:
    def query(self, input):
        return agent(input)


chain = Chain()


def length(row):
    return len(row["prompt"])


def judge(question):
    return {{"score": 4, "explanation": "short enough"}}


def __getattr__(name):
    if name != "polite":
        raise AttributeError(name)
    from scouter.formats.vertex import PointwiseMetric
    return PointwiseMetric("polite", "From 1 to 5, how polite is it: {{prompt}}")
"""


@pytest.fixture
def folder(project: Path) -> Path:
    (project / "home.py").write_text(AGENT, encoding="utf-8")
    (project / "data.json").write_text(json.dumps(ROWS), encoding="utf-8")
    return project


def written(folder: Path) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Rows and summary of the one run that wrote into `out`."""
    (found,) = (folder / "out").iterdir()
    lines = (found / "metrics_table.jsonl").read_text(encoding="utf-8").splitlines()
    summary = json.loads((found / "summary_metrics.json").read_text(encoding="utf-8"))
    return [json.loads(line) for line in lines], summary


def test_the_dataset_s_own_calls_are_scored(folder: Path, scouter: Scouter) -> None:
    """Precision 0 and 1/2: mean 0.25, deviation sqrt(2) / 4 = 0.3536."""
    done = scouter("eval", "data.json", *VERTEX, "--output", "out")
    assert done.returncode == 0, done.stderr
    lines = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line.strip()}
    assert lines["trajectory_precision"] == ["0.2500", "0.3536", "2", "0"]
    assert lines["trajectory_exact_match"] == ["0.0000", "0.0000", "2", "0"]
    assert "Recorded. 0 of 2 scenarios passed" in done.stdout
    rows, summary = written(folder)
    assert [row["trajectory_recall/score"] for row in rows] == [0, 0.5]
    assert "user_z" in rows[1]["trajectory_recall/explanation"]
    assert [{name: row[name] for name in ROWS[0]} for row in rows] == ROWS
    assert summary["row_count"] == 2
    assert summary["trajectory_precision/mean"] == 0.25
    assert summary["trajectory_precision/std"] == pytest.approx(0.353553, abs=1e-6)


def write_jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")


def as_cells() -> list[dict[str, str]]:
    return [
        {name: cell if isinstance(cell, str) else json.dumps(cell) for name, cell in row.items()}
        for row in ROWS
    ]


def write_csv(path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(as_cells())


def write_parquet(path: Path) -> None:
    pd.DataFrame(as_cells()).to_parquet(path)


@pytest.mark.parametrize(
    ("name", "write"),
    [("d.jsonl", write_jsonl), ("d.csv", write_csv), ("d.parquet", write_parquet)],
)
def test_every_kind_of_file_gives_the_same(
    folder: Path, scouter: Scouter, name: str, write: Any
) -> None:
    write(folder / name)
    done = scouter("eval", name, *VERTEX, "--output", "out")
    assert done.returncode == 0, done.stderr
    rows, summary = written(folder)
    assert [{key: row[key] for key in ROWS[0]} for row in rows] == ROWS
    assert summary["trajectory_recall/mean"] == 0.25


def test_an_agent_that_raises_fails_its_row_only(folder: Path, scouter: Scouter) -> None:
    """The first row is right; the second has no score, and stops the release."""
    run = ("eval", "data.json", *VERTEX, "--agent", "home:agent")
    done = scouter(*run, "--output", "out")
    assert done.returncode == 1
    assert "got      RuntimeError: no such user (home.py:8 in agent)" in done.stdout
    assert "prompt: Turn off" in done.stderr
    assert "prompt: Turn off" not in done.stdout
    assert "Errored. 1 of 2 scenarios passed." in done.stdout
    rows, summary = written(folder)
    assert [row["failure"] for row in rows] == [0, 1]
    assert rows[0]["response"] == "off"
    assert rows[0]["trajectory_exact_match/score"] == 1
    assert rows[1]["latency_in_seconds"] is rows[1]["trajectory_exact_match/score"] is None
    assert summary["failure/mean"] == 0.5
    assert summary["trajectory_exact_match/n_error"] == 1
    assert summary["trajectory_exact_match/std"] is None  # of one score
    gate = ("--allow-errors", "--min-score")
    allowed = scouter(*run, *gate, "trajectory_exact_match=0.5", "--quiet")
    assert (allowed.returncode, allowed.stdout) == (
        0, "Passed. 1 of 2 scenarios passed; 1 gate met.\n"
    )  # fmt: skip
    missed = scouter(*run, *gate, "trajectory_exact_match=0.6")
    assert missed.returncode == 1
    assert "1.0000 (of 1; 1 errored, 0 for the gate), wanted at least 0.6" in missed.stdout


def test_a_mended_agent_is_not_blamed_for_what_its_table_says(
    folder: Path, scouter: Scouter
) -> None:
    """The table of a run with failures is a dataset for the next one."""
    run = (*VERTEX, "--agent", "home:agent")
    assert scouter("eval", "data.json", *run, "--output", "out").returncode == 1
    (table,) = (folder / "out").glob("*/metrics_table.jsonl")
    assert scouter("eval", table, *VERTEX).returncode == 1
    mended = AGENT.replace(
        'raise RuntimeError("no such user")', 'return {"predicted_trajectory": []}'
    )
    (folder / "home.py").write_text(mended, encoding="utf-8")
    done = scouter("eval", table, *run)
    assert (done.returncode, "RuntimeError" in done.stdout) == (0, False), done.stdout


def test_an_agent_that_exits_does_not_end_the_run(folder: Path, scouter: Scouter) -> None:
    """Its exit code of 0 would be taken for a passed check."""
    done = scouter("eval", "data.json", *VERTEX, "--agent", "home:ends", "--allow-errors",
                   "--min-score", "trajectory_recall=0")  # fmt: skip
    assert done.returncode == 1
    assert "the agent called sys.exit(0)" in done.stdout
    assert "gate mean score of 'trajectory_recall': no score, wanted at least 0" in done.stdout


@pytest.mark.parametrize(
    ("least", "code"),
    [("trajectory_precision=0.25", 0), ("trajectory_precision=0.26", 1)],
)
def test_the_gate(folder: Path, scouter: Scouter, least: str, code: int) -> None:
    done = scouter("eval", "data.json", *VERTEX, "--min-score", least,
                   "--min-score", "trajectory_recall=0.2")  # fmt: skip
    assert done.returncode == code
    said = "gate mean score of 'trajectory_precision': 0.2500 (of 2), wanted at least 0.26\n"
    assert (said in done.stdout) == (code == 1)


def test_metrics_by_name_by_tool_and_of_one_s_own(folder: Path, scouter: Scouter) -> None:
    """`set_temperature` is called in one row of two; the prompts have 18 and 24 letters."""
    done = scouter(
        "eval", "data.json", *VERTEX, "--output", "out", "--judge", "home:judge", "--metrics",
        "trajectory_single_tool_use(set_temperature),home:length", "--metrics", "home:polite",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows, summary = written(folder)
    assert [row["trajectory_single_tool_use/score"] for row in rows] == [0, 1]
    assert (summary["length/mean"], summary["polite/mean"]) == (21, 4)
    assert rows[0]["polite/explanation"] == "short enough"


def test_a_row_without_calls_has_no_score(folder: Path, scouter: Scouter) -> None:
    rows = [{**ROWS[0], "predicted_trajectory": None}, ROWS[1]]
    (folder / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    named = ("--metrics", "trajectory_recall, trajectory_precision")
    done = scouter("eval", "data.json", *VERTEX, *named, "--output", "out")
    assert done.returncode == 1
    assert "rows: 1 of 2 records errored" in done.stdout
    table, _ = written(folder)
    assert table[0]["trajectory_recall/error"] == "the row has no predicted_trajectory"


def test_without_rows_nothing_passes(folder: Path, scouter: Scouter) -> None:
    (folder / "none.json").write_text("[]", encoding="utf-8")
    done = scouter("eval", "none.json", *VERTEX)
    assert (done.returncode, "nothing was judged" in done.stdout) == (1, True)


def test_compat_refuses_an_empty_trajectory(folder: Path, scouter: Scouter) -> None:
    rows: list[dict[str, Any]] = [{**ROWS[0], "predicted_trajectory": []}]
    (folder / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    assert scouter("eval", "data.json", *VERTEX).returncode == 0
    assert scouter("eval", "data.json", *VERTEX, "--compat", "vertex").returncode == 1


def test_each_run_has_a_folder_and_leaves_others_alone(folder: Path, scouter: Scouter) -> None:
    (folder / "out").mkdir()
    (folder / "out/mine.txt").write_text("mine", encoding="utf-8")
    for _ in range(2):
        assert scouter("eval", "data.json", *VERTEX, "--output", "out").returncode == 0
    assert len([*(folder / "out").iterdir()]) == 3
    assert (folder / "out/mine.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("gs://b/d.jsonl --format vertex", "gs://b/d.jsonl is not on this machine: copy it with"),
        ("bq://p.d.t --format vertex", "bq://p.d.t is not on this machine: export the table"),
        ("none.json --format vertex", "none.json"),
        ("home.py --format vertex", "home.py"),
        ("--format vertex", "missing argument SCENARIOS"),
        ("data.json --format vertex --metrics nope", "no metric is called 'nope'"),
        ("data.json --format vertex --metrics rouge_l", "needs the column 'response'"),
        ("data.json --format vertex --metrics trajectory_single_tool_use", "expected the tool"),
        ("data.json --format vertex --metrics home:nope", "home has no 'nope'"),
        ("data.json --format vertex --min-score trajectory_recall", "expected TASK=MEAN"),
        ("data.json --format vertex --min-score trajectory_recall=nan", "expected TASK=MEAN"),
        ("data.json --format vertex --min-score bleu=0.5", "no metric 'bleu' is scored"),
        ("data.json --format vertex --agent home", "expected module:name"),
        ("data.json --format vertex --output data.json", "this is a file"),
        ("data.json --format vertex --compat wxo-1.6.9", "belongs to --format watsonx"),
        *[
            (f"data.json --format vertex {option}", f"{option.split()[0]}: without --agent")
            for option in STORED
        ],
        ("data.json --format vertex --plan", "--plan: without --agent"),
        ("data.json --format vertex --interleave home:ends", "--interleave: without --agent"),
        ("data.json --agent home:agent --metrics bleu", "belong to --format vertex"),
        ("data.json --agent home:agent --compat vertex", "belong to --format vertex"),
        ("data.json --agent home:agent --compat wxo-1.6.9", "belongs to --format watsonx"),
        ("data.json", "missing option --agent"),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(
    folder: Path, scouter: Scouter, command: str, said: str
) -> None:
    done = scouter("eval", *shlex.split(command))
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert said in line


def test_eval_sets_of_adk(folder: Path, scouter: Scouter) -> None:
    turn = {
        "user_content": {"parts": [{"text": "Turn off device_2."}]},
        "intermediate_data": {"tool_uses": [{"name": OFF["tool_name"], "args": OFF["tool_input"]}]},
    }
    cases = {"eval_set_id": "home", "eval_cases": [{"eval_id": "off", "conversation": [turn]}]}
    (folder / "home.evalset.json").write_text(json.dumps(cases), encoding="utf-8")
    run = ("eval", "home.evalset.json", "--format", "adk")
    done = scouter(*run, "--agent", "home:agent", "--min-score", "trajectory_exact_match=1")
    assert done.returncode == 0, done.stdout + done.stderr
    without = scouter(*run)
    assert without.returncode == 2
    assert "needs the column 'predicted_trajectory'" in without.stderr


TALK = [
    {
        "query": "Turn off device_2.",
        "expected_tool_use": [OFF],
        "reference": "off",
    },
    {"query": "Is device_2 off?", "expected_tool_use": [OFF], "reference": "off"},
]
"""A conversation in which the agent `home:agent` does and says what is expected."""
ADK = ("eval", "talk.test.json", "--format", "adk", "--agent", "home:agent")


MET = "1 of 1 scenarios passed; 1 gate met"


def criteria(folder: Path, name: str = "test_config.json", **named: Any) -> None:
    (folder / name).write_text(json.dumps({"criteria": named}), encoding="utf-8")


@pytest.mark.parametrize(
    ("wanted", "code", "said"),
    [
        pytest.param({"tool_trajectory_avg_score": 1.0}, 0, MET, id="met"),
        pytest.param(
            {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}, 0,
            MET, id="both of ADK's own",
        ),
        pytest.param(
            {"tool_trajectory_avg_score": {"threshold": 1.0, "match_type": "in-order"}}, 0,
            MET, id="match type",
        ),
        pytest.param(
            {"response_match_score": 1.1}, 1,
            "expected GreaterThanOrEqual 1.1\n    got      1.0", id="not met",
        ),
        pytest.param(
            {"tool_trajectory_avg_score": 1.0, "final_response_match_v2": {"threshold": 0.5}}, 1,
            "not judged: criterion 'final_response_match_v2' of test_config.json", id="a judge's",
        ),
        pytest.param(
            {"rubric_based_final_response_quality_v1": {"threshold": 1}, "hallucinations_v1": 0.5,
             "safety_v1": 0.8},
            1, "criterion 'rubric_based_final_response_quality_v1' of test_config.json, "
            "criterion 'hallucinations_v1' of test_config.json, criterion 'safety_v1'",
            id="only such",
        ),
    ],
)  # fmt: skip
def test_criteria_of_adk_are_judged_or_named(
    folder: Path, scouter: Scouter, wanted: dict[str, Any], code: int, said: str
) -> None:
    """Kind: what a foreign file asks for vanishes, and the build is green."""
    (folder / "talk.test.json").write_text(json.dumps(TALK), encoding="utf-8")
    criteria(folder, **wanted)
    done = scouter(*ADK)
    assert done.returncode == code, done.stdout + done.stderr
    assert said in done.stdout


def test_each_case_has_to_reach_a_criterion(folder: Path, scouter: Scouter) -> None:
    """One case at 0 and one at 1 have the mean 0.5, and the first one misses 0.5 all the same."""
    wrong: list[dict[str, Any]] = [{"query": "device_2?", "expected_tool_use": []}]
    cases: list[dict[str, Any]] = [
        {"name": "wrong", "data": wrong},
        {"name": "right", "data": TALK},
    ]
    (folder / "talk.test.json").write_text(json.dumps(cases), encoding="utf-8")
    criteria(folder, tool_trajectory_avg_score=0.5)
    done = scouter(*ADK)
    assert done.returncode == 1
    assert "gate scenarios passed: 50.0% (1 of 2), wanted at least 100.0%" in done.stdout
    assert "check    rows · mean of trajectory_exact_match" in done.stdout


@pytest.mark.parametrize("name", ["test_config.json", "eval_config.json"])
def test_what_is_left_out_by_choice_is_one_line(folder: Path, scouter: Scouter, name: str) -> None:
    """`--metrics` says what is judged, and `--allow-unjudged` lets the rest go."""
    (folder / "talk.test.json").write_text(json.dumps(TALK), encoding="utf-8")
    criteria(folder, name, safety_v1=0.8, tool_trajectory_avg_score=1)
    assert scouter(*ADK).returncode == 1
    assert scouter(*ADK, "--allow-unjudged").returncode == 0
    chosen = scouter(*ADK, "--metrics", "exact_match")
    assert chosen.returncode == 0
    assert f"scouter: note: not judged: criterion 'safety_v1' of {name}\n" in chosen.stderr


@pytest.mark.parametrize(
    "beside",
    [
        {"rubrics": [{"rubric_id": "polite"}]},
        {"rubric_groups": {"g": [{"content": "polite"}]}},
        {"criteria": "be polite"},
    ],
)
def test_rubrics_of_rows_are_named(folder: Path, scouter: Scouter, beside: dict[str, Any]) -> None:
    """In the rows of Vertex as in the cases of ADK; an empty one asks for nothing."""
    (name,) = beside
    rows: list[dict[str, Any]] = [{**ROWS[0], **beside}, {**ROWS[1], name: []}]
    (folder / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    done = scouter("eval", "data.json", *VERTEX)
    assert done.returncode == 1
    assert f"not judged: {name} (1 of 2 rows): nothing here computes them" in done.stdout
    turn = {"user_content": {"parts": [{"text": "device_2"}]}, "rubrics": [{"rubric_id": "x"}]}
    cases = {"eval_cases": [{"eval_id": "off", "conversation": [turn]}]}
    (folder / "talk.test.json").write_text(json.dumps(cases), encoding="utf-8")
    named = scouter(*ADK)
    assert named.returncode == 1
    assert "not judged: rubrics (1 of 1 row)" in named.stdout


def test_a_simulated_user_by_name(folder: Path, scouter: Scouter) -> None:
    scenario = {"starting_prompt": "Turn off device_2.", "conversation_plan": "Have it turned off."}
    cases = {"eval_cases": [{"eval_id": "off", "conversation_scenario": scenario}]}
    (folder / "talk.test.json").write_text(json.dumps(cases), encoding="utf-8")
    user = "def user(first, answer, history):\n    return '</finished>'\n"
    (folder / "play.py").write_text(user, encoding="utf-8")
    run = (*ADK, "--metrics", "trajectory_single_tool_use(set_device_info)")
    assert scouter(*run).returncode == 2
    done = scouter(*run, "--simulated-user", "play:user")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "trajectory_single_tool_use   1.0000" in done.stdout
    none = scouter(*ADK, "--simulated-user", "play:user")  # no call is expected anywhere
    assert none.returncode == 1


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"tool_trajectory_avg_score": {}}, "no threshold"),
        ({"tool_trajectory_avg_score": {"threshold": 1, "match_type": "FUZZY"}}, "no match type"),
        ({"response_match_score": "high"}, "no threshold"),
    ],
)
def test_a_wrong_criterion_is_refused(
    folder: Path, scouter: Scouter, wanted: dict[str, Any], said: str
) -> None:
    (folder / "talk.test.json").write_text(json.dumps(TALK), encoding="utf-8")
    criteria(folder, **wanted)
    done = scouter(*ADK)
    assert done.returncode == 2
    assert said in done.stderr
    assert "test_config.json, field " in done.stderr


def test_nothing_scored_is_never_passed(folder: Path, scouter: Scouter) -> None:
    """Not even where errors are allowed: there is nothing to let pass."""
    (folder / "none.py").write_text("def answer(prompt):\n    raise OSError\n", encoding="utf-8")
    run = ("eval", "data.json", *VERTEX, "--agent", "none:answer")
    done = scouter(*run, "--allow-errors", "--metrics", "trajectory_exact_match")
    assert done.returncode == 1, done.stdout
    assert "Nothing was judged." in done.stdout


EVAL = ("eval", "data.json", *VERTEX, "--agent", "home:agent", "--metrics", "trajectory_recall")
REPORTS = ("--html", "r.html", "--junit", "r.xml", "--markdown", "r.md", "--json", "r.json")
RAISES = 'raise RuntimeError("no such user")'
MENDED = AGENT.replace(RAISES, 'return {"predicted_trajectory": []}')
"""Its recall is 1 and 0."""
BETTER = AGENT.replace(
    RAISES, f"return {{'predicted_trajectory': {ROWS[1]['reference_trajectory']!r}}}"
)
"""Its recall is 1 and 1."""


def test_every_report_has_the_gate_on_a_mean(folder: Path, scouter: Scouter) -> None:
    """Recalls of 1 and 0 have the mean 0.5, in two attempts as in one."""
    (folder / "home.py").write_text(MENDED, encoding="utf-8")
    done = scouter(*EVAL, "--min-score", "trajectory_recall=0.6", "--repeats", "2", *REPORTS, "-v",
                   "--output", "out")  # fmt: skip
    assert done.returncode == 1
    name = "mean score of 'trajectory_recall'"
    assert f"gate {name}: 0.5000 (of 4), wanted at least 0.6" in done.stdout
    (line,) = [each for each in done.stdout.splitlines() if each.strip().startswith(name)]
    assert line.split()[-7:] == ["0.6", "0.5", "(mean", "of", "4)", "not", "met"]
    (gate,) = json.loads((folder / "r.json").read_text("utf-8"))["gates"]
    assert (gate["found"], gate["wanted"], gate["is_mean"]) == (0.5, 0.6, True)
    assert f"`{name}` | 0.6 | 0.5 (mean of 4) | **not met**" in (folder / "r.md").read_text("utf-8")
    assert "0.5 (mean of 4)" in (folder / "r.html").read_text("utf-8")
    assert "mean score of" in (folder / "r.xml").read_text("utf-8")
    rows, summary = written(folder)
    assert [row["attempt"] for row in rows] == [0, 1, 0, 1]
    assert (summary["row_count"], summary["trajectory_recall/mean"]) == (4, 0.5)


def test_a_worse_agent_is_compared_with_its_baseline(folder: Path, scouter: Scouter) -> None:
    """Of twelve rows half fall, in every attempt."""
    rows = [{**row, "prompt": f"{row['prompt']} {at}"} for at in range(6) for row in ROWS]
    (folder / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    (folder / "home.py").write_text(BETTER, encoding="utf-8")
    (folder / "worse.py").write_text(MENDED, encoding="utf-8")
    assert scouter(*EVAL, "--save", "b.json").returncode == 0
    again = scouter(*EVAL, "--baseline", "b.json", "--require-ruled-out", "30")
    assert again.returncode == 0, again.stdout
    plan = scouter(*EVAL, "--baseline", "b.json", "--plan")
    assert plan.returncode == 0, plan.stderr
    command = "scouter eval data.json --metrics trajectory_recall --agent home:agent --format"
    assert command in " ".join(plan.stdout.split())
    worse = tuple(part.replace("home:", "worse:") for part in EVAL)
    done = scouter(*worse, "--baseline", "b.json", "--confirm", "3")
    assert done.returncode == 1
    assert "Regressed." in done.stdout
    assert "rows · trajectory_recall" in done.stdout
    rounds = ("--repeats", "3", "--sequential", "--confirm", "0")
    soon = scouter(*worse, "--baseline", "b.json", *rounds)
    assert re.search(r"decided after \d of 3 rounds", soon.stdout), soon.stdout
    assert scouter(*worse, "--interleave", "home:agent", "--confirm", "0").returncode == 1
    changed: list[dict[str, Any]] = [{**row, "reference_trajectory": []} for row in rows]
    (folder / "data.json").write_text(json.dumps(changed), encoding="utf-8")
    assert scouter(*EVAL, "--baseline", "b.json", "--confirm", "0").returncode == 3


def test_another_least_score_compares_the_scores_of_the_baseline(
    folder: Path, scouter: Scouter
) -> None:
    """The functions ran before; another one did not, and nothing is known of it."""
    (folder / "home.py").write_text(BETTER, encoding="utf-8")
    run = (*EVAL[:-1], "home:length,home:polite", "--judge", "home:judge")
    assert scouter(*run, "--save", "b.json").returncode == 0
    again = (*run, "--baseline", "b.json", "--confirm", "0")
    stricter = scouter(*again, "--min-score", "length=20")  # 18 and 24 letters
    assert stricter.returncode == 0, stricter.stdout
    assert "task 'length' of 'rows' changed" in stricter.stdout
    assert "judged again by today's check" in stricter.stdout
    assert "1 of 2 scenarios passed, 1 of 2 in the baseline" in stricter.stdout
    other = BETTER.replace("def length(", "def size(")
    other += "\n\nlength = size\nsize.__name__ = 'length'\n"
    (folder / "home.py").write_text(other, encoding="utf-8")
    changed = scouter(*again)
    assert changed.returncode == 3, changed.stdout
    assert "does not store what its function would give" in changed.stdout
    assert scouter(*again, "--accept-changed", "length").returncode == 0


def test_stored_answers_are_compared_with_a_run_of_the_agent(
    folder: Path, scouter: Scouter
) -> None:
    """The table of a run says what the run said; that of a worse agent falls behind it."""
    rows = [{**row, "prompt": f"{row['prompt']} {at}"} for at in range(6) for row in ROWS]
    (folder / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    for name, text, code in (("better", BETTER, 0), ("worse", MENDED, 1)):
        (folder / "home.py").write_text(text, encoding="utf-8")
        scouter(*EVAL, "--save", f"{name}.json", "--output", name)
        (table,) = (folder / name).glob("*/metrics_table.jsonl")
        stored = ("eval", table, *VERTEX, "--metrics", "trajectory_recall")
        done = scouter(*stored, "--baseline", "better.json", "--save", "s.json")
        assert done.returncode == code, done.stdout
        again = scouter(*stored, "--baseline", "s.json")
        assert again.returncode == 0, again.stdout


def test_a_run_is_taken_up_again(folder: Path, scouter: Scouter) -> None:
    (folder / "home.py").write_text(MENDED, encoding="utf-8")
    first = scouter(*EVAL, "--resume", "r.jsonl")
    assert first.stderr.count("prompt: Turn off") == 1
    least = ("--min-score", "trajectory_recall=0.5", "--output", "out")
    changed = scouter(*EVAL, "--resume", "r.jsonl", *least)
    assert changed.returncode == 2  # the same attempts, by another profile
    again = scouter(*EVAL, "--resume", "r.jsonl", "--output", "out")
    assert "prompt: Turn off" not in again.stderr
    rows, _ = written(folder)
    assert [row["trajectory_recall/score"] for row in rows] == [1, 0]


def test_gates_on_rates(folder: Path, scouter: Scouter) -> None:
    (folder / "home.py").write_text(MENDED, encoding="utf-8")
    half = ("--min-pass-rate", "0.5", "--min-scenario-pass-rate", "0.5")
    assert scouter(*EVAL, *half).returncode == 0
    assert scouter(*EVAL, "--min-pass-rate", "0.6").returncode == 1
    assert scouter(*EVAL, "--min-scenario-pass-rate", "0.6").returncode == 1


def test_a_collector_keeps_the_rows(folder: Path, scouter: Scouter) -> None:
    service = Service(folder / "there")
    (folder / "home.py").write_text(MENDED, encoding="utf-8")
    with serve(service.collector.app) as url:
        done = scouter(*EVAL, "--push", url)
        assert f"{url}/compare?after=run:" in done.stderr, done.stderr
        with ScouterClient(url) as client:
            (run,) = client.runs()
            assert (run.scenarios, run.agent) == (2, "home:agent")
    service.stop()


def test_an_object_with_query_is_an_agent_by_name(folder: Path, scouter: Scouter) -> None:
    """Of scenarios as of rows."""
    (folder / "home.py").write_text(MENDED, encoding="utf-8")
    rows = tuple(part.replace(":agent", ":chain") for part in EVAL)
    assert scouter(*rows, "--min-score", "trajectory_recall=0.5").returncode == 0
    scenario = [{"initial_query": "Is device_2 off?", "tasks": [
        {"task_type": "Assertion", "id": "off", "context_path": "response.response",
         "operator": "Equals", "expected_value": "off"},
    ]}]  # fmt: skip
    (folder / "s.json").write_text(json.dumps(scenario), encoding="utf-8")
    done = scouter("eval", "s.json", "--agent", "home:chain", "--min-score", "off=1")
    assert done.returncode == 0, done.stdout
    assert scouter("eval", "s.json", "--agent", "home:chain", "--min-score", "on=1").returncode == 2


def test_versions_beside_each_other(folder: Path, scouter: Scouter) -> None:
    """Each row is put to both; the table has the rows of the new one."""
    (folder / "home.py").write_text(MENDED, encoding="utf-8")
    (folder / "old.py").write_text(BETTER, encoding="utf-8")
    beside = ("--interleave", "old:agent", "--confirm", "0", "--save-baseline", "old.json")
    scouter(*EVAL, *beside, "--output", "out")
    rows, _ = written(folder)
    assert [row["trajectory_recall/score"] for row in rows] == [1, 0]
    results = ScenarioEvalResults.load(folder / "old.json").dataset_results["rows"]
    assert [each.record.tasks[0].score for each in results] == [1, 1]
    both = scouter(*EVAL, "--interleave", "old:agent", "--baseline", "old.json")
    assert both.returncode == 2
