"""One profile: what its tasks check, on what, how that ends, and what they see."""

import asyncio
import json
from asyncio import Lock
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool

from collector.problem import ProblemError
from collector.web.incidents import alerts_of
from collector.web.period import Traffic, Window
from collector.web.render import cause, natural
from collector.web.source import Shown, Source
from collector.web.trace import path_of
from scouter.client.models.alerts import Alerts, DriftSeries, DriftSeriesList
from scouter.client.models.answer import Page
from scouter.client.models.evaluations import (
    Evaluation,
    RatedTask,
    TaskRates,
    TaskResult,
)
from scouter.client.models.records import Profile, ProfileItem
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.mutate.score import MutationScore, mutation_score
from scouter.evaluate.show.definition import Definition, definition_of
from scouter.evaluate.show.words import Words, listed, phrase, selected
from scouter.model.otlp_json import spans_from_otlp_json
from scouter.model.span import Span

_NEWEST: Final = 50
"""Evaluations that are looked at for the last run and for reasons."""
_RESULTS: Final = 1_000
"""Results that they have together, about: of a profile with many tasks fewer are looked at."""
FIRST: Final = 200
"""Tasks that the view shows at a time; a profile has a thousand at most."""
Results: TypeAlias = Sequence[tuple[datetime, TaskResult]]
"""Results of one task, the newest first, with the time of each."""
_UNDECIDED: Final = ("skipped", "pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """A task among the newest evaluations."""

    seen: int
    """Evaluations that have it."""
    last_at: datetime | None
    """Time of the newest one in which it ran."""
    reasons: Sequence[tuple[int, str, str]]
    """Count, outcome and reason of those that did not pass or fail, the largest count first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLook:
    """A task with what became of it."""

    definition: Definition
    rate: RatedTask | None
    """As `GET /api/v1/tasks` counts it in the period."""
    newest: Newest
    idle: str
    """Why nothing was decided in the period; empty where something was."""


async def tasks_view(source: Source, given: Mapping[str, str]) -> Shown:
    """Collect the view of a profile.

    Args:
        source: Asks the API.
        given: `profile`, its alias; `digest` of a version, by default the active one; `from`, the
            number of the first task; the window that the rates cover, of whose traffic the newest
            evaluations are.

    Raises:
        ProblemError: The API refused, or there is no such profile or version.
    """
    alias, window = given.get("profile", ""), Window.of(given)
    versions = await _versions(source, alias)
    item = _chosen(versions, alias, given.get("digest", ""))
    users, alerts, (body, rates, newest) = await asyncio.gather(
        _users(source, item),
        source.get(Alerts, "alerts"),
        _content(source, item, window),
    )
    tasks: list[Shown] = body.get("tasks", [])
    begin = natural(given.get("from", ""))
    rate_of = {each.task_id: each for each in rates}
    results = results_of(newest)
    return {
        **window.shown,
        "alias": alias,
        "digest": given.get("digest", ""),
        "item": item,
        "body": body,
        "versions": versions,
        "watched": _watched(body),
        "users": users,
        **alerts_of(alerts, alias),
        "looks": [
            _look(task, rate_of.get(task["id"]), results.get(task["id"], ()), item, window.traffic)
            for task in tasks[begin : begin + FIRST]
        ],
        "newest": len(newest),
        "begin": begin,
        "total": len(tasks),
        "judges": sum(1 for each in tasks if _asks(each)),
    }


async def definition_in(source: Source, alias: str, task_id: str) -> Definition | None:
    """The definition of a task in the active version of its profile, or the newest that has it.

    Args:
        source: Asks the API.
        alias: Of the profile.
        task_id: Of the task.

    Returns:
        None where no version has it.

    Raises:
        ProblemError: The API refused.
    """
    versions = await _versions(source, alias)
    item = next((each for each in versions if task_id in each.tasks), None)
    tasks: list[Shown] = (await _body(source, item))["tasks"] if item else []
    return next((definition_of(each) for each in tasks if each["id"] == task_id), None)


async def definitions_in(
    source: Source, alias: str, digest: str
) -> tuple[str, Mapping[str, Definition]]:
    """The version of a profile as it calls itself, and the definitions of its tasks.

    Returns:
        Nothing where that version is not registered any more, or is of no use.

    Raises:
        ProblemError: The API refused.
    """
    versions = await _versions(source, alias)
    item = next((each for each in versions if each.profile_version == digest), None)
    if item is None or item.unusable:
        return "", {}
    tasks = (await _body(source, item))["tasks"]
    return item.version, {each["id"]: definition_of(each) for each in tasks}


async def profile_body(source: Source, alias: str, digest: str) -> Shown:
    """All that one version of a profile says, as a profile file has it.

    Raises:
        ProblemError: The API refused, or there is no such profile or version.
    """
    item = _chosen(await _versions(source, alias), alias, digest)
    return await _body(source, item)


async def _versions(source: Source, alias: str) -> list[ProfileItem]:
    """The versions of a profile, the active one first, then the newest, then the unusable."""
    if not alias:
        return []
    found = await source.get(Page[ProfileItem], "profiles", alias=alias)
    return sorted(found.items, key=lambda each: not each.is_active)


def _chosen(versions: Sequence[ProfileItem], alias: str, digest: str) -> ProfileItem:
    for each in versions:
        if digest in ("", each.profile_version):
            return each
    if digest and versions:
        raise ProblemError(404, f"profile {alias[:100]!r} has no version {digest[:12]!r}")
    raise ProblemError(404, f"profile: {alias[:100]!r} is not registered")


async def _body(source: Source, item: ProfileItem) -> Shown:
    return dict((await source.get(Profile, f"profiles/{quote(item.uid, safe='')}")).body)


async def _content(
    source: Source, item: ProfileItem, window: Window
) -> tuple[Shown, Sequence[RatedTask], Sequence[Evaluation]]:
    """All that a version says, its rates, and its newest evaluations; nothing of one of no use."""
    if item.unusable:
        return {}, [], []
    uid, limit = item.uid, max(1, min(_NEWEST, _RESULTS // len(item.tasks)))
    body, rates, newest = await asyncio.gather(
        _body(source, item),
        source.get(TaskRates, "tasks", profile=uid, usage="true", **window.for_api),
        source.get(
            Page[Evaluation], "evaluations", profile=uid, limit=limit, **window.traffic.for_api
        ),
    )
    return body, rates.items, newest.items


def _look(
    task: Shown, rate: RatedTask | None, results: Results, profile: ProfileItem, traffic: Traffic
) -> TaskLook:
    definition = definition_of(task)
    newest = newest_of(results)
    return TaskLook(
        definition=definition,
        rate=rate,
        newest=newest,
        idle=idle(definition, rate, newest, profile, traffic),
    )


def results_of(evaluations: Iterable[Evaluation]) -> Mapping[str, Results]:
    """The results of each task in evaluations, in their order, with the time of each."""
    found: defaultdict[str, list[tuple[datetime, TaskResult]]] = defaultdict(list)
    for each in evaluations:
        for task in each.tasks:
            found[task.task_id].append((each.evaluated_at, task))
    return found


def newest_of(results: Results) -> Newest:
    """Sum up results of a task, the newest first."""
    last_at = None
    reasons: Counter[tuple[str, str]] = Counter()
    for at, task in results:
        if task.outcome not in _UNDECIDED:
            last_at = last_at or at
        if task.outcome not in ("passed", "failed"):
            reasons[task.outcome, task.reason or ""] += 1
    return Newest(
        seen=len(results),
        last_at=last_at,
        reasons=[
            (count, outcome, cause(reason)) for (outcome, reason), count in reasons.most_common()
        ],
    )


def idle(
    definition: Definition,
    rate: RatedTask | None,
    newest: Newest,
    profile: ProfileItem,
    traffic: Traffic,
) -> str:
    """Say why a task decided nothing in a period; empty where it decided something."""
    if rate is not None and rate.passed + rate.failed + rate.errored:
        return ""
    if not profile.is_active:
        return "This version is not active."
    if rate is not None and rate.skipped:
        whys = [f": {why}" for _, outcome, why in newest.reasons if outcome == "skipped" and why]
        return f"All {rate.skipped:,} were skipped{''.join(whys[:1])}."
    if any(outcome == "pending" for _, outcome, _ in newest.reasons):
        return "Its judge has yet to answer."
    where = f" of version {traffic.version}" if traffic.version else ""
    where += f" in {traffic.environment}" if traffic.environment else ""
    if definition.is_of_session:
        return f"It runs once a conversation is over, and no evaluation{where} has come since."
    return f"No record{where} was evaluated by this version in the period."


def _asks(task: Shown) -> bool:
    return bool(task.get("prompt") or task.get("prompt_without_reference"))


def _watched(body: Shown) -> Words | None:
    """The traces that a profile evaluates without a record, in words; None for none."""
    watch = body.get("watch")
    if watch is None:
        return None
    match = watch["match"]
    parts: list[Words] = []
    if match["service"] is not None:
        parts.append(phrase("of the service {name}", name=match["service"]))
    for key, value in match["attribute"].items():
        form = "with the attribute {key}" if value is None else "whose attribute {key} is {value}"
        parts.append(phrase(form, key=key, value=value))
    if match["filter"] is not None:
        parts.append(selected(match["filter"]))
    if not parts:
        return phrase("all traces")
    return phrase("traces with a span {parts}", parts=listed(parts, " and "))


async def _users(source: Source, item: ProfileItem) -> list[DriftSeries]:
    """Services that ran last, each in each environment, with the rate of whole records."""
    if not item.is_active or item.unusable:
        return []
    detectors = await source.get(DriftSeriesList, "drift/series", profile=item.uid)
    return [
        each for each in detectors.items if each.kind == "pass" and not (each.task or each.slice)
    ]


_TRACES: Final = 30
"""Traces that are read, the newest that passed."""
_MUTANTS: Final = 10
"""Mutants of a kind: the collector's own work goes on meanwhile, on the same processor."""
_BYTES: Final = 500_000
"""Size of a trace, as JSON; larger ones are left out."""
_one_at_a_time: Final = Lock()


async def faults_view(source: Source, given: Mapping[str, str]) -> Shown:
    """Collect which faults a profile sees.

    Args:
        source: Asks the API.
        given: `profile`, its alias; `digest` of a version, by default the active one.

    Raises:
        ProblemError: The API refused, or there is no such profile or version.
    """
    alias, digest = given.get("profile", ""), given.get("digest", "")
    profile = AgentEvalProfile.model_validate(await profile_body(source, alias, digest))
    passed = await source.get(
        Page[Evaluation], "evaluations", profile=profile.digest, outcome="passed", limit=_TRACES
    )
    score: MutationScore | None = None
    problem = ""
    shown: Shown = {"alias": alias, "digest": digest, "score": None, "most": _TRACES}
    async with _one_at_a_time:
        spans: list[Span] = []
        for trace_id in {each.trace_id: None for each in passed.items if each.trace_id}:
            spans += await _spans_of(source, trace_id)
        if not spans:
            return {**shown, "problem": "no stored trace has passed this profile yet"}
        try:
            score = await run_in_threadpool(mutation_score, profile.tasks, spans, most=_MUTANTS)
        except ConfigError as error:
            problem = str(error)
    return {**shown, "score": score, "problem": problem}


async def _spans_of(source: Source, trace_id: str) -> list[Span]:
    """The spans of a trace; none of one that is large, or was deleted meanwhile."""
    try:
        found = await source.file(f"{path_of(trace_id)}/export")
    except ProblemError:
        return []
    if len(found.content) > _BYTES:
        return []
    return spans_from_otlp_json(json.loads(found.content)).spans
