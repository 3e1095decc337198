"""Result files: those of the original, line by line, and strict JSON everywhere."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.journey.evaluate import evaluate_journey
from scouter.evaluate.journey.result import JourneyResult
from scouter.formats.watsonx.config import WatsonxConfig
from scouter.formats.watsonx.result_files import (
    DISPLAY_NAMES,
    JourneyRun,
    average_metrics,
    summary_csv,
    write_results,
)
from tests.support.journeys import GOOD, hr
from tests.support.watsonx_vectors import stub_judge, vectors

CONFIG = WatsonxConfig(test_paths=["hr.json"])


def runs_of_the_vector() -> list[JourneyRun]:
    """Two runs of `hr` (all messages, then three) and two of `notext`, as its note says."""
    known = {each["id"][:3]: each for each in vectors()["trajectory_vectors"]}
    found: list[JourneyRun] = []
    for name, vector in (("hr", known["T01"]), ("notext", known["T60"])):
        for attempt in range(2):
            messages = vector["messages"][: 3 if attempt and name == "hr" else None]
            result = evaluate_journey(
                {**vector["dataset"], "dataset_name": name}, messages, compat="wxo-1.6.9",
                judge=stub_judge({}),
            )  # fmt: skip
            found.append(JourneyRun(result=result, attempt=attempt))
    return found


def test_the_files_of_the_original(capsys: pytest.CaptureFixture[str]) -> None:
    wanted = vectors()["files_vector"]
    runs = runs_of_the_vector()
    header, *rows = summary_csv(runs).splitlines()
    assert header == wanted["summary_metrics_csv_header"]
    assert rows == wanted["rows"]
    averages = {k: "NaN" if v is None else v for k, v in average_metrics(runs, "wxo-1.6.9").items()}
    assert averages == wanted["average_metrics_json"]
    assert list(averages) == list(wanted["average_metrics_json"])
    with capsys.disabled():
        print(f"\nwatsonx files: {len(rows)} rows, {len(averages)} averages")  # noqa: T201 requested


def ran(messages: list[dict[str, Any]], attempt: int = 0, error: str | None = None) -> JourneyRun:
    result = evaluate_journey(hr(dataset_name="hr/../x"), messages)
    if error is not None:
        result = JourneyResult(
            name=result.name, compat="sound", metrics={**result.metrics, "is_success": False},
            goals=result.goals, messages=result.messages, reasons=result.reasons,
        )  # fmt: skip
    return JourneyRun(result=result, attempt=attempt, error=error)


def test_a_run_that_ended_early_counts_as_failed() -> None:
    runs = [ran(GOOD), ran(GOOD, 1), ran(GOOD[:1], 2, "RuntimeError: boom")]
    found = average_metrics(runs, "sound")
    assert (found["Runs"], found["Failed Runs"]) == (3, 1)
    assert found["Journey Success"] == pytest.approx(2 / 3)
    assert found["Assert LLM"] is None
    assert average_metrics(runs, "wxo-1.6.9")["Journey Success"] == 1.0
    rows = list(csv.DictReader(io.StringIO(summary_csv(runs))))
    assert [row["is_error"] for row in rows] == ["0", "0", "1"]
    assert [row["is_success"] for row in rows] == ["True", "True", "False"]


def refuse(word: str) -> object:
    raise ValueError(word)


def test_each_run_has_files_of_its_own(tmp_path: Path) -> None:
    runs = [ran(GOOD), ran(GOOD[:1], 1, "RuntimeError: boom")]
    written = write_results(tmp_path / "out", runs, CONFIG, "sound")
    names = sorted(str(file.relative_to(tmp_path / "out")) for file in written)
    assert names == [
        "average_metrics.json", "config.yml", "messages/hr_.._x.run1.messages.analyze.json",
        "messages/hr_.._x.run1.messages.json", "messages/hr_.._x.run1.metrics.json",
        "messages/hr_.._x.run2.errors.json", "messages/hr_.._x.run2.messages.analyze.json",
        "messages/hr_.._x.run2.messages.json", "messages/hr_.._x.run2.metrics.json",
        "summary_metrics.csv",
    ]  # fmt: skip
    for file in written:
        if file.suffix == ".json":
            json.loads(file.read_text(encoding="utf-8"), parse_constant=refuse)
    errors = json.loads((tmp_path / "out/messages/hr_.._x.run2.errors.json").read_text())
    assert errors == ["RuntimeError: boom"]
    metrics = json.loads((tmp_path / "out/messages/hr_.._x.run1.metrics.json").read_text())
    assert {*DISPLAY_NAMES} <= metrics.keys()
    assert (metrics["is_success"], metrics["verdict"]) == (True, "every goal is met, in order")


def test_what_is_wrong_with_a_message_is_reported_argument_by_argument(tmp_path: Path) -> None:
    wrong = json.loads(json.dumps(GOOD))
    wrong[1]["tool_calls"][0]["function"]["arguments"] = '{"username": "other"}'
    write_results(tmp_path, [ran(wrong)], CONFIG, "sound")
    written = json.loads((tmp_path / "messages/hr_.._x.messages.analyze.json").read_text())
    assert [each["reason"] and each["reason"]["reason"] for each in written] == [
        None, "incorrect parameter", None, None,
    ]  # fmt: skip
    assert written[1]["reason"]["parameters"] == [
        {"name": "username", "expected": "nwaters", "actual": "other", "match_type": "Exact",
         "matched": False}
    ]  # fmt: skip
    assert written[1]["message"] == {**GOOD[1], "tool_calls": wrong[1]["tool_calls"]} | {
        "tool_calls": [{**wrong[1]["tool_calls"][0], "type": "function"}]
    }


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(ConfigError, match="cannot write the results"):
        write_results(tmp_path / "file" / "out", [ran(GOOD)], CONFIG, "sound")


def test_names_that_would_share_a_file(tmp_path: Path) -> None:
    """Some file systems tell no small letters from large ones."""
    names = ("a/b", "a_b", "A_b")
    runs = [JourneyRun(result=evaluate_journey(hr(dataset_name=name), GOOD)) for name in names]
    written = {file.name for file in write_results(tmp_path, runs, CONFIG, "sound")}
    assert {"a_b.messages.json", "a_b-2.messages.json", "A_b-3.messages.json"} <= written


def test_a_long_name_of_letters_of_several_bytes_is_a_name_of_a_file(tmp_path: Path) -> None:
    runs = [
        JourneyRun(result=evaluate_journey(hr(dataset_name="\u65c5" * 100 + end), GOOD))
        for end in "ab"
    ]
    write_results(tmp_path, runs, CONFIG, "sound")
    stem = "\u65c5" * 60
    assert (tmp_path / f"messages/{stem}.messages.json").is_file()
    assert (tmp_path / f"messages/{stem}-2.messages.json").is_file()
