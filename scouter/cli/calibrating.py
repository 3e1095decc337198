"""From a file of labels to a calibration, and from a judge's outcomes to records to label."""

import csv
import datetime
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import typer
from pydantic import JsonValue

from scouter.agent.calibration.asking import (
    JudgeOutcome,
    ask_judge,
    judge_outcome,
    length_of,
    scale_of,
    swapped,
    votes_on,
)
from scouter.agent.calibration.calibration import Calibration, Evidence, calibrate
from scouter.agent.calibration.correction import load_results
from scouter.agent.calibration.drawn import draw, drawn_line, mixed
from scouter.agent.calibration.identity import identify, judge_task, needed
from scouter.agent.calibration.labels import Item, LabelFile, gather, read_labels
from scouter.agent.entries import ProviderEntries
from scouter.agent.model_judge import ModelJudge
from scouter.cli.asking import connect
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.judge.port import (
    Judge,
    JudgeReply,
    JudgeRequest,
    as_judge,
    time_limit_of,
)
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.paths.path import Path as ContextPath
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.statistics.corrected_rate import JudgeCounts
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.model.visible import one_line
from scouter.replay.named_run import NO_PRICES, check_prompts, named_judge
from scouter.replay.progress import progress_bar
from scouter.replay.reports.texts import counted

_SHOWN: Final = 5
"""Most line numbers that a message about repeated lines lists."""
_NO_OUTCOME: Final = JudgeOutcome(passed=None, why="no outcome in any file")
_NO_NAME: Final = JudgeOutcome(passed=None, why="no uid or record_id in the label")
_SEVERAL: Final = JudgeOutcome(passed=None, why="several records have this id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The arguments of `scouter judge calibrate`, where they are documented."""

    labels: str
    """A file, or the address of a collector."""
    profile: str
    task: str | None = None
    judge: str | None = None
    providers: Path | None = None
    judge_budget_usd: float | None = None
    judge_timeout_s: float | None = None
    results: Path | None = None
    repeats: int = 1
    swap: tuple[str, str] | None = None
    length_of: str = ""
    concurrency: int = 8

    @property
    def asking(self) -> list[str]:
        """The options that say that a judge is called, although outcomes may be there."""
        options = {
            "--providers": self.providers is not None,
            "--repeats": self.repeats > 1,
            "--swap": self.swap is not None,
        }
        return [name for name, is_given in options.items() if is_given]


def _read(labels: str, alias: str, task_id: str) -> LabelFile:
    """Read a file of labels, or those that a collector keeps of a task."""
    if not labels.startswith(("http://", "https://")):
        return read_labels(labels)
    with TemporaryDirectory() as folder, connect(labels, None) as client:
        file = Path(folder) / "labels.jsonl"
        with file.open("wb") as lines:
            lines.writelines(client.label_file(alias, task_id))
        return read_labels(file)


def run(wanted: Wanted, *, is_quiet: bool) -> Calibration:
    """Read labels, ask the judge, and sum up.

    Args:
        wanted: The arguments.
        is_quiet: Shows no progress.

    Raises:
        ConfigError: A file or a name is wrong, or there is nothing to hold against each other.
    """
    profile = AgentEvalProfile.from_file(wanted.profile)
    task = judge_task(profile, wanted.task)
    ContextPath(wanted.length_of or None)  # a path that can never work is refused here
    _check_options(wanted)
    file = _read(wanted.labels, profile.alias, task.id)
    problems: list[Exception] = list(file.problems)
    path = wanted.labels
    items = gather(votes_on(file.labels, task, path, problems), path, problems)
    for problem in [*problems, *_repeats(path, items)]:
        typer.echo(f"scouter: {one_line(problem)}", err=True)
    if file.waiting:
        waiting = counted(file.waiting, "line")
        typer.echo(f"scouter: {path}: {waiting} not filled in yet", err=True)
    if not items:
        raise ConfigError(f"{wanted.labels}: no label for the task {task.id!r} could be read")
    for item in items:
        if item.length is None and item.context is not None:
            item.length = length_of(item.context, wanted.length_of)
    judge = _judge(wanted, profile, task, items)
    known = _known(items, profile, task, wanted.results)
    judged = [at for at, item in enumerate(items) if judge and item.context is not None]
    contexts = [items[at].context for at in judged]
    exchanged = [swapped(each, wanted.swap) for each in contexts] if wanted.swap else []
    total = len(contexts) * wanted.repeats + len(exchanged)
    other: list[JudgeOutcome] = [_NO_OUTCOME] * len(items)
    if judge is not None:
        with progress_bar(total, 0, False if is_quiet else None, "Judging") as progress:
            ask = partial(
                ask_judge, profile, task, judge=judge, concurrency=wanted.concurrency,
                tick=partial(progress.ended, True),
            )  # fmt: skip
            for at, outcomes in zip(judged, ask(contexts, repeats=wanted.repeats), strict=True):
                known[at] = outcomes
            for at, outcomes in zip(judged if exchanged else (), ask(exchanged), strict=True):
                other[at] = outcomes[0]
    if all(each[0].passed is None for each in known):
        raise ConfigError(_nothing(known, wanted, has_judge=judge is not None))
    evidence = Evidence(
        items=items,
        outcomes=known,
        swapped=other if exchanged else (),
        answered_by=_answered_by(wanted, task, judge),
        models=Counter() if judge is None else judge.models,
        labels=len(file.labels),
        bad_lines=len(problems),
    )
    identity = identify(profile, task, _who(wanted, has_judge=judge is not None))
    return calibrate(identity, evidence, datetime.datetime.now(datetime.UTC))


def _repeats(path: str, items: Sequence[Item]) -> list[FileFormatError]:
    """Name the lines that say nothing new, if there are any, as they count for less than lines."""
    lines = sorted(line for item in items for line in item.repeats)
    if not lines:
        return []
    more = ", ".join(str(line) for line in lines[1:_SHOWN])
    if len(lines) > _SHOWN:
        more += f" and {len(lines) - _SHOWN} more"
    text = "says of a record what the same rater says in an earlier line; the two count once"
    return [FileFormatError(path, f"{text} (so does line {more})" if more else text, lines[0])]


def _check_options(wanted: Wanted) -> None:
    """Refuse what would change nothing.

    Raises:
        ConfigError: Names it, and says what to leave out.
    """
    if wanted.judge is not None:
        if wanted.judge_budget_usd is not None:
            raise ConfigError(NO_PRICES)
        if wanted.providers is not None:
            raise ConfigError(
                "--providers has the entry that the prompt names, and --judge is called in its "
                "place. Leave one of the two out"
            )
    elif wanted.results is not None:
        given = wanted.asking
        if wanted.judge_budget_usd is not None:
            given.append("--judge-budget")
        if wanted.judge_timeout_s is not None:
            given.append("--judge-timeout")
        if given:
            names = " and ".join(given)
            raise ConfigError(
                f"--results calls nobody, as it has the outcomes; {names} would change nothing. "
                f"Leave {names} out, or --results to have the provider entry called"
            )


def _judge(
    wanted: Wanted,
    profile: AgentEvalProfile,
    task: LLMJudgeTask,
    items: Sequence[Item],
) -> "_Watched | None":
    """Find out who is called.

    The judge that is named; else nobody where outcomes are there already; else the provider
    entries that prompts name. No answer comes from a cache, as a judge's own wavering is to be
    seen.

    Raises:
        ConfigError: Somebody is meant to be called, and cannot be.
    """
    asking = wanted.asking if wanted.judge is None else ["--judge", *wanted.asking]
    if asking and all(item.context is None for item in items):
        names = " and ".join(asking)
        raise ConfigError(
            f"{wanted.labels}: no line has a context, so that nobody can be called; add contexts, "
            f"or leave {names} out"
        )
    if wanted.judge is not None:
        return _Watched(named_judge(wanted.judge, wanted.judge_timeout_s))
    if wanted.results is not None:
        return None
    is_judged = any(
        item.judged is not None
        or item.judge_score is not None
        or item.judged_when_drawn is not None
        for item in items
    )
    if (is_judged and not asking) or all(item.context is None for item in items):
        return None
    entries = ProviderEntries.from_settings(wanted.providers)
    judge = ModelJudge(
        entries, budget_usd=wanted.judge_budget_usd, timeout_s=wanted.judge_timeout_s
    )
    check_prompts(judge, needed(profile.tasks, task.id))
    return _Watched(judge)


def _answered_by(wanted: Wanted, task: LLMJudgeTask, judge: "_Watched | None") -> str:
    if wanted.judge is not None:
        return wanted.judge
    if judge is not None:
        return f"provider entry {task.prompt.provider}"
    return str(wanted.results or wanted.labels)


def _who(wanted: Wanted, *, has_judge: bool) -> str | None:
    """Name of the judge that was called in place of the provider entry; see `Identity.judge`."""
    if wanted.judge is not None or has_judge:
        return wanted.judge or ""
    return None if wanted.results is None else load_results(wanted.results).judge


def judged_results(
    results: Path, profile: AgentEvalProfile, task: LLMJudgeTask
) -> Iterator[tuple[RecordResult, EvalTaskResult]]:
    """The results of a task in a file, with their records.

    Raises:
        ConfigError: They are of another profile.
    """
    parts = load_results(results).parts.values()
    same = [part for digest, part in parts if digest == profile.digest]
    if not same:
        known = ", ".join(digest[:12] or "?" for digest, _ in parts) or "none"
        raise ConfigError(
            f"{results}: its records were judged by another profile ({known}) than "
            f"{profile.alias!r} {profile.digest[:12]}; give the one that judged with --profile"
        )
    for part in same:
        for record in part.records:
            for result in record.tasks:
                if result.task_id == task.id:
                    yield record, result


def _by_name(
    results: Path, profile: AgentEvalProfile, task: LLMJudgeTask
) -> dict[str, JudgeOutcome]:
    """The outcomes in a file of results, by uid and by record id."""
    found: dict[str, JudgeOutcome] = {}
    for record, result in judged_results(results, profile, task):
        outcome = judge_outcome(result)
        found[f"uid {record.record_uid}"] = outcome
        name = f"id {record.record_id}"
        found[name] = _SEVERAL if name in found else outcome
    return found


def _known(
    items: Sequence[Item], profile: AgentEvalProfile, task: LLMJudgeTask, results: Path | None
) -> list[list[JudgeOutcome]]:
    """Collect the outcomes that the judge gave earlier: from the labels, else from the results."""
    passes = scale_of(task)
    by_name = {} if results is None else _by_name(results, profile, task)
    found: list[list[JudgeOutcome]] = []
    for item in items:
        is_named = results is None or bool(item.uid or item.record_id)
        outcome = by_name.get(item.key, _NO_OUTCOME) if is_named else _NO_NAME
        if item.judged is not None:
            outcome = JudgeOutcome(passed=item.judged, score=item.judge_score)
        elif item.judge_score is not None:
            outcome = JudgeOutcome(passed=passes(item.judge_score), score=item.judge_score)
        elif outcome.passed is None and item.judged_when_drawn is not None:
            outcome = JudgeOutcome(passed=item.judged_when_drawn)
        found.append([outcome])
    return found


def _nothing(known: Sequence[Sequence[JudgeOutcome]], wanted: Wanted, *, has_judge: bool) -> str:
    reasons = Counter(each[0].why for each in known)
    shown = ", ".join(f"{why} ({count})" for why, count in reasons.most_common(3))
    if not has_judge and wanted.results is None:
        return (
            f"{wanted.labels}: the lines hold neither outcomes of a judge nor contexts to ask one "
            "about; add contexts, or name a file of results with --results"
        )
    first = next((each[0].message for each in known if each[0].message), "")
    text = f"the judge decided none of the {len(known)} labelled records: {shown}"
    if not has_judge and _NO_NAME.why in reasons:
        return (
            f"{wanted.labels}: {text}. Records are found in --results by `uid` or `record_id`: "
            "give the labels one of them, or leave --results out to have the judge called"
        )
    return f"{text}; the first: {first}" if first else text


class _Watched:
    """A judge that counts which models answered."""

    def __init__(self, judge: object) -> None:
        self._judge: Judge = as_judge(judge)
        self.time_limit_s = time_limit_of(self._judge)
        self.models: Counter[str] = Counter()

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask, and note the model."""
        reply = await self._judge.ask(request)
        self.models[reply.model or request.model] += 1
        return replace(reply)


def draw_lines(
    source: str, profile: str, task_id: str | None, labels: int
) -> tuple[list[dict[str, JsonValue]], JudgeCounts]:
    """Draw records from a file of results or from a collector; see `_draw_from`."""
    found = AgentEvalProfile.from_file(profile)
    task = judge_task(found, task_id)
    if not source.startswith(("http://", "https://")):
        return _draw_from(Path(source), found, task, labels)
    with connect(source, None) as client:
        data = b"".join(client.label_file(found.alias, task.id, draw=labels))
    lines = [json.loads(line) for line in data.splitlines()]
    if not lines:
        raise ConfigError(f"{source}: the judge of {task.id!r} has decided no record yet")
    sizes = {each["stratum"]: each["size"] for each in lines}
    judged = sum(sizes.values())
    return lines, JudgeCounts(sizes.get("passed", judged if "all" in sizes else 0), judged)


def write_lines(path: Path, lines: Sequence[dict[str, JsonValue]]) -> None:
    """Write lines to be filled in; a context stands as JSON in a cell of CSV."""
    with path.open("x", encoding="utf-8", newline="") as file:
        if path.suffix != ".csv":
            file.writelines(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
            return
        names = list(dict.fromkeys(name for line in lines for name in line))
        rows = csv.DictWriter(file, names)
        rows.writeheader()
        for line in lines:
            cells = {
                name: value if value is None or isinstance(value, str | int) else json.dumps(value)
                for name, value in line.items()
            }
            rows.writerow(cells)


def _draw_from(
    results: Path, profile: AgentEvalProfile, task: LLMJudgeTask, labels: int
) -> tuple[list[dict[str, JsonValue]], JudgeCounts]:
    """Draw records from a file of results, and write the lines to be filled in.

    Returns:
        The lines, in an order that says nothing, and the judge's outcomes on what was drawn from.

    Raises:
        ConfigError: The file is of another profile, or the judge decided none of its records.
    """
    outcomes: dict[str, bool] = {}
    lines: dict[str, dict[str, JsonValue]] = {}
    for record, result in judged_results(results, profile, task):
        if result.outcome in (Outcome.PASSED, Outcome.FAILED):
            messages = () if result.exchange is None else result.exchange.messages
            question: JsonValue = "\n\n".join(each["content"] for each in messages)
            outcomes[record.record_uid] = result.passed
            lines[record.record_uid] = {
                "question": question, "record_id": record.record_id, "task": task.id,
                "session": record.session_id,
            }  # fmt: skip
    if not outcomes:
        raise ConfigError(f"{results}: the judge of {task.id!r} decided none of its records")
    places = sorted(draw(outcomes)[:labels], key=mixed)
    found = [drawn_line(place, lines[place.uid]) for place in places]
    return found, JudgeCounts(sum(outcomes.values()), len(outcomes))
