"""Result files as the original names them: a summary, averages, and files for each run."""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults, ScenarioResult
from scouter.evaluate.engine.journey import GivenAnswers, journey_of
from scouter.evaluate.journey.case import SOUND, Case
from scouter.evaluate.journey.evaluate import WXO
from scouter.evaluate.journey.message import messages_of_turns, to_documented
from scouter.evaluate.journey.result import JourneyResult, Measure
from scouter.evaluate.outcome import Reason
from scouter.evaluate.scenario import EvalScenarios
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.formats.watsonx.cases import SUCCESS
from scouter.formats.watsonx.config import WatsonxConfig

ENDED_EARLY: Final = "the conversation ended early: "
"""First words of what the file of errors says of a conversation that did not come to its end."""
CUT_SHORT: Final = "the conversation was cut short: "
"""First words there of one that used up its turns, so that its end was not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JourneyRun:
    """One journey that was run."""

    result: JourneyResult
    attempt: int = 0
    error: str | None = None
    """Error that ended the conversation early: of the agent, or of the user's player."""


def journeys_of(
    run: ScenarioEvalResults, cases: Sequence[Case], scenarios: EvalScenarios
) -> Iterator[JourneyRun]:
    """Read the journeys of a run, by case and attempt.

    No judge is called: the answers of the judge are those of the run.

    Args:
        run: The run.
        cases: Those that were run.
        scenarios: Made of these cases, in their order.
    """
    for case, scenario in zip(cases, scenarios, strict=True):
        task = scenario.tasks[0]
        assert isinstance(task, JourneyTask)  # noqa: S101 - `scenarios_of` puts it first
        for attempt in range(run.repeats):
            said = run.get_scenario_detail(case.name, attempt)
            messages = messages_of_turns(said.turns, said.traces, said.turn_times_ns)
            given = _given(said)
            answers = None if given is None else GivenAnswers(given)
            result = _ended(journey_of(task, case, messages, answers), said)
            yield JourneyRun(result=result, attempt=attempt, error=said.error)


def _given(said: ScenarioResult) -> JsonValue:
    """The answers of the judge about an attempt; None without a judge."""
    if said.eval_results is None:
        return None
    exchanges = (
        task.exchange
        for record in said.eval_results.records
        for task in record.tasks
        if task.task_id == SUCCESS
    )
    return next((exchange.answer for exchange in exchanges if exchange is not None), None)


def _ended(found: JourneyResult, said: ScenarioResult) -> JourneyResult:
    """The result; a journey that ended early did not succeed, whatever was reached until then.

    If it only ran out of turns, a failure stands, and a success is undecided; the original takes
    that for an end.
    """
    if said.error is None:
        return found
    is_cut = said.error_reason is Reason.INCOMPLETE
    message = f"{CUT_SHORT if is_cut else ENDED_EARLY}{said.error_line}"
    if is_cut and found.compat != SOUND:
        return replace(found, problems=(*found.problems, message))
    success = None if is_cut and found.success is not False else False
    return replace(
        found,
        metrics={**found.metrics, SUCCESS: success},
        message=f"{message}; {found.message}" if found.message else message,
        problems=(*found.problems, message),
    )


SUMMARY: Final = "summary_metrics.csv"
AVERAGES: Final = "average_metrics.json"
CONFIG: Final = "config.yml"
MESSAGES: Final = "messages"
IN_WORDS: Final = "verdict"
"""Measure in words, which the original does not write: who finds it knows who ran the case."""
FAILED_RUNS: Final = "Failed Runs"
_MAX_STEM: Final = 180
"""Bytes of a file's name that come from the name of a case."""
DISPLAY_NAMES: Final = {
    "orchestrate_agent_routing_accuracy": "Orchestrate Agent Routing F1",
    "total_steps": "Total Steps",
    "llm_steps": "LLM Steps",
    "average_agent_response_time": "Average Agent Response Time (s)",
    "assert_llm": "Assert LLM",
    "total_tool_calls": "Total Tool Calls",
    "expected_tool_calls": "Expected Tool Calls",
    "correct_tool_calls": "Correct Tool Calls",
    "missed_tool_calls": "Missed Tool Calls",
    "relevant_tool_calls": "Relevant Tool Calls",
    "tool_calls_with_incorrect_parameter": "Tool Calls with Incorrect Parameters",
    "tool_call_recall": "Tool Call Recall",
    "tool_call_precision": "Tool Call Precision",
    "tool_match_success": "Tool Match Success",
    "tool_parameter_f1": "Tool Parameter F1",
    "keyword_match": "Keyword Match",
    "semantic_match": "Semantic Match",
    "text_match": "Text Match",
    "is_success": "Journey Success",
    "journey_completion": "Journey Completion",
}
"""Names of measures for people, by the name in `metrics`, in the order of the files."""


def write_results(
    folder: Path, runs: Sequence[JourneyRun], config: WatsonxConfig, compat: str
) -> list[Path]:
    """Write all files of a run into a folder, which is made.

    Files of a case that was run more than once have `.run1`, `.run2` … in their names.

    Args:
        folder: The folder; files of the same names are written anew, others are left alone.
        runs: The journeys, by case and attempt.
        config: Settings of the run; keys and tokens are no part of it.
        compat: Name of the rules.

    Returns:
        The files.

    Raises:
        ConfigError: A file cannot be written.
    """
    texts: dict[str, str] = {
        SUMMARY: summary_csv(runs),
        AVERAGES: _json(average_metrics(runs, compat)),
        CONFIG: _config_text(config),
    }
    counts = Counter(run.result.name for run in runs)
    stems = file_stems(counts)
    for run in runs:
        stem = stems[run.result.name]
        if counts[run.result.name] > 1:
            stem += f".run{run.attempt + 1}"
        for kind, value in case_files(run).items():
            texts[f"{MESSAGES}/{stem}.{kind}.json"] = _json(value)
    try:
        (folder / MESSAGES).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write the results: {error}") from error
    return [folder / name for name in texts]


def case_files(run: JourneyRun) -> dict[str, JsonValue]:
    """Make the result files of one run, by kind: messages, their faults, measures, errors."""
    result = run.result
    messages: list[JsonValue] = [to_documented(message) for message in result.messages]
    reasons = result.reasons or (None,) * len(messages)
    found: dict[str, JsonValue] = {
        "messages": messages,
        "messages.analyze": [
            {"message": message, "reason": None if reason is None else dict(reason)}
            for message, reason in zip(messages, reasons, strict=True)
        ],
        "metrics": {**_row(run), IN_WORDS: result.message, "links": list(result.links)},
    }
    errors = [*([run.error] if run.error else []), *result.problems]
    return {**found, "errors": list(dict.fromkeys(errors))} if errors else found


def summary_csv(runs: Sequence[JourneyRun]) -> str:
    """The table of all runs; a measure that does not apply is an empty cell."""
    rows = [_row(run) for run in runs]
    first = ("run_idx",)
    last = ("dataset_name", "is_error", "assert_llm_comment", "text_match_comment")
    there = dict.fromkeys(name for row in rows for name in row)
    middle = [name for name in DISPLAY_NAMES if name in there]
    middle += [name for name in there if name not in (*first, *middle, *last)]
    names = [*first, *middle, *last]
    columns = {name: _cells([row.get(name) for row in rows]) for name in names}
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*columns.values(), strict=True))
    return out.getvalue()


def average_metrics(runs: Sequence[JourneyRun], compat: str) -> dict[str, Measure]:
    """Means of all measures, by the names that people see; null where nothing applies.

    By the rules of `sound` each run counts once, and one that ended early failed; those of
    `wxo-1.6.9` leave such runs out, take means of cases first, and round both to two places.
    """
    counted = [run for run in runs if compat != WXO or run.error is None]
    measured = [
        (run.result.name, {DISPLAY_NAMES.get(k, k): v for k, v in run.result.metrics.items()})
        for run in counted
    ]
    failed = len(runs) - sum(run.error is None for run in runs)
    if compat == WXO:
        overall = averages(measured).overall
        runs_first = {RUNS: overall.pop(RUNS, None)} if overall else {}
        return {**runs_first, **overall}
    names = dict.fromkeys(name for _, row in measured for name in row)
    return {
        RUNS: len(runs),
        FAILED_RUNS: failed,
        **{name: _mean([row.get(name) for _, row in measured]) for name in names},
    }


def _mean(values: Sequence[Measure]) -> float | None:
    numbers = [float(value) for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


def _row(run: JourneyRun) -> dict[str, JsonValue]:
    result = run.result
    is_lost = result.compat == WXO and bool(result.problems)
    return {
        "run_idx": run.attempt + 1,
        **result.metrics,
        "dataset_name": result.name,
        "is_error": int(run.error is not None or is_lost),
        "assert_llm_comment": _of_checks(result),
        "text_match_comment": _of_texts(result),
    }


def _of_checks(result: JourneyResult) -> str:
    if not result.checks:
        return "No assertions to evaluate"
    passed = sum(check.passed is True for check in result.checks)
    return f"{passed}/{len(result.checks)} assertions passed"


def _of_texts(result: JourneyResult) -> str:
    texts = [goal for goal in result.goals if goal.type == "text"]
    return f"Matched {sum(goal.met for goal in texts)}/{len(texts)} text goals"


def _cells(values: Sequence[JsonValue]) -> list[str]:
    """One column: whole numbers beside an empty cell are written as 1.0, as the original does."""
    numbers = [each for each in values if isinstance(each, int | float)]
    is_bool = all(isinstance(each, bool) for each in numbers)
    is_float = not is_bool and (None in values or any(isinstance(each, float) for each in numbers))
    return [
        "" if each is None else str(float(each)) if is_float and isinstance(each, int | float)
        else str(each)
        for each in values
    ]  # fmt: skip


def file_stems(names: Iterable[str]) -> dict[str, str]:
    """Names as parts of files' names: no letter leads to another folder, and each is its own."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        retained = "".join(
            letter if letter.isalnum() or letter in "-_. " else "_" for letter in name
        )
        cut = retained.lstrip(".").encode("utf-8", "ignore")[:_MAX_STEM].decode("utf-8", "ignore")
        stem = first = cut or "case"
        number = 1
        while stem.casefold() in taken:  # some file systems do not tell A from a
            number += 1
            stem = f"{first}-{number}"
        taken.add(stem.casefold())
        found[name] = stem
    return found


def _json(value: Any) -> str:  # noqa: ANN401 - anything with a JSON form
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def _config_text(config: WatsonxConfig) -> str:
    value: Mapping[str, Any] = config.model_dump(exclude_none=True)
    return yaml.safe_dump(dict(value), sort_keys=False, allow_unicode=True)


RUNS = "Runs"


@dataclass(slots=True)
class Averages:
    """Means of runs."""

    per_dataset: dict[str, dict[str, Measure]] = field(
        default_factory=dict[str, dict[str, Measure]]
    )
    overall: dict[str, Measure] = field(default_factory=dict[str, Measure])


def averages(runs: Iterable[tuple[str, Mapping[str, Measure]]]) -> Averages:
    """Take the means of measures.

    Args:
        runs: The name of the dataset and the measures of each run; None does not count.

    Returns:
        Means of each dataset to two places, with `Runs`, the number of values of its last measure;
        and the means of these means, to two places again. None where there is no value.
    """
    found: dict[str, dict[str, list[Measure]]] = {}
    for name, measures in runs:
        for measure, value in measures.items():
            found.setdefault(name, {}).setdefault(measure, []).append(value)
    result = Averages()
    for name, measures in found.items():
        row = {measure: _rounded(values) for measure, values in measures.items()}
        row[RUNS] = len(next(reversed(measures.values()))) if measures else 0
        result.per_dataset[name] = row
    names = dict.fromkeys(measure for row in result.per_dataset.values() for measure in row)
    rows = result.per_dataset.values()
    result.overall = {name: _rounded([row.get(name) for row in rows]) for name in names}
    return result


def _rounded(values: Sequence[Measure]) -> float | None:
    found = _mean(values)
    return None if found is None else round(found, 2)
