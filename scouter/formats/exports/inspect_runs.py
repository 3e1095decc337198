"""Logs of Inspect as runs that can be compared: a sample is a scenario, an epoch an attempt.

Each score is a task. It passes where it is correct, true or 1. A scorer that gives other numbers,
too, has a scale and no threshold: its scores all pass, and their means are compared.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.results.run import Loss, lost_of
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.function import FunctionTask
from scouter.formats.exports.inspect_log import LETTERS, Sample, samples_of, scores_of
from scouter.formats.exports.spans import number_of
from scouter.model.attributes import SCENARIO_ID_MAX_CHARS
from scouter.model.genai.messages import field, items, text
from scouter.replay.recorded import StoredRun, judge_stored
from scouter.replay.runner import EvalRunner

_LOWEST: Final = -1e308
"""A score that every score reaches."""


def runs_of(*paths: Path) -> list[ScenarioEvalResults]:
    """Read logs as runs, for `compare_to`.

    Args:
        paths: Logs of one task. Whether a score passes is reported by the scores of all of them.
            The last is compared with those before it.

    Raises:
        ConfigError: A log cannot be read, or has no sample; or one that is compared with lacks some
            that cannot be read.

    Cost: linear; the samples' scores and texts are in memory.
    """
    read = [_read(path) for path in paths]
    for _, faults in read[:-1]:
        if faults:
            raise faults[0]
    scaled = {
        name
        for samples, _ in read
        for sample in samples
        for name, (value, _) in scores_of(sample.value).items()
        if _score(value) not in (None, 0.0, 1.0) and value not in LETTERS
    }
    return [_run(samples, len(faults), scaled) for samples, faults in read]


def _read(path: Path) -> tuple[list[Sample], list[FileFormatError]]:
    faults: list[FileFormatError] = []
    samples = sorted(samples_of(path, faults.append), key=_epoch)
    if not samples:
        raise faults[0] if faults else ConfigError(f"{path}: the log has no samples")
    return samples, faults


def _epoch(sample: Sample) -> int:
    epoch = sample.value.get("epoch")
    return epoch if isinstance(epoch, int) else 0


def _run(samples: Sequence[Sample], faults: int, scaled: set[str]) -> ScenarioEvalResults:
    by_id: dict[str, list[Sample]] = {}
    for sample in samples:
        by_id.setdefault(str(sample.value["id"])[:SCENARIO_ID_MAX_CHARS], []).append(sample)
    names = list(dict.fromkeys(name for each in samples for name in scores_of(each.value)))
    tasks = [_task(name, is_scaled=name in scaled) for name in names]
    if not tasks:
        raise ConfigError(f"{samples[0].path}: no sample has a score")
    scenarios = EvalScenarios(
        [
            EvalScenario(_question(its[0].value) or name, tasks, id=name)
            for name, its in by_id.items()
        ]
    )

    def collect(runner: EvalRunner) -> None:
        runner.lost = lost_of({Loss.UNREADABLE: faults})
        for scenario in scenarios:
            for attempt, sample in enumerate(by_id[scenario.id]):
                _collect(runner, scenario, attempt, sample.value)

    run = StoredRun(agent_version=text(samples[0].log.get("model")))
    return judge_stored(scenarios, run, collect)


def _collect(
    runner: EvalRunner, scenario: EvalScenario, attempt: int, value: Mapping[str, JsonValue]
) -> None:
    answer = text(field(value.get("output"), "completion"))
    scores = {name: each for name, (each, _) in scores_of(dict(value)).items()}
    error = text(field(value.get("error"), "message"))
    runner.collect_scenario_data(
        {},
        {"answer": answer, "scores": scores},
        scenario,
        attempt=attempt,
        turns=[{"user": scenario.initial_query, "agent": answer}],
        error=error or None,
    )


def _question(value: Mapping[str, JsonValue]) -> str:
    """The question of the sample: a text, or the last message of the user."""
    given = value.get("input")
    questions = [field(each, "content") for each in items(given) if field(each, "role") == "user"]
    return text(given) or text(questions[-1] if questions else None)


def _task(name: str, *, is_scaled: bool) -> FunctionTask:
    if is_scaled:
        return FunctionTask(
            name,
            _score_named(name),
            settings={"scorer": name},
            operator=ComparisonOperator.GreaterThanOrEqual,
            expected_value=_LOWEST,
        )
    return FunctionTask(name, _score_named(name), settings={"scorer": name})


def _score_named(name: str) -> Callable[[JsonValue], float]:
    def score(context: JsonValue) -> float:
        scores = field(field(context, "response"), "scores")
        if not isinstance(scores, dict) or name not in scores:
            raise TaskFault(Reason.MISSING_PATH, f"the sample has no score of {name}")
        found = _score(scores[name])
        if found is None:
            raise TaskFault(Reason.TYPE, f"the score of {name} is {scores[name]!r}, no number")
        return found

    return score


def _score(value: JsonValue) -> float | None:
    return LETTERS.get(value) if isinstance(value, str) else number_of(value)
