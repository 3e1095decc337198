"""One conversation: its turns in order, each with what was said, called and checked."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from collector.web.checks import BAD
from collector.web.render import natural, pruned
from collector.web.source import Answer, AskError, Source

_RECORDS: Final = 200
"""The newest records of a conversation, of which the turns are made."""
_TURNS: Final = 10
"""Turns of one page."""


@dataclass(slots=True, kw_only=True)
class Checked:
    """A record of a turn, with the latest evaluation on it."""

    record: Answer
    evaluation: Answer | None
    not_passed: Sequence[Answer]
    """Its tasks that failed or errored."""


@dataclass(slots=True, kw_only=True)
class Turn:
    """Records on one trace, or one record that has none."""

    trace_id: str
    at: str
    """When its first record was made."""
    checked: list[Checked] = field(default_factory=list[Checked])
    told: Answer | None = None
    """Words and calls of its spans; None without a trace, or where none of its spans is stored."""
    context: object = None
    """Of its first record, where no span tells anything."""


async def conversation_view(source: Source, session_id: str, page: str) -> Answer:
    """Collect the view of a conversation.

    Args:
        source: Asks the API.
        session_id: Or the uid of a record that has no session.
        page: Number of the page of turns, from 1; the first one for anything else.

    Raises:
        AskError: The API refused, or no record of it is stored.
    """
    session = await source.get(f"sessions/{quote(session_id, safe='')}")
    evaluations, records = session["evaluations"], session["items"][:_RECORDS]
    turns = _turns(records, _latest(evaluations, "record"))  # not evaluated in their order
    last = max(1, -(-len(turns) // _TURNS))
    number = max(1, min(natural(page), last))
    shown = turns[(number - 1) * _TURNS : number * _TURNS]
    await asyncio.gather(*(_fill(source, turn) for turn in shown))
    own = _latest(evaluations, "session").values()
    told = next((each for each in evaluations if each["service_name"]), None)
    return {
        "session": session,
        "turns": shown,
        "turn_count": len(turns),
        "first_turn": (number - 1) * _TURNS + 1,
        "page": number,
        "pages": last,
        "records_left": max(0, session["records"] - len(records)),
        "own": [_checked({}, each) for each in own],
        "told": told,
        "checks": _counts([*(one.evaluation for turn in turns for one in turn.checked), *own]),
    }


def _latest(evaluations: Iterable[Answer], scope: str) -> dict[str, Answer]:
    """The newest evaluation of each record, or of each profile on the session itself."""
    found: dict[str, Answer] = {}
    for each in evaluations:
        if each["scope"] == scope:
            found.setdefault(each["uid"] if scope == "record" else each["profile"], each)
    return found


def _turns(records: Sequence[Answer], evaluations: Mapping[str, Answer]) -> list[Turn]:
    """The records as turns, the oldest first."""
    turns: dict[str, Turn] = {}
    for record in sorted(records, key=lambda each: each["created_at"]):
        trace_id = record["trace_id"] or ""
        turn = turns.setdefault(
            trace_id or record["uid"], Turn(trace_id=trace_id, at=record["created_at"])
        )
        turn.checked.append(_checked(record, evaluations.get(record["uid"])))
    return list(turns.values())


def _checked(record: Answer, evaluation: Answer | None) -> Checked:
    tasks: Sequence[Answer] = evaluation["tasks"] if evaluation else []
    return Checked(
        record=record,
        evaluation=evaluation,
        not_passed=[each for each in tasks if each["outcome"] in BAD],
    )


def _counts(evaluations: Iterable[Answer | None]) -> dict[str, int]:
    """Tasks by outcome, and all that ran."""
    counts: dict[str, int] = {"failed": 0, "errored": 0, "ran": 0}
    for each in evaluations:
        for task in each["tasks"] if each else ():
            counts["ran"] += task["outcome"] in ("passed", *BAD)
            if task["outcome"] in counts:
                counts[task["outcome"]] += 1
    return counts


async def _fill(source: Source, turn: Turn) -> None:
    """Ask for the words of a turn: of its spans, or else of its record."""
    if turn.trace_id:
        try:
            answer = await source.get(f"traces/{quote(turn.trace_id, safe='')}/turn")
            turn.told = answer["turn"]
        except AskError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
    if turn.told is None or (turn.told["question"] is None and turn.told["answer"] is None):
        uid = quote(turn.checked[0].record["uid"], safe="")
        turn.context = pruned((await source.get(f"records/{uid}"))["context"], 50)
