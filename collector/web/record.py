"""One record, and one conversation: why it failed comes first."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from collector.problem import ProblemError
from collector.web.checks import BAD, Marker, citations_of, within
from collector.web.compare import Aligned, align
from collector.web.profile import definitions_in
from collector.web.render import natural, pruned
from collector.web.source import Shown, Source
from scouter.client.models.answer import Page
from scouter.client.models.evaluations import Evaluation, TaskResult
from scouter.client.models.labels import LabelItem
from scouter.client.models.records import Record, RecordItem, Session, TaskTrajectories
from scouter.client.models.traces import TraceTurn
from scouter.evaluate.show.agent_lines import TurnView
from scouter.model.score import is_score_uid

_RECORDS: Final = 200
"""The newest records of a conversation, of which the turns are made."""
_TURNS: Final = 10
"""Turns of one page."""


@dataclass(slots=True, kw_only=True)
class Checked:
    """A record of a turn, with the latest evaluation on it."""

    record: RecordItem | None
    """None of the session itself."""
    evaluation: Evaluation | None
    not_passed: Sequence[TaskResult]
    """Its tasks that failed or errored."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """Records on one trace, or one record that has none."""

    trace_id: str
    uid: str
    """Of its first record."""
    at: datetime
    """Time at which its first record was made."""
    checked: list[Checked] = field(default_factory=list[Checked])
    view: TurnView | None = None
    """Words and calls of its spans; None without a trace, or where none of its spans is stored."""
    context: object = None
    """Of its first record, where no span says anything."""


async def conversation_view(source: Source, given: Mapping[str, str]) -> Shown:
    """Collect the view of a conversation.

    Args:
        source: Asks the API.
        given: `session_id`, or the uid of a record that has no session; `page`, the number of the
            page of turns, from 1, and the first one for anything else.

    Raises:
        ProblemError: The API refused, or no record of it is stored.
    """
    session = await source.get(Session, f"sessions/{quote(given['session_id'], safe='')}")
    evaluations, records = session.evaluations, session.items[:_RECORDS]
    turns = _turns(records, _latest(evaluations, "record"))  # not evaluated in their order
    last = max(1, -(-len(turns) // _TURNS))
    number = max(1, min(natural(given.get("page", "")), last))
    shown = turns[(number - 1) * _TURNS : number * _TURNS]
    await asyncio.gather(*(_fill(source, turn) for turn in shown))
    own = _latest(evaluations, "session").values()
    process = next((each for each in evaluations if each.service_name), None)
    return {
        "session": session,
        "turns": shown,
        "turn_count": len(turns),
        "first_turn": (number - 1) * _TURNS + 1,
        "page": number,
        "pages": last,
        "records_left": max(0, session.records - len(records)),
        "own": [_checked(None, each) for each in own],
        "process": process,
        "checks": _counts([*(one.evaluation for turn in turns for one in turn.checked), *own]),
    }


def _latest(evaluations: Iterable[Evaluation], scope: str) -> dict[str, Evaluation]:
    """The newest evaluation of each record, or of each profile on the session itself."""
    found: dict[str, Evaluation] = {}
    for each in evaluations:
        if each.scope == scope:
            found.setdefault(each.uid if scope == "record" else each.profile, each)
    return found


def _turns(records: Sequence[RecordItem], evaluations: Mapping[str, Evaluation]) -> list[Turn]:
    """The records as turns, the oldest first."""
    turns: dict[str, Turn] = {}
    for record in sorted(records, key=lambda each: each.created_at):
        trace_id = record.trace_id or ""
        turn = turns.setdefault(
            trace_id or record.uid, Turn(trace_id=trace_id, uid=record.uid, at=record.created_at)
        )
        turn.checked.append(_checked(record, evaluations.get(record.uid)))
    return list(turns.values())


def _checked(record: RecordItem | None, evaluation: Evaluation | None) -> Checked:
    tasks: Sequence[TaskResult] = evaluation.tasks if evaluation else []
    return Checked(
        record=record,
        evaluation=evaluation,
        not_passed=[each for each in tasks if each.outcome in BAD],
    )


def _counts(evaluations: Iterable[Evaluation | None]) -> dict[str, int]:
    """Tasks by outcome, and all that ran."""
    counts: dict[str, int] = {"failed": 0, "errored": 0, "ran": 0}
    for each in evaluations:
        for task in each.tasks if each else ():
            counts["ran"] += task.outcome in ("passed", *BAD)
            if task.outcome in counts:
                counts[task.outcome] += 1
    return counts


async def _fill(source: Source, turn: Turn) -> None:
    """Ask for the words of a turn: of its spans, or else of its record."""
    if turn.trace_id:
        try:
            path = f"traces/{quote(turn.trace_id, safe='')}/turn"
            turn.view = (await source.get(TraceTurn, path)).turn
        except ProblemError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
    if turn.view is None or (turn.view.question is None and turn.view.answer is None):
        path = f"records/{quote(turn.uid, safe='')}"
        turn.context = pruned((await source.get(Record, path)).context, 50)


_ORDER: Final = {"failed": 0, "errored": 1, "skipped": 2, "passed": 3}
_OF_CALLS: Final = frozenset({"Trajectory", "AgentAssertion"})
"""Types of tasks that may expect calls."""


async def record_view(source: Source, uid: str, given: Mapping[str, str]) -> Shown:
    """Collect the view of a record.

    Args:
        source: Asks the API.
        uid: Of the record.
        given: `rater`, who labels, and `task`, for which; `again`, `flipped`, `at` and `digest`,
            what another evaluation came to.

    Raises:
        ProblemError: The API refused, or there is no such record.
    """
    record = await source.get(Record, f"records/{quote(uid, safe='')}")
    evaluations = record.evaluations
    latest = evaluations[0] if evaluations else None
    record = record.model_copy(update={"context": pruned(record.context)})
    tasks = sorted(latest.tasks, key=_rank) if latest else []
    cited = {task.task_id: within(record.context, citations_of(task.answer)) for task in tasks}
    labels = (await source.get(Page[LabelItem], "labels", uid=uid, limit=200)).items
    rater = given.get("rater", "").strip()[:100]
    every = list(dict.fromkeys(each for of_task in cited.values() for each in of_task))
    label, definitions = "", {}
    if latest:
        label, definitions = await definitions_in(source, latest.profile, latest.profile_version)
    return {
        "record": record,
        "questions": await source.questions([record]),
        "latest": latest,
        "is_score": is_score_uid(record.uid),
        "tasks": tasks,
        "profile_label": label,
        "definitions": definitions,
        "bad": Counter(each.outcome for each in tasks if each.outcome in BAD),
        "earlier": evaluations[1:],
        "pointed": pointed_keys(tasks),
        "cited": {
            name: [(every.index(each) + 1, each) for each in of_task]
            for name, of_task in cited.items()
        },
        "cited_keys": _keys_with(record.context, every),
        "marker": Marker(every),
        "calls": await _calls(source, uid, tasks),
        "labels": labels,
        "rater": rater,
        "labelled_task": given.get("task", ""),
        "rerun": {name: given.get(name, "") for name in ("again", "flipped", "at", "digest")},
        "own": next(
            (
                each
                for each in labels
                if each.rater.casefold() == rater.casefold()
                and each.task_id == given.get("task", "")
            ),
            None,
        ),
    }


async def _calls(
    source: Source, uid: str, tasks: Sequence[TaskResult]
) -> Mapping[str, list[Aligned]]:
    """By task, the calls that it expects beside those that were made."""
    if not any(task.task_type in _OF_CALLS for task in tasks):
        return {}
    path = f"trajectories/{quote(uid, safe='')}"
    found = (await source.get(TaskTrajectories, path)).items
    return {each.task_id: align(each.expected, each.actual) for each in found}


def _keys_with(context: object, citations: list[str]) -> frozenset[str]:
    """First keys of a context below which something is cited."""
    if not isinstance(context, dict) or not citations:
        return frozenset()
    fields: dict[str, object] = context  # pyright: ignore[reportUnknownVariableType]  # JSON
    return frozenset(key for key, value in fields.items() if within(value, citations))


def pointed_keys(tasks: Iterable[TaskResult]) -> frozenset[str]:
    """First keys of the context that tasks which did not pass looked at.

    A message begins with the path in single quotes: `'answer.text' is …`.
    """
    keys: set[str] = set()
    for task in tasks:
        message = task.message
        if task.outcome in BAD and message.startswith("'"):
            path = message[1:].split("'", 1)[0]
            keys.add(path.split(".", 1)[0].split("[", 1)[0])
    return frozenset(keys)


def _rank(task: TaskResult) -> int:
    return _ORDER.get(task.outcome, 1)
