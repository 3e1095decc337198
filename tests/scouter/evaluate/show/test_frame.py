"""Frames of results, made by the real libraries."""

import json
import math
import re
import subprocess
import sys
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from scouter.errors import ConfigError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.port import JudgeReply
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.rows import Annotations, RecordAnnotations
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.show.frame import SCHEMA, arrow, columns, frame, json_text
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.model.record import EvalRecord

ORIGINAL = (
    "context", "created_at", "embedding_means", "record_uid", "similarity_scores", "success",
    "task_actual", "task_assertion", "task_expected", "task_id", "task_message", "task_operator",
    "task_passed", "task_type", "task_value", "workflow_duration_ms", "workflow_error",
    "workflow_failed_tasks", "workflow_pass_rate", "workflow_passed_tasks", "workflow_total_tasks",
)  # fmt: skip
"""Columns of the system whose surface this package keeps."""

TASKS = [
    AssertionTask("gate", "kind", "answer", Op.Equals, condition=True),
    AssertionTask("score", "score", 5, Op.GreaterThan, depends_on=["gate"]),
    AssertionTask("text", "text", ["é"], Op.ContainsAny, depends_on=["gate"]),
]
MOMENT_NS = 1_735_787_045_123_456_789
"""2025-01-02 03:04:05.123456789 UTC."""


def results() -> EvalResults:
    """Four records: all passed, one failed, one errored, all behind a closed gate."""
    records = [
        EvalRecord({"kind": "answer", "score": 9, "text": "é"}, id="z", created_ns=MOMENT_NS),
        EvalRecord({"kind": "answer", "score": 1.5, "text": "é"}, id="日本"),
        EvalRecord({"kind": "answer", "text": ["é", 2]}, id="\U0001f680"),
        EvalRecord({"kind": "chat"}),
    ]
    judged = EvalDataset(records, TASKS).evaluate()
    return EvalResults(judged.records, ["s1", "s1", None, "s2"], [0, 1, 0, 0])


def by_pandas(found: EvalResults) -> Any:
    return frame(found, False)


def by_polars(found: EvalResults) -> Any:
    return frame(found, True)


def rows_of(table: Any) -> list[dict[str, Any]]:
    """Any of the three as rows, with None for whatever is missing."""
    if isinstance(table, pl.DataFrame):
        return table.to_dicts()
    if isinstance(table, pa.Table):
        return table.to_pylist()
    rows: list[dict[str, Any]] = table.to_dict("records")
    return [{name: None if value is pd.NA or value != value else value
             for name, value in row.items()} for row in rows]  # fmt: skip


LIBRARIES = pytest.mark.parametrize("make", [by_pandas, by_polars, arrow])


@LIBRARIES
def test_one_row_per_task_result(make: Callable[[EvalResults], Any]) -> None:
    found = results()
    rows = rows_of(make(found))

    assert list(rows[0]) == list(SCHEMA)
    assert len(rows) == 12
    assert [row["record_id"] for row in rows[::3]] == ["z", "日本", "\U0001f680", ""]
    assert [row["record_uid"] for row in rows[::3]] == [r.record_uid for r in found.records]
    assert [row["task_id"] for row in rows[:3]] == ["gate", "score", "text"]
    assert [row["scenario_id"] for row in rows[::3]] == ["s1", "s1", None, "s2"]
    assert [row["attempt"] for row in rows[::3]] == [0, 1, 0, 0]
    assert [row["record_outcome"] for row in rows[::3]] == ["passed", "failed", "errored", "failed"]
    assert [row["success"] for row in rows[::3]] == [True, True, False, True]
    counts = [
        (row["workflow_total_tasks"], row["workflow_passed_tasks"], row["workflow_failed_tasks"],
         row["workflow_pass_rate"]) for row in rows[::3]
    ]  # fmt: skip
    assert counts == [(2, 2, 0, 1.0), (2, 1, 1, 0.5), (2, 1, 1, 0.5), (0, 0, 0, 0.0)]
    error = rows[7]
    assert (error["task_outcome"], error["task_reason"]) == ("errored", "missing_path")
    assert error["workflow_error"] == found.aligned_results[2].error_message
    assert [row["task_value"] for row in rows[9:]] == [0.0, 0.0, 0.0]
    assert [row["task_outcome"] for row in rows[9:]] == ["failed", "skipped", "skipped"]
    assert all(row["context"] is None and row["embedding_means"] is None for row in rows)
    moment = pd.Timestamp(rows[0]["created_at"])
    assert moment.floor("us") == pd.Timestamp("2025-01-02T03:04:05.123456Z")


@LIBRARIES
def test_values_of_any_type_are_json_text(make: Callable[[EvalResults], Any]) -> None:
    rows = rows_of(make(results()))
    actual = [json.loads(row["task_actual"]) for row in rows[:9]]
    assert actual == ["answer", 9, "é", "answer", 1.5, "é", "answer", None, ["é", 2]]
    assert rows[2]["task_actual"] == '"é"'
    assert [json.loads(row["task_expected"]) for row in rows[:3]] == ["answer", 5, ["é"]]


@LIBRARIES
def test_messages_agree_with_the_results(make: Callable[[EvalResults], Any]) -> None:
    found = results()
    tasks = [task for record in found.records for task in record.tasks]
    assert [row["task_message"] for row in rows_of(make(found))] == [t.message for t in tasks]


def test_the_original_columns_are_there() -> None:
    assert set(ORIGINAL) <= set(SCHEMA)
    assert list(columns(EvalResults([]))) == list(SCHEMA)


def types_of(table: Any) -> dict[str, str]:
    if isinstance(table, pa.Table):
        return {field.name: str(field.type) for field in table.schema}
    if isinstance(table, pl.DataFrame):
        return {name: str(kind) for name, kind in table.schema.items()}
    return {name: str(kind) for name, kind in table.dtypes.items()}


@LIBRARIES
def test_types_depend_on_nothing(make: Callable[[EvalResults], Any]) -> None:
    """An empty frame, one row and twelve have the same types, all texts missing or not."""
    found = results()
    full = make(found)
    assert len(rows_of(make(EvalResults([])))) == 0
    assert types_of(make(EvalResults([]))) == types_of(full)
    assert types_of(make(EvalResults(list(found.records)[:1]))) == types_of(full)


def test_the_types() -> None:
    found = results()
    in_arrow = types_of(arrow(found))
    assert in_arrow["created_at"] == "timestamp[ns, tz=UTC]"
    assert (in_arrow["task_passed"], in_arrow["task_value"]) == ("bool", "double")
    assert (in_arrow["task_stage"], in_arrow["task_reason"]) == ("int64", "string")
    in_pandas = types_of(by_pandas(found))
    assert in_pandas["created_at"] == "datetime64[ns, UTC]"
    assert (in_pandas["task_passed"], in_pandas["task_stage"]) == ("bool", "int64")
    assert in_pandas["scenario_id"] == in_pandas["context"] == "str"
    in_polars = types_of(by_polars(found))
    assert in_polars["created_at"] == "Datetime(time_unit='ns', time_zone='UTC')"
    assert (in_polars["context"], in_polars["attempt"]) == ("String", "Int64")


@LIBRARIES
def test_odd_values_fit_into_every_frame(make: Callable[[EvalResults], Any]) -> None:
    """Half characters, NaN and numbers of thousands of digits, in results made by hand."""
    task = EvalTaskResult.of(
        task_id="t\ud800", task_type="Assertion", outcome="failed", message="m\ud800",
        expected=[math.nan, 10**3000], actual={"k\ud800": "\udfff"},
    )  # fmt: skip
    record = RecordResult("u\ud800", "", "", None, record_outcome([task]), (task,), 0, 0)
    [row] = rows_of(make(EvalResults([record], ["s\ud800"])))
    assert (row["record_uid"], row["task_id"], row["task_message"]) == (
        "u\ufffd",
        "t\ufffd",
        "m\ufffd",
    )
    assert row["scenario_id"] == "s\ufffd"
    assert json.loads(row["task_expected"]) == [None, 10**3000]
    assert json.loads(row["task_actual"]) == {"k\ufffd": "\ufffd"}


def test_annotations_are_columns() -> None:
    note = RecordAnnotations(
        embeddings={"q": array("d", [1, 2])},
        mean_embeddings={"q": 1.5},
        similarity_scores={"q_r": -0.25},
    )
    found = results().with_annotations(Annotations(records=(note, *[RecordAnnotations()] * 3)))
    laid = columns(found)
    assert laid["embedding_means"][2:4] == ['{"q": 1.5}', "{}"]
    assert laid["similarity_scores"][0] == '{"q_r": -0.25}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\"\n é", '"a\\"\\n é"'), (1, "1"), (True, "true"), (None, "null"), (0.1, "0.1"),
        ([1, "é"], '[1, "é"]'), (math.nan, "null"), ({"a": math.inf}, '{"a": null}'),
        ("\ud800", '"\ufffd"'), (-0.0, "-0.0"), (1e300, "1e+300"),
    ],
)  # fmt: skip
def test_json_text(value: Any, text: str) -> None:
    assert json_text(value) == text


@pytest.mark.parametrize("name", ["pandas", "polars", "pyarrow"])
def test_a_missing_library_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    makers = {"pandas": by_pandas, "polars": by_polars, "pyarrow": arrow}
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ConfigError, match=f"pip install {name}"):
        makers[name](results())


@pytest.mark.parametrize("word", ["pandas", "polars", 1, None])
def test_which_frame_is_said_by_true_or_false(word: Any) -> None:
    """`to_dataframe("pandas")` would give a polars frame, as any text is true."""
    with pytest.raises(TypeError, match="expected True for polars or False for pandas"):
        results().to_dataframe(word)


def test_polars_and_arrow_agree() -> None:
    found = results()
    frames = by_polars(found), pl.from_arrow(arrow(found))
    assert frames[0].equals(frames[1])


def test_a_frame_is_ready_for_work() -> None:
    """The question people ask first: the pass rate of each task."""
    rates = by_pandas(results()).groupby("task_id", sort=False)["task_passed"].mean()
    assert rates.to_dict() == {"gate": 0.75, "score": 0.25, "text": 0.75}


@pytest.mark.pace
def test_speed() -> None:
    """10,000 task results in all three kinds, by the processor: other machines are slower."""
    context = {"kind": "answer", "score": 9, "text": "é"}
    records = [EvalRecord(context, created_ns=at) for at in range(3_334)]
    found = EvalDataset(records, TASKS).evaluate()
    for make in (by_pandas, by_polars, arrow):
        start = time.process_time()
        assert len(make(found)) == 10_002
        assert time.process_time() - start < 1


def test_frames_load_nothing_before_they_are_requested() -> None:
    code = (
        "import sys, scouter.evaluate.show.frame\n"
        "assert not {'pandas', 'polars', 'pyarrow', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_times_are_exact_to_the_nanosecond() -> None:
    found = results()
    assert arrow(found).column("created_at")[0].value == MOMENT_NS
    assert by_pandas(found)["created_at"][0].value == MOMENT_NS
    assert by_polars(found)["created_at"].cast(pl.Int64)[0] == MOMENT_NS


PAGE = (Path(__file__).parents[4] / "docs/results.md").read_text(encoding="utf-8")


def test_the_page_names_every_column_with_its_type() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+)", PAGE, flags=re.MULTILINE)
    assert dict(rows) == SCHEMA
    assert [name for name, _ in rows] == list(SCHEMA)


def test_the_example_of_the_page_prints_what_it_says(capsys: pytest.CaptureFixture[str]) -> None:
    example, printed = re.findall(r"```(?:python|text)\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/results.md", "exec"), {})  # noqa: S102 our own page
    assert capsys.readouterr().out == printed


def test_what_a_judge_took_is_in_its_rows() -> None:
    """Other tasks have none, and what a provider does not tell is missing."""
    prompt = Prompt("${n}", "m", "openai")
    tasks = [
        LLMJudgeTask("j", prompt, 1, "v", "Equals", samples=3),
        AssertionTask("n", "n", 1, Op.Equals),
    ]
    reply = JudgeReply(response={"v": 1}, input_tokens=10, cost_usd=0.25)
    found = EvalDataset([EvalRecord({"n": 1})], tasks).evaluate(judge=lambda _: reply)
    names = ["task_judge_calls", "task_input_tokens", "task_output_tokens", "task_cost_usd"]
    laid = columns(found)
    assert [laid[name] for name in names] == [[2, 0], [20, None], [None, None], [0.5, None]]
    assert laid["task_unpriced_calls"] == [0, 0]
    free = JudgeReply(response={"v": 1}, input_tokens=10)
    of_no_price = EvalDataset([EvalRecord({"n": 1})], tasks).evaluate(judge=lambda _: free)
    assert columns(of_no_price)["task_unpriced_calls"] == [2, 0]
    table = frame(found, polars=False)
    assert table["task_cost_usd"].sum() == 0.5
    assert str(table["task_judge_calls"].dtype) == "int64"
