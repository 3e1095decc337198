"""Calibrations to look up by their judge, and pass rates of judge tasks beside what they say."""

import datetime
import hashlib
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.identity import Identity, identify, identify_among
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown, JudgeRate
from scouter.evaluate.scenario import EvalScenario
from scouter.evaluate.statistics.clustered import effect_of_conversations
from scouter.evaluate.statistics.corrected_rate import CannotSay, CorrectedRate, JudgeCounts
from scouter.evaluate.tasks.judge import LLMJudgeTask


class Unfit(NamedTuple):
    """There is no calibration of this judge."""

    differences: tuple[str, ...]
    """In what the nearest one of the same task was requested otherwise; empty if there is none."""

    @property
    def why(self) -> str:
        """The same in a sentence."""
        if not self.differences:
            return "no calibration of this task is known"
        return f"{'; '.join(self.differences)}; calibrate this judge"


class Calibrations:
    """Some calibrations.

    Args:
        known: In any order.
    """

    def __init__(self, known: Iterable[Calibration] = ()) -> None:
        self._known = sorted(known, key=lambda each: each.created_at)

    def __len__(self) -> int:
        return len(self._known)

    @classmethod
    def read(cls, paths: Iterable[Path]) -> "Calibrations":
        """Read files, and all `.json` files of folders (not of folders in them).

        Raises:
            ConfigError: A folder holds none, or a file is no calibration; names file and field.
        """
        return cls(read_calibrations(paths))

    def of(self, identity: Identity) -> Calibration | Unfit:
        """Find the latest calibration of a judge."""
        every = self.every(identity)
        return every[-1] if every else self._nearest(identity)

    def at(self, identity: Identity, when: datetime.datetime) -> Calibration | Unfit:
        """Find the calibration that an outcome of some time was made under.

        It is the last one made until then; before the first one it is the first.
        """
        every = self.every(identity)
        return in_force(every, when) if every else self._nearest(identity)

    def every(self, identity: Identity) -> Sequence[Calibration]:
        """All calibrations of a judge, the oldest first."""
        return [each for each in self._known if not each.identity.differences(identity)]

    def _nearest(self, identity: Identity) -> Unfit:
        """In what the latest one differs, of those that differ in the least."""
        found = [
            tuple(each.identity.differences(identity))
            for each in reversed(self._known)
            if each.identity.task_id == identity.task_id
        ]
        return Unfit(min(found, key=len, default=()))


def in_force(every: Sequence[Calibration], when: datetime.datetime) -> Calibration:
    """Choose the calibration that was in force when a judge gave an outcome.

    If the outcome is older than every calibration, the first calibration is taken.

    Args:
        every: At least one, the oldest first.
        when: Time of the outcome.
    """
    return next((each for each in reversed(every) if each.created_at <= when), every[0])


def read_calibrations(paths: Iterable[Path]) -> list[Calibration]:
    """Read files, and all `.json` files of folders (not of folders in them).

    Raises:
        ConfigError: A folder holds none, or a file is no calibration; names file and field.
    """
    found: list[Calibration] = []
    for path in paths:
        files = [path]
        if path.is_dir():
            files = sorted(path.glob("*.json"))
            if not files:
                raise ConfigError(
                    f"{path}: no calibration (*.json) in this folder; scouter judge calibrate "
                    "--save makes one"
                )
        found += map(Calibration.load, files)
    return found


class RecordOutcome(NamedTuple):
    """Decision of a judge on one record."""

    outcome: Outcome
    uid: str = ""
    record_id: str = ""
    session: str = ""


def rate(
    identity: Identity, outcomes: Iterable[RecordOutcome], known: Calibration | Unfit
) -> JudgeRate:
    """Set the pass rate of one task beside what is known of its judge.

    Args:
        identity: Of the task.
        outcomes: On records, each once.
        known: The calibration of this judge, or that there is none.

    Cost: linear in the outcomes, and about 1 ms for the corrected rate.
    """
    decided = [each for each in outcomes if each.outcome in (Outcome.PASSED, Outcome.FAILED)]
    answers = answers_of(decided)
    names = [(each.uid, each.record_id) for each in decided]
    found = rate_of_answers(identity, answers, known, names)
    if found.rate is None or isinstance(known, Unfit):
        return found
    error = known.error(answers)
    interval = error.interval if isinstance(error, CorrectedRate) else None
    return found.model_copy(update={"error": interval})


def answers_of(decided: Sequence[RecordOutcome]) -> JudgeCounts:
    """Count outcomes, each passed or failed; turns of a conversation count as what they tell."""
    passed = sum(each.outcome is Outcome.PASSED for each in decided)
    effect = effect_of_conversations(
        (each.session, each.outcome is Outcome.PASSED) for each in decided
    )
    return JudgeCounts(passed, len(decided), effect)


def rate_of_answers(
    identity: Identity,
    answers: JudgeCounts,
    known: Calibration | Unfit,
    names: Collection[tuple[str, str]] = (),
) -> JudgeRate:
    """Do the same with counts, and with the uids and record ids, if somebody knows them."""
    found = JudgeRate(
        alias=identity.alias,
        task_id=identity.task_id,
        passed=answers.passed,
        judged=answers.judged,
        standing="not_calibrated",
    )
    if isinstance(known, Unfit):
        standing = "another_judge" if known.differences else "not_calibrated"
        return found.model_copy(update={"standing": standing, "why": known.why})
    correction, _ = known.correct(answers, names)
    short = in_short(known)
    if isinstance(correction, CannotSay):
        return found.model_copy(
            update={"standing": "cannot_say", "why": correction.reason, "calibration": short}
        )
    return found.model_copy(
        update={
            "standing": "corrected",
            "rate": correction.estimate,
            "interval": correction.interval,
            "calibration": short,
        }
    )


def together(parts: Sequence[JudgeRate]) -> JudgeRate:
    """Put the rates of one task's outcomes together that several calibrations tell of.

    Each part counts by its outcomes, and so do the ends of its interval: the whole is as wide as if
    the parts' errors all went the same way, as they may where calibrations share labels. A part
    of which nothing can be said leaves nothing to say of the whole; one without outcomes does not
    count.

    Args:
        parts: At least one, the oldest first; each of other outcomes.

    Returns:
        The rate, with the last calibration that counts.
    """
    counted = [each for each in parts if each.judged] or [parts[-1]]
    judged = sum(each.judged for each in counted)
    sums = {
        "passed": sum(each.passed for each in parts),
        "judged": judged,
    }
    found = counted[-1].model_copy(update=sums)
    if len(counted) == 1:
        return found
    for each in counted:
        if each.rate is None:
            why = f"of {each.judged:,} of the {judged:,} outcomes: {each.why}"
            nothing = {"standing": each.standing, "why": why, "rate": None, "interval": None}
            return found.model_copy(update=nothing)

    def mean(values: Iterable[float]) -> float:
        weighted = (value * each.judged for value, each in zip(values, counted, strict=True))
        return math.fsum(weighted) / judged

    lower, upper = zip(*(each.interval or (0.0, 1.0) for each in counted), strict=True)
    rate = mean(each.rate or 0.0 for each in counted)
    return found.model_copy(update={"rate": rate, "interval": (mean(lower), mean(upper))})


def in_short(known: Calibration) -> JudgeKnown:
    """Say of a calibration what stands beside a pass rate."""
    counts = (known.drawn or known).counts
    return JudgeKnown(
        digest=digest_of(known),
        created_at=known.created_at.astimezone(datetime.UTC).isoformat(timespec="seconds"),
        sensitivity=known.sensitivity.value,
        sensitivity_interval=known.sensitivity.interval,
        specificity=known.specificity.value,
        specificity_interval=known.specificity.interval,
        kappa=known.kappa.value,
        good=counts.good,
        bad=counts.bad,
    )


def digest_of(known: Calibration) -> str:
    """SHA-256 of a calibration's content, in hex."""
    return hashlib.sha256(known.model_dump_json().encode()).hexdigest()


def judge_rates(
    results: ScenarioEvalResults,
    profiles: Mapping[str, AgentEvalProfile],
    scenarios: Sequence[EvalScenario],
    calibrations: Calibrations,
    judge: str = "",
) -> tuple[JudgeRate, ...]:
    """Compute the rate of every judge task of a replay.

    Args:
        results: The replay.
        profiles: That judged, by alias.
        scenarios: That were run.
        calibrations: Those that there are.
        judge: `module:name` of the judge in place of provider entries; empty if they were.

    Returns:
        By alias, then by task as in the profile; last the scenarios' own tasks by id. Session-
        scoped tasks, which cannot be calibrated, are left out. A task of several scenarios that
        is not called alike in all of them counts as one that has no calibration.

    Cost: linear in the number of task results.
    """
    found: list[JudgeRate] = []
    for alias, profile in profiles.items():
        if alias not in results.dataset_results:
            continue
        outcomes = _of_records(results, alias)
        for task in profile.llm_judge_tasks:
            if task.scope == "record":
                identity = identify(profile, task, judge)
                known = calibrations.of(identity)
                found.append(rate(identity, outcomes[task.id], known))
    of_scenarios = _of_scenarios(results)
    for task_id, identities in _own_judges(scenarios, judge).items():
        first, *others = identities
        known = calibrations.of(first)
        if any(first.differences(other) for other in others):
            known = Unfit(("the scenarios do not all ask the same under this id",))
        found.append(rate(first, of_scenarios[task_id], known))
    return tuple(found)


def _of_records(results: ScenarioEvalResults, alias: str) -> Mapping[str, Sequence[RecordOutcome]]:
    found: defaultdict[str, list[RecordOutcome]] = defaultdict(list)
    for record in results.dataset_results[alias].records:
        for task in record.tasks:
            outcome = RecordOutcome(
                task.outcome, record.record_uid, record.record_id, record.session_id
            )
            found[task.task_id].append(outcome)
    return found


def _of_scenarios(results: ScenarioEvalResults) -> Mapping[str, Sequence[RecordOutcome]]:
    found: defaultdict[str, list[RecordOutcome]] = defaultdict(list)
    for attempt in results.scenario_results:
        for task in attempt.task_results:
            found[task.task_id].append(RecordOutcome(task.outcome))
    return found


def _own_judges(scenarios: Sequence[EvalScenario], judge: str) -> Mapping[str, Sequence[Identity]]:
    """By task id, what each scenario asks under it."""
    found: defaultdict[str, list[Identity]] = defaultdict(list)
    for scenario, task in _judge_tasks(scenarios):
        found[task.id].append(identify_among(scenario.tasks, task, judge))
    return found


def _judge_tasks(scenarios: Sequence[EvalScenario]) -> Iterator[tuple[EvalScenario, LLMJudgeTask]]:
    for scenario in scenarios:
        for task in scenario.tasks:
            if isinstance(task, LLMJudgeTask):
                yield scenario, task
