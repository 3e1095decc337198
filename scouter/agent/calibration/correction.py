"""A calibration applied to a file of results: the pass rate of people's judgement behind it."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from scouter.agent.calibration.calibration import Calibration
from scouter.agent.calibration.identity import identify, judge_task
from scouter.agent.calibration.rates import RecordOutcome, answers_of
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.files.read import parse_json, read_text
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.file import from_document
from scouter.evaluate.results.provenance import Provenance
from scouter.evaluate.statistics.corrected_rate import Correction


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A task's pass rate as the judge sees it, and as people would."""

    passed: int
    judged: int
    """Records that the judge passed or failed."""
    left_out: Counter[str]
    """Records without an outcome, by outcome."""
    is_of_traffic: bool
    """True if the labels were drawn from these very records."""
    naive: Interval
    correction: Correction

    @property
    def naive_rate(self) -> float | None:
        """Passed of judged; None if nothing was."""
        return self.passed / self.judged if self.judged else None


class Part(NamedTuple):
    """The results of one alias."""

    digest: str
    """Digest of the profile that judged; empty if it is not known."""
    results: EvalResults


class Loaded(NamedTuple):
    """Content of a file of results: the results of each profile, and the judge."""

    parts: dict[str, Part]
    """Results by the alias of the profile; the alias is empty without a replay."""
    judge: str | None
    """Judge that was called; see `Provenance.judge`."""


def load_results(path: Path) -> Loaded:
    """Read what `scouter eval --save` or `EvalResults.save` wrote.

    Raises:
        FileFormatError: The file holds no results; names line and field where they are known.
    """
    document = parse_json(str(path), read_text(path))
    value = document.value
    if isinstance(value, dict) and isinstance(value.get("results"), list):
        found = from_document(document, EvalResults)
        origin = found.provenance or Provenance()
        parts = {alias: Part(digest, found) for alias, digest in origin.profile_digests.items()}
        return Loaded(parts or {"": Part("", found)}, origin.judge)
    replay = ScenarioEvalResults.from_document(document)
    origin = replay.provenance
    parts = {
        alias: Part(origin.profile_digests.get(alias, ""), results)
        for alias, results in replay.dataset_results.items()
    }
    return Loaded(parts, origin.judge)


def correct(
    results: Path,
    calibration: Calibration,
    profile: AgentEvalProfile | None = None,
) -> Corrected:
    """Correct the pass rate of the calibrated task in a file of results.

    Args:
        results: The file.
        calibration: Calibration of the task.
        profile: Profile of the results, where it is another version than the calibrated one.

    Raises:
        ConfigError: The outcomes were requested otherwise than in the calibration; names the
            difference.
    """
    found = _matching(results, load_results(results), calibration, profile)
    records = [record for part in found for record in part.records]
    decided: list[RecordOutcome] = []
    left_out: Counter[str] = Counter()
    for record in records:
        task = next(
            (each for each in record.tasks if each.task_id == calibration.identity.task_id), None
        )
        if task is None:
            continue
        if task.outcome in (Outcome.PASSED, Outcome.FAILED):
            names = record.record_uid, record.record_id, record.session_id
            decided.append(RecordOutcome(task.outcome, *names))
        else:
            left_out[str(task.outcome)] += 1
    answers = answers_of(decided)
    names = [(each.uid, each.record_id) for each in decided]
    correction, is_of_traffic = calibration.correct(answers, names)
    return Corrected(
        passed=answers.passed,
        judged=answers.judged,
        left_out=left_out,
        is_of_traffic=is_of_traffic,
        naive=wilson(answers.passed, answers.judged),
        correction=correction,
    )


def _matching(
    path: Path,
    found: Loaded,
    calibration: Calibration,
    profile: AgentEvalProfile | None,
) -> list[EvalResults]:
    """The results that the calibrated judge gave."""
    wanted = calibration.identity
    digest = wanted.profile_digest
    other = wanted.model_copy(update={"judge": found.judge})
    whose = str(path)
    if profile is not None:
        other = identify(profile, judge_task(profile, wanted.task_id), found.judge)
        whose = f"profile {profile.alias!r}"
        digest = profile.digest
    differences = wanted.differences(other)
    if differences:
        raise ConfigError(
            f"the calibration is of another judge than that of {whose}: "
            f"{'; '.join(differences)}; calibrate again"
        )
    same = [part.results for part in found.parts.values() if part.digest == digest]
    if same:
        return same
    known = ", ".join(
        f"{alias or 'its tasks'} {part.digest[:12] or '?'}" for alias, part in found.parts.items()
    )
    raise ConfigError(
        f"{path}: judged by {known or 'no profile'}, but "
        + (
            f"the calibration is of profile {wanted.alias!r} {digest[:12]}; if only other tasks "
            "differ, give the profile that judged with --profile"
            if profile is None
            else f"--profile is {digest[:12]}"
        )
    )
