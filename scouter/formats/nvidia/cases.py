"""Cases of a dataset: a row, or the turns of a conversation, as a scenario with its records.

Each turn is a record: the row that `workflow_output.json` has of it, and beside it, under `_MORE`,
what only this run knows of.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.evaluate.report.evaluator import (
    EXPECTED_CALLS_KEY,
    HISTORY_KEY,
    METHODS_KEY,
    EvalItem,
    ItemVerdict,
    plain_json,
)
from scouter.evaluate.report.field_metrics import as_text
from scouter.evaluate.report.steps import TrajectoryStep, has_refs
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.formats.nvidia.config import Structure
from scouter.formats.nvidia.turns import Conversation, turn_id
from scouter.formats.turns import ALIAS, RowScenario, turn_name
from scouter.model.attributes import SCENARIO_ID_MAX_CHARS
from scouter.model.ids import uuid7
from scouter.model.record import EvalRecord
from scouter.model.visible import one_line
from scouter.replay.recorded import distinct_names
from scouter.replay.runner import EvalRunner

Row: TypeAlias = dict[str, JsonValue]

FAILURE: Final = "error"
"""Column of the result file with the reason why the agent gave no answer."""
UNTOLD: Final = "untold"
"""Column of the result file with the reason why its steps may not be all; elsewhere not there."""
_MORE: Final = "_scouter"
_ENDS: Final = ("LLM_END", "TOOL_END")
"""Steps that ended, by the toolkit's names: of a model, and of a tool."""
_SAID: Final = (EXPECTED_CALLS_KEY, METHODS_KEY, "tool_schemas")
"""Columns that evaluators read beside question and right answer."""
_ID_CHARS: Final = min(100, SCENARIO_ID_MAX_CHARS - 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """One question to an agent, and how long it took."""

    item: EvalItem
    latency_s: float | None = None
    """None where the agent was not called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cases:
    """The cases of a dataset, and what came of them."""

    by_name: Mapping[str, Conversation]
    structure: Structure
    id_key: str
    answered: dict[str, Answered] = field(default_factory=dict[str, Answered])
    """Items by the uid of their record."""
    judged: dict[tuple[str, str], ItemVerdict] = field(
        default_factory=dict[tuple[str, str], ItemVerdict]
    )
    """Verdicts by evaluator and uid of the record; results have only their scores."""

    @staticmethod
    def of(conversations: Sequence[Conversation], structure: Structure, id_key: str) -> "Cases":
        """Make the cases of conversations, called by their ids."""
        names = distinct_names(
            one_line(each.id)[:_ID_CHARS].strip() or f"row {at}"
            for at, each in enumerate(conversations, start=1)
        )
        named = dict(zip(names, conversations, strict=True))
        return Cases(by_name=named, structure=structure, id_key=id_key)

    def scenarios(self, references: Callable[[EvalItem], JsonValue]) -> EvalScenarios:
        """Make the scenarios, with all questions and expectations in their content.

        Args:
            references: Gives what an item expects beside its row; None for nothing.
        """
        return EvalScenarios(
            [_scenario(name, each, references) for name, each in self.by_name.items()]
        )

    def record(self, name: str, turn: int, answered: Answered) -> EvalRecord:
        """Make the record of a turn.

        Args:
            name: Name of the case.
            turn: Number of the turn, from 0.
            answered: Its item, with what the agent did.
        """
        item, uid = answered.item, uuid7()
        self.answered[uid] = answered
        row = self.row(item)
        row[_MORE] = {
            "case": name,
            "turn": turn,
            "uid": uid,
            "latency_s": answered.latency_s,
            "tools": list(item.tools),
            "earlier": {each: [*map(_step, steps)] for each, steps in item.earlier.items()},
            "failure": item.failure,
            "untold": item.unreported,
        }
        return EvalRecord(context=row, id=turn_name(turn), uid=uid)

    def row(self, item: EvalItem) -> Row:
        """Write an item as the result file has it."""
        return row_of(item, self.structure, self.id_key)

    def read(self, row: Row) -> tuple[str, EvalItem]:
        """Read the uid and the item of a record; the record may be of an interrupted run.

        Args:
            row: The context of the record.
        """
        more = cast("Mapping[str, Any]", row[_MORE])
        uid = str(more["uid"])
        if uid not in self.answered:
            item = self.by_name[str(more["case"])].turns[int(more["turn"])]
            if HISTORY_KEY in row:
                item = replace(item, entry={**item.entry, HISTORY_KEY: row[HISTORY_KEY]})
            item = replace(
                item,
                answer=row[self.structure.generated_answer_key],
                steps=read_steps(row[self.structure.trajectory_key]),
                earlier={name: read_steps(each) for name, each in more["earlier"].items()},
                tools=tuple(more["tools"]),
                failure=str(more["failure"]),
                unreported=str(more["untold"]),
            )
            self.answered[uid] = Answered(item=item, latency_s=more["latency_s"])
        return uid, self.answered[uid].item

    def collect_stored(self, runner: EvalRunner) -> None:
        """Give a runner the answers that the dataset itself holds."""
        for scenario in runner.scenarios:
            items: list[EvalItem] = []
            for item in self.by_name[scenario.id].turns:
                items.append(self._stored(item, items))
            faults = [item.failure for item in items if item.failure]
            records = [
                self.record(scenario.id, at, Answered(item=item)) for at, item in enumerate(items)
            ]
            runner.collect_scenario_data(
                {ALIAS: records},
                plain_json(items[-1].answer),
                scenario,
                turns=[
                    {"user": as_text(item.question), "agent": plain_json(item.answer)}
                    for item in items
                ],
                error=faults[0] if faults else None,
            )

    def _stored(self, item: EvalItem, before: Sequence[EvalItem]) -> EvalItem:
        """Add the work of the agent to an item, and why there is no answer, from the item's row."""
        key, failure = self.structure.generated_answer_key, ""
        if plain_json(item.entry.get(key)) is None:
            failure = str(plain_json(item.entry.get(FAILURE)) or f"the row has no {key!r}")
        steps = read_steps(item.entry.get(self.structure.trajectory_key))
        missing = str(plain_json(item.entry.get(UNTOLD)) or "")
        if plain_json(item.entry.get(self.structure.trajectory_key)) is None:
            missing = f"the row has no {self.structure.trajectory_key!r}"
        earlier = {turn_id(each, at): each.steps for at, each in enumerate(before)}
        if not has_refs(item.entry.get(EXPECTED_CALLS_KEY)):
            earlier = {}
        return replace(item, steps=steps, earlier=earlier, failure=failure, unreported=missing)


def _scenario(
    name: str, conversation: Conversation, references: Callable[[EvalItem], JsonValue]
) -> EvalScenario:
    first, *more = (as_text(turn.question) for turn in conversation.turns)
    rows = [_said(turn, references(turn)) for turn in conversation.turns]
    return RowScenario(id=name, initial_query=first, predefined_turns=more, rows=rows)


def _said(item: EvalItem, reference: JsonValue) -> Row:
    said: dict[str, object] = {
        "question": item.question, "ground_truth": item.ground_truth or None,
        "reference": reference,
    }  # fmt: skip
    said |= {name: item.entry.get(name) for name in _SAID}
    plain = {name: plain_json(value) for name, value in said.items()}
    return {name: value for name, value in plain.items() if value is not None}


def row_of(item: EvalItem, structure: Structure, id_key: str) -> Row:
    """Write an item as `workflow_output.json` has it, with the row's own columns."""
    expected = item.entry.get(structure.expected_trajectory_key)
    row: Row = {
        **{name: plain_json(value) for name, value in item.entry.items()},
        id_key: plain_json(item.id),
        structure.question_key: plain_json(item.question),
        structure.answer_key: plain_json(item.ground_truth),
        structure.generated_answer_key: plain_json(item.answer),
        structure.trajectory_key: [_step(step) for step in item.steps],
        structure.expected_trajectory_key: [] if expected is None else plain_json(expected),
    }
    if item.failure:
        row[FAILURE] = item.failure
    if item.unreported:
        row[UNTOLD] = item.unreported
    return row


def _step(step: TrajectoryStep) -> JsonValue:
    return {
        "parent_id": step.parent,
        "payload": {
            "event_type": _ENDS[0 if step.is_model else 1],
            "name": step.name,
            "data": {"input": step.input, "output": step.output},
            "UUID": step.uid,
        },
    }


def read_steps(value: object) -> tuple[TrajectoryStep, ...]:
    """Read the steps of a row; those that only began, or are of another kind, are left out."""
    listed = cast("Sequence[object]", value) if isinstance(value, list) else ()
    found: list[TrajectoryStep] = []
    for each in listed:
        step = _object(each)
        payload = _object(step.get("payload"))
        if (kind := payload.get("event_type")) not in _ENDS:
            continue
        data = _object(payload.get("data"))
        found.append(
            TrajectoryStep(
                name=str(payload.get("name") or ""),
                is_model=kind == _ENDS[0],
                input=data.get("input", ""),
                output=data.get("output", ""),
                parent=str(step.get("parent_id") or ""),
                uid=str(payload.get("UUID") or ""),
            )
        )
    return tuple(found)


def _object(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}
