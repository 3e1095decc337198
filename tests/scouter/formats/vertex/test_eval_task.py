"""EvalTask: the document's example, mixed metrics, agents of every form, and faults of rows."""

import asyncio
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

import pandas as pd
import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.engine.checks import use_checks
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.formats.vertex.eval_task import EvalTask, PacedJudge
from scouter.formats.vertex.metrics import (
    CustomMetric,
    PointwiseMetric,
    PointwiseMetricPromptTemplate,
    TrajectorySingleToolUse,
)
from scouter.formats.vertex.result import EvalResult
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.testing import ScriptedJudge
from scouter.tracing import get_tracer
from scouter.tracing.runtime import RUNTIME
from scouter.transport.config import MockConfig

Row = dict[str, Any]


def call(tool: str, **given: Any) -> dict[str, Any]:
    return {"tool_name": tool, "tool_input": given}


# The two rows of Google's page on the evaluation of agents.
REFERENCE: Final = [
    [call("set_device_info", device_id="device_2", updates={"status": "OFF"})],
    [
        call("get_user_preferences", user_id="user_y"),
        call("set_temperature", location="Living Room", temperature=23),
    ],
]
PREDICTED: Final = [
    [call("set_device_info", device_id="device_3", updates={"status": "OFF"})],
    [
        call("get_user_preferences", user_id="user_z"),
        call("set_temperature", location="Living Room", temperature=23),
    ],
]
MATCHES: Final = [
    "trajectory_exact_match",
    "trajectory_in_order_match",
    "trajectory_any_order_match",
    "trajectory_precision",
    "trajectory_recall",
]


def rows_of(result: EvalResult) -> list[Row]:
    return cast("list[Row]", result.rows)


def scores(result: EvalResult, metric: str) -> list[float | None]:
    return [row[f"{metric}/score"] for row in rows_of(result)]


def test_the_documents_example() -> None:
    frame = pd.DataFrame({"predicted_trajectory": PREDICTED, "reference_trajectory": REFERENCE})
    found = EvalTask(frame, [*MATCHES, TrajectorySingleToolUse("set_temperature")]).evaluate()
    assert [scores(found, metric) for metric in MATCHES] == [
        [0, 0], [0, 0], [0, 0], [0, 0.5], [0, 0.5],
    ]  # fmt: skip
    assert scores(found, "trajectory_single_tool_use") == [0, 1]
    assert found.summary_metrics["row_count"] == 2
    assert found.summary_metrics["trajectory_precision/mean"] == 0.25
    assert found.summary_metrics["trajectory_precision/std"] == pytest.approx(0.353553, abs=1e-6)
    table = found.metrics_table
    assert list(table["trajectory_recall/score"]) == [0, 0.5]
    assert list(table.columns)[:2] == ["predicted_trajectory", "reference_trajectory"]
    assert "device_3" in table["trajectory_precision/explanation"][0]


def test_the_same_calls_in_another_number() -> None:
    """A, B, A, B for A, B, A: three of four. A, B for A, B, A: two of three."""
    a, b = call("a"), call("b")
    rows = [
        {"predicted_trajectory": [a, b, a, b], "reference_trajectory": [a, b, a]},
        {"predicted_trajectory": [a, b], "reference_trajectory": [a, b, a]},
    ]
    found = EvalTask(rows, ["trajectory_precision", "trajectory_recall"]).evaluate()
    assert scores(found, "trajectory_precision") == [0.75, 1]
    assert scores(found, "trajectory_recall") == [1, pytest.approx(2 / 3)]


def agent(prompt: str) -> Row:
    """Fails for one prompt; else calls a tool and answers."""
    if prompt == "fail":
        raise ValueError("no such city")
    return {"response": "the cat sat", "predicted_trajectory": [call("x", q=prompt)]}


class Chain:
    """The same as LangChain gives it."""

    def query(self, *, input: str) -> Row:
        given = agent(input)
        steps = [
            [{"kwargs": {"tool": c["tool_name"], "tool_input": c["tool_input"]}}, "seen"]
            for c in given["predicted_trajectory"]
        ]
        return {"output": given["response"], "intermediate_steps": steps}


class Action:
    """LangChain's own class of a step has these attributes."""

    def __init__(self, tool: str, tool_input: Mapping[str, Any]) -> None:
        self.tool, self.tool_input = tool, tool_input


class ChainOfObjects:
    def query(self, *, input: str) -> Row:
        return {
            "output": agent(input)["response"],
            "intermediate_steps": [(Action("x", {"q": input}), "seen")],
        }


async def later(prompt: str) -> Row:
    await asyncio.sleep(0)
    return agent(prompt)


def as_text(prompt: str) -> Row:
    given = agent(prompt)
    return {**given, "predicted_trajectory": json.dumps(given["predicted_trajectory"])}


def says_x(row: Row) -> Row:
    if "broken" in row["prompt"]:
        raise KeyError("x")
    return {"says_x": float("x" in row["prompt"]), "letters": len(row["response"])}


def answer(request: JudgeRequest) -> Row:
    question = request.messages[-1]["content"]
    return {"explanation": "as asked", "score": 5 if "mild" in question else 2}


DATA: Final = [
    {
        "prompt": prompt,
        "reference": "the cat sat down",
        "reference_trajectory": [call("x", q="mild")],
    }
    for prompt in ("mild", "broken", "fail")
]


def mixed() -> EvalTask:
    question = "Was {predicted_trajectory} right for {prompt}?"
    return EvalTask(
        DATA,
        [
            "rouge_l_sum",
            "bleu",
            says_x,
            "trajectory_exact_match",
            "trajectory_precision",
            TrajectorySingleToolUse(tool_name="x"),
            TrajectorySingleToolUse(tool_name="y"),
            PointwiseMetric("trajectory_is_right", question),
        ],
    )


def test_metrics_of_all_kinds() -> None:
    judge = ScriptedJudge(answer)
    found = mixed().evaluate(runnable=agent, judge=judge)
    first, second, third = rows_of(found)
    assert first["response"] == "the cat sat"
    assert first["predicted_trajectory"] == [call("x", q="mild")]
    assert (first["failure"], third["failure"]) == (0, 1)
    assert first["latency_in_seconds"] >= 0
    assert first["rouge_l_sum/score"] == pytest.approx(6 / 7)
    assert first["bleu/score"] == pytest.approx(math.exp(1 - 4 / 3))
    assert first["trajectory_exact_match/score"] == 1
    assert second["trajectory_exact_match/score"] == 0
    assert first["trajectory_single_tool_use(x)/score"] == 1
    assert first["trajectory_single_tool_use(y)/score"] == 0
    assert (first["says_x/score"], first["says_x/letters"]) == (0, 11)
    assert second["says_x/error"] == "KeyError: 'x'"
    assert first["trajectory_is_right/score"] == 5
    assert second["trajectory_is_right/score"] == 2
    assert first["trajectory_is_right/explanation"] == "as asked"
    assert len(judge.requests) == 2
    assert '"tool_name": "x"' in judge.requests[0].messages[-1]["content"]


def test_a_row_whose_agent_fails() -> None:
    found = mixed().evaluate(runnable=agent, judge=answer)
    third, summary = rows_of(found)[2], found.summary_metrics
    assert third["failure_explanation"] == "ValueError: no such city"
    assert (third["response"], third["latency_in_seconds"]) == (None, None)
    names = {name.removesuffix("/score") for name in third if name.endswith("/score")}
    assert len(names) == 8
    for name in names:
        assert third[f"{name}/score"] is None
        assert third[f"{name}/error"] == "the agent failed: ValueError: no such city"
        assert summary[f"{name}/n_error"] == (2 if name == "says_x" else 1)
        assert summary[f"{name}/n"] == (1 if name == "says_x" else 2)
    assert summary["failure/mean"] == pytest.approx(1 / 3)
    assert summary["failure/std"] == pytest.approx(math.sqrt(1 / 3))
    assert summary["row_count"] == 3
    assert summary["trajectory_exact_match/mean"] == 0.5
    assert summary["trajectory_is_right/mean"] == 3.5
    assert math.isnan(summary["says_x/std"])
    table = found.metrics_table
    assert table["trajectory_exact_match/score"].mean() == 0.5
    assert list(table["failure"]) == [0, 0, 1]


@pytest.mark.parametrize("runnable", [Chain(), ChainOfObjects(), later, as_text])
def test_agents_of_every_form(runnable: object) -> None:
    expected, found = (
        mixed().evaluate(runnable=each, judge=answer).rows for each in (agent, runnable)
    )
    for rows in (expected, found):
        for row in rows:
            del row["latency_in_seconds"]
    assert found == expected


def test_what_else_an_agent_gives() -> None:
    """A text is the response; other keys stay, and hide no column."""
    rows = [{"prompt": "a", "reference": "A"}]
    found = EvalTask(rows, ["exact_match"]).evaluate(runnable=str.upper)
    assert found.rows[0]["exact_match/score"] == 1
    assert found.rows[0]["predicted_trajectory"] is None

    def more(prompt: str) -> Row:
        return {"response": "A", "tokens": 3, "prompt": "other"}

    (row,) = rows_of(EvalTask(rows, ["exact_match"]).evaluate(runnable=more))
    assert (row["tokens"], row["prompt"], row["exact_match/score"]) == (3, "a", 1)


def _number(_: str) -> int:
    return 7


def _steps(_: str) -> Row:
    return {"intermediate_steps": [["x"]]}


@pytest.mark.parametrize(
    ("runnable", "message"),
    [
        (_number, "DataError: the agent gave int; expected a text"),
        (_steps, r"intermediate_steps\[0\]: no 'tool'"),
    ],
)
def test_answers_that_cannot_be_read(runnable: Callable[[str], object], message: str) -> None:
    (row,) = rows_of(EvalTask([{"prompt": "a"}], [TrajectorySingleToolUse("x")]).evaluate(runnable))
    assert row["failure"] == 1
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(row["failure_explanation"])


def test_empty_trajectories() -> None:
    rows: list[Row] = [
        {"predicted_trajectory": [], "reference_trajectory": [call("x")]},
        {"predicted_trajectory": [call("x")], "reference_trajectory": [call("x")]},
        {"predicted_trajectory": [], "reference_trajectory": []},
    ]
    metrics = [*MATCHES, TrajectorySingleToolUse("x")]
    found = EvalTask(rows, metrics).evaluate()
    for metric in MATCHES:
        assert scores(found, metric) == [0, 1, 1]
    assert scores(found, "trajectory_single_tool_use") == [0, 1, 0]
    for options, errors in (
        ({"empty": "error"}, 2),
        ({"empty": "skip"}, 0),
        ({"compat": "vertex"}, 2),
    ):
        found = EvalTask(rows, metrics, **options).evaluate()  # pyright: ignore[reportArgumentType] - a row of a table
        assert scores(found, "trajectory_recall") == [None, 1, None]
        assert found.summary_metrics["trajectory_recall/mean"] == 1
        assert found.summary_metrics["trajectory_recall/n_error"] == errors
        assert scores(found, "trajectory_single_tool_use") == [None, 1, None]


def test_options_hold_for_all_trajectories() -> None:
    rows = [{"predicted_trajectory": PREDICTED[1], "reference_trajectory": REFERENCE[1]}]
    found = EvalTask(rows, MATCHES, tools={"get_user_preferences": "ignore"}).evaluate()
    assert [scores(found, metric) for metric in MATCHES] == [[1]] * 5


def test_cells_that_are_missing_or_wrong() -> None:
    rows: list[Row] = [
        {"predicted_trajectory": None, "reference_trajectory": [], "response": 7, "reference": "7"},
        {"predicted_trajectory": [{}], "reference_trajectory": [], "reference": "7"},
    ]
    found = EvalTask(rows, ["trajectory_recall", "exact_match"]).evaluate()
    first, second = rows_of(found)
    assert first["trajectory_recall/error"] == "the row has no predicted_trajectory"
    assert "'tool_name' must be a text" in second["trajectory_recall/error"]
    assert first["exact_match/error"] == "DataError: response: expected a text, got int"
    assert second["exact_match/error"] == "the row has no response"
    assert math.isnan(found.summary_metrics["exact_match/mean"])


def test_prompts_from_templates_and_other_columns() -> None:
    rows = [{"city": "Oslo", "question": "When?", "reference": "Oslo {7} $When?"}]
    task = EvalTask(rows, ["exact_match"])
    found = task.evaluate(runnable=str.strip, prompt_template="{city} {7} ${question}")
    assert scores(found, "exact_match") == [1]
    renamed = EvalTask(rows, ["exact_match"], metric_column_mapping={"prompt": "question"})
    assert renamed.evaluate(runnable=str.strip).rows[0]["response"] == "When?"
    with pytest.raises(ConfigError, match="no column 'town'; there are city, question"):
        task.evaluate(runnable=str.strip, prompt_template="{town}")


@pytest.mark.parametrize(
    ("answers", "score", "error"),
    [
        ({"score": 0, "explanation": "x"}, 0, None),
        ({"explanation": "x"}, None, "score"),
        (RuntimeError("down"), None, "the judge raised RuntimeError: down"),
    ],
)
def test_what_judges_answer(answers: Any, score: float | None, error: str | None) -> None:
    def judge(request: JudgeRequest) -> Any:
        assert request.messages[-1]["content"].endswith("right? ${more of it}")
        assert request.response_schema is not None
        if isinstance(answers, Exception):
            raise answers
        return answers

    metric = PointwiseMetric(
        "Helpful", "Is {response} right? ${more of it}", system_instruction="Be strict."
    )
    (row,) = rows_of(EvalTask([{"response": "yes"}], [metric]).evaluate(judge=judge))
    assert row["Helpful/score"] == score
    assert (error is None and "Helpful/error" not in row) or str(error) in row["Helpful/error"]


def test_a_judge_task_is_a_metric() -> None:
    prompt = Prompt(messages="Rate ${response}", model="m", provider="openai")
    task = LLMJudgeTask(
        id="rated", prompt=prompt, expected_value=3, operator="GreaterThan", context_path="n"
    )
    rows = EvalTask([{"response": "a"}], [task]).evaluate(judge=lambda _: {"n": 4}).rows
    assert rows[0]["rated/score"] == 4


@pytest.mark.parametrize(
    ("given", "error", "score"),
    [
        (True, None, 1.0),
        (None, None, None),
        ({"score": 2, "note": "x"}, None, 2.0),
        ("text", "DataError: it is no number but str", None),
        ({"other": 1}, "DataError: it gave the keys other; expected 'mine'", None),
        (math.nan, None, None),
    ],
)
def test_custom_metrics(given: object, error: str | None, score: float | None) -> None:
    (row,) = rows_of(EvalTask([{"a": 1}], [CustomMetric("mine", lambda _: given)]).evaluate())
    assert (row["mine/score"], row.get("mine/error")) == (score, error)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ([], "there are none"),
        (
            ["trajectory_match"],
            "no metric is called 'trajectory_match'; the names are trajectory_ex",
        ),
        (["trajectory_single_tool_use"], r"needs a tool: TrajectorySingleToolUse\(tool_name=…\)"),
        (["bleu", "bleu"], "two are called 'bleu'"),
        ([TrajectorySingleToolUse("x")] * 2, r"two are called 'trajectory_single_tool_use\(x\)'"),
        ([7], "7 is none; expected a name"),
    ],
)
def test_metrics_that_are_wrong(metrics: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EvalTask([], metrics)


@pytest.mark.parametrize(
    ("rows", "metrics", "options", "message"),
    [
        (
            [{"a": 1}],
            ["bleu"],
            {},
            "bleu: needs the column 'response'; the dataset's columns are a",
        ),
        ([{"a": 1}], ["bleu"], {"runnable": str}, "the dataset has no column 'prompt'"),
        ([{"prompt": 1}], ["bleu"], {"runnable": str}, "needs the column 'reference'"),
        (
            [{"prompt": 1}],
            [TrajectorySingleToolUse("x")],
            {"runnable": 7},
            "the agent is an int.*expected a func",
        ),
        ([], ["bleu"], {"concurrency": 0}, "expected an integer from 1"),
        ([{"a": 1}], [PointwiseMetric("m", "{b}")], {}, "m: needs the column 'b'"),
    ],
)
def test_what_could_score_no_row(rows: Any, metrics: Any, options: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EvalTask(rows, metrics).evaluate(**options)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"prompt": "town"}, "no column 'town'"),
        ({"city": "question"}, "has a column 'city' already"),
    ],
)
def test_mappings_that_are_wrong(mapping: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EvalTask([{"city": 1, "question": 2}], ["bleu"], metric_column_mapping=mapping)


def test_a_template_in_parts() -> None:
    """The judge sees every part, and the columns that the variables name."""
    template = PointwiseMetricPromptTemplate(
        criteria={"Follows": "Does each call follow from the one before?"},
        rating_rubric={"1": "all of them do", "0": "one does not"},
        input_variables=["prompt", "predicted_trajectory"],
        metric_definition="Whether the calls make sense together.",
        few_shot_examples=["search, then book: 1"],
    )
    judge = ScriptedJudge([{"explanation": "they do", "score": 1}])
    rows = [{"prompt": "Go", "predicted_trajectory": [call("book", city="Oslo")]}]
    metric = PointwiseMetric("follows", template)
    (row,) = rows_of(EvalTask(rows, [metric]).evaluate(judge=judge))
    assert (row["follows/score"], row["follows/explanation"]) == (1, "they do")
    question = judge.requests[0].messages[-1]["content"]
    for part in (
        "## Metric Definition\nWhether the calls make sense together.",
        "## Criteria\nFollows: Does each call follow from the one before?",
        "## Rating Rubric\n1: all of them do\n0: one does not",
        "## Evaluation Examples\nsearch, then book: 1",
        '"city": "Oslo"',
    ):
        assert part in question
    with pytest.raises(ConfigError, match="follows: needs the column 'prompt'"):
        EvalTask([{"predicted_trajectory": "[]"}], [metric]).evaluate(judge=judge)


def test_columns_of_the_dataset_come_first() -> None:
    rows = [{"id": 1, "prompt": "a", "reference": "A"}]
    found = EvalTask(rows, ["exact_match"]).evaluate(runnable=str.upper)
    assert [*found.rows[0]] == [
        "id", "prompt", "reference", "response", "latency_in_seconds", "failure",
        "predicted_trajectory", "exact_match/score",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "judged"),
    [
        ("safety", "safety"),
        ("groundedness", "faithfulness"),
        ("instruction_following", "completeness"),
        ("question_answering_quality", "relevance"),
    ],
)
def test_metrics_of_google_s_models_are_ready_judges(name: str, judged: str) -> None:
    """The judge gets the question of the ready-made profile, about the columns of Vertex."""
    rows = [{"prompt": "Who was it?", "response": "It was Ada.", "reference": "Ada"}]
    task: LLMJudgeTask = AgentEvalProfile.from_file(judged).llm_judge_tasks[0]

    def judge(request: JudgeRequest) -> Any:
        question = json.dumps(request.messages)
        assert "Who was it?" in question
        assert "It was Ada." in question
        if task.rubric is None:
            return {"score": 4, "reason": "to the point"}
        return {each.id: {"reason": "so", "verdict": "yes"} for each in task.rubric}

    found = EvalTask(rows, [name]).evaluate(judge=judge)
    assert found.rows[0][f"{name}/score"] == (4 if task.rubric is None else 1)
    with pytest.raises(ConfigError, match=f"{name}: needs the column 'response'"):
        EvalTask([{"prompt": "a"}], [name]).evaluate(judge=judge)


@pytest.mark.parametrize("name", ["coherence", "fluency", "pairwise_fluency"])
def test_other_metrics_of_google_s_models_are_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"asks for '{name}'.*PointwiseMetric\('{name}', temp"):
        EvalTask([], [name])


def test_an_experiment(tmp_path: Path) -> None:
    """Its name and that of the run are in the results, and the files in its folder."""
    rows = [{"prompt": "a", "reference": "A"}]
    task = EvalTask(rows, ["exact_match"], experiment="exp", output_uri_prefix=tmp_path / "out")
    found = task.evaluate(runnable=str.upper, experiment_run_name="one")
    assert found.metadata == {"experiment": "exp", "experiment_run": "one"}
    assert found.run.provenance.collection_id == "exp"
    assert found.run.provenance.agent_version == "one"
    summary = json.loads((tmp_path / "out/one/summary_metrics.json").read_text("utf-8"))
    assert summary["exact_match/mean"] == 1
    assert EvalTask(rows, ["exact_match"]).evaluate(runnable=str.upper).metadata is None
    with pytest.raises(ConfigError, match="give a folder, and copy it with `gcloud storage cp -r"):
        EvalTask(rows, ["exact_match"], output_uri_prefix="gs://bucket/out")


def test_the_run_can_be_saved_and_compared(tmp_path: Path) -> None:
    """Of two rows one falls, as by hand."""
    rows = [{"prompt": text, "reference": text.upper()} for text in ("a", "b")]
    task = EvalTask(rows, ["exact_match"], min_scores={"exact_match": 1})
    task.evaluate(str.upper).run.save(tmp_path / "b.json")
    baseline = ScenarioEvalResults.load(tmp_path / "b.json")

    def knows_a(prompt: str) -> str:
        return "A" if prompt == "a" else "?"

    worse = task.evaluate(knows_a).run
    (row,) = [each for each in worse.compare_to(baseline).rates if each.alias and not each.is_sum]
    assert (row.label, row.fell, row.pairs) == ("task 'exact_match' of 'rows'", 1, 2)
    with pytest.raises(ConfigError, match="no metric 'bleu' is scored; they are exact_match"):
        EvalTask(rows, ["exact_match"], min_scores={"bleu": 1})


def test_questions_a_second_are_bounded() -> None:
    """By a clock of the test: three questions at 2 a second wait 0, 0.5 and 1 second."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    judge = PacedJudge(ScriptedJudge([1, 1, 1]), 2, lambda: 100.0, sleep)

    async def ask() -> None:
        for _ in range(3):
            await judge.ask(JudgeRequest(task_id="t", messages=()))

    asyncio.run(ask())
    assert waits == [0, 0.5, 1]
    with pytest.raises(ConfigError, match="evaluation_service_qps"):
        EvalTask([], ["exact_match"]).evaluate(evaluation_service_qps=0)
    found = EvalTask([{"a": 1}], [PointwiseMetric("m", "{a}")])
    assert found.evaluate(judge=answer, evaluation_service_qps=1e6).rows[0]["m/score"] == 2


def test_calls_of_a_single_row_are_read_from_its_spans() -> None:
    def traced(prompt: str) -> str:
        attributes = {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "x",
            "gen_ai.tool.call.arguments": json.dumps({"q": prompt}),
        }  # fmt: skip
        start = get_tracer("agent").start_as_current_span
        with start("invoke_agent a"), start("execute_tool x", attributes=attributes):
            return prompt

    rows = [{"prompt": "a", "reference_trajectory": [call("x", q="a")]}]
    found = EvalTask(rows, ["trajectory_exact_match"]).evaluate(traced)
    assert scores(found, "trajectory_exact_match") == [1]


def test_an_agent_s_own_records_are_judged_by_their_profile() -> None:
    """The notebook's queue is in use before; its profile judges in the run, too."""
    before = RUNTIME.queue
    task = AssertionTask("is_a", "said", "A", "Equals")
    RUNTIME.configure(
        queue=ScouterQueue({"own": AgentEvalProfile([task], alias="own")}, MockConfig())
    )

    def says(prompt: str) -> str:
        assert RUNTIME.queue is not None
        RUNTIME.queue["own"].insert(EvalRecord({"said": prompt.upper()}))
        return prompt.upper()

    try:
        found = EvalTask([{"prompt": "a", "reference": "A"}], ["exact_match"]).evaluate(says)
    finally:
        RUNTIME.configure(queue=before)
    assert scores(found, "exact_match") == [1]
    assert [each.outcome for each in found.run.dataset_results["own"]] == ["passed"]


def test_a_check_in_python_is_a_metric_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the two rows one is short; its message is the explanation, and a least mean decides."""
    (tmp_path / "own_checks.py").write_text(
        "def is_short(context, spans):\n"
        "    return len(context['response']) < 5, f\"said {context['response']}\"\n"
    )
    monkeypatch.chdir(tmp_path)
    rows = [{"prompt": "a", "response": "Yes."}, {"prompt": "b", "response": "Perhaps."}]
    with pytest.raises(ConfigError, match=r"no metric is called 'is_short'.*'scouter\.checks'"):
        EvalTask(rows, ["is_short"])
    use_checks("own_checks")
    try:
        found = EvalTask(rows, ["is_short"]).evaluate()
    finally:
        use_checks("")
    assert [row["is_short/score"] for row in found.rows] == [1, 0]
    assert found.summary_metrics["is_short/mean"] == 0.5
    assert str(found.rows[1]["is_short/explanation"]).endswith("said Perhaps.")
