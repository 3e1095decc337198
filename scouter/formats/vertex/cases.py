"""Cases of a dataset: a row, or the turns of a conversation, as a scenario with its records.

A row with `eval_id` and `turn`, from 0, is a turn; one that goes on with the row before it has the
same `eval_id`, and one more for `turn`. Each row is a record under the alias `ALIAS`, and its
metrics are the tasks of that alias.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.evaluate.judge.prompt_text import as_text
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.formats.turns import ALIAS, RowScenario, turn_name
from scouter.formats.vertex.dataset import Row
from scouter.model.attributes import SCENARIO_ID_MAX_CHARS
from scouter.model.json_value import parse_if_json, to_json_value
from scouter.model.record import EvalRecord
from scouter.model.visible import one_line
from scouter.replay.agent import names_taken
from scouter.replay.recorded import distinct_names
from scouter.replay.runner import EvalRunner

PREDICTED: Final = "predicted_trajectory"
LATENCY: Final = "latency_in_seconds"
GIVEN: Final = ("response", LATENCY, "failure", PREDICTED)
"""Columns that every call of an agent fills."""
FAULT: Final = "failure_explanation"
"""Column with the agent's error; there where an agent raised."""


def read_answer(answer: object) -> Row:
    """Read what an agent gave back.

    Raises:
        DataError: Neither a text nor an object, or with steps of another form.
    """
    if isinstance(answer, str):
        return {"response": answer}
    if not isinstance(answer, Mapping):
        raise DataError(
            f"the agent gave {type(answer).__name__}; expected a text, or an object with response "
            f"and {PREDICTED}"
        )
    fields = dict(cast("Mapping[str, object]", answer))
    if "intermediate_steps" in fields:
        steps = cast("Iterable[object]", fields.pop("intermediate_steps") or ())
        fields[PREDICTED] = [_step(each, at) for at, each in enumerate(steps)]
    if "output" in fields:
        fields.setdefault("response", fields.pop("output"))
    row = cast("Row", to_json_value(fields))
    row.setdefault("response", "")
    row[PREDICTED] = parse_if_json(row.get(PREDICTED))
    return row


def _step(step: object, at: int) -> dict[str, object]:
    """A step of LangChain's: an action and what came of it."""
    action = step
    if isinstance(step, list | tuple) and step:
        action = cast("Sequence[object]", step)[0]
    if isinstance(action, Mapping):
        fields = cast("Mapping[str, object]", action)
        inner = fields.get("kwargs", fields)
        fields = cast("Mapping[str, object]", inner) if isinstance(inner, Mapping) else fields
        name, given = fields.get("tool"), fields.get("tool_input")
    else:
        name, given = getattr(action, "tool", None), getattr(action, "tool_input", None)
    if not isinstance(name, str):
        raise DataError(f"intermediate_steps[{at}]: no 'tool' in its action")
    return {"tool_name": name, "tool_input": given}


PROMPT: Final = "prompt"
STATE: Final = "state"
ATTACHMENTS: Final = "attachments"
NAMES: Final = (STATE, "app_name", "user_id", ATTACHMENTS)
"""Parameters that an agent may have beside those of every replay."""

_ID, _TURN, _PLAN, _SESSION = "eval_id", "turn", "conversation_plan", "session_input"
_SAID: Final = (PROMPT, "reference", "reference_trajectory", _SESSION, ATTACHMENTS)
"""Columns that say the question and the expectation, whatever a run adds to a dataset."""
_SIGNAL: Final = "</finished>"
"""The word by which ADK's simulated users end a conversation."""
_MOST_TURNS: Final = 20
"""Answers in a conversation with a simulated user, as in ADK."""
_ID_CHARS: Final = min(100, SCENARIO_ID_MAX_CHARS - 12)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case: its rows in the order of its turns."""

    name: str
    rows: Sequence[Row]

    @property
    def is_played(self) -> bool:
        """True if a simulated user leads it; it has one row, and gets one for each turn."""
        return self.rows[0].get(_PLAN) is not None

    @property
    def most_turns(self) -> int:
        """Most answers of the agent."""
        return _MOST_TURNS if self.is_played else len(self.rows)

    @property
    def session(self) -> Mapping[str, JsonValue]:
        """The state that its session begins with."""
        found = self.rows[0].get(_SESSION)
        given = found if isinstance(found, dict) else {}
        return {name: value for name, value in given.items() if name in NAMES}

    def row_of(self, turn: int, message: object) -> Row:
        """The row of a turn; of a simulated user's with its number and message."""
        if not self.is_played:
            return self.rows[turn]
        return {**self.rows[0], _TURN: turn, PROMPT: as_text(cast("JsonValue", message))}

    def scenario(self) -> EvalScenario:
        """Make the scenario, with all questions and expectations in its content."""
        first, *more = (as_text(row.get(PROMPT) or "") for row in self.rows)
        said = [{name: row[name] for name in _SAID if name in row} for row in self.rows]
        if not self.is_played:
            return RowScenario(initial_query=first, id=self.name, predefined_turns=more, rows=said)
        parts = [self.rows[0].get(_PLAN), self.rows[0].get("user_persona")]
        return RowScenario(
            initial_query=first,
            id=self.name,
            simulated_user_persona="\n".join(as_text(part) for part in parts if part) or None,
            termination_signal=_SIGNAL,
            max_turns=_MOST_TURNS,
            rows=said,
        )


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of a dataset, and the rows that came of them."""

    by_name: Mapping[str, Case]
    stored: dict[str, Row] = field(default_factory=dict[str, Row])
    """Whole rows by the uid of their record; results cut long ones."""

    def scenarios(self, collection_id: str | None = None) -> EvalScenarios:
        """Make the scenarios."""
        return EvalScenarios([case.scenario() for case in self.by_name.values()], collection_id)

    def record(self, turn: int, row: Row) -> EvalRecord:
        """Make the record of a turn."""
        record = EvalRecord(context=row, id=turn_name(turn))
        self.stored[record.uid] = row
        return record

    def collect_stored(self, runner: EvalRunner) -> None:
        """Give a runner the answers that the dataset itself holds."""
        for scenario in runner.scenarios:
            rows = self.by_name[scenario.id].rows
            faults = [str(row[FAULT]) for row in rows if row.get(FAULT) is not None]
            records = [
                self.record(at, row) for at, row in enumerate(rows) if row.get(FAULT) is None
            ]
            runner.collect_scenario_data(
                {ALIAS: records},
                rows[-1].get("response"),
                scenario,
                turns=[{"user": row.get(PROMPT), "agent": row.get("response")} for row in rows],
                error=faults[0] if faults else None,
            )


Conversation: TypeAlias = list[Row]


def conversations_of(rows: Sequence[Row]) -> list[Conversation]:
    """Put the turns of each conversation together; none where rows are no turns."""
    if not all(_ID in row and isinstance(row.get(_TURN), int) for row in rows):
        return []
    found: list[Conversation] = []
    for row in rows:
        last = found[-1] if found else []
        if last and (row[_ID], row[_TURN]) == (last[0][_ID], len(last)):
            last.append(row)
        else:
            found.append([row])
    return found


def cases_of(rows: Sequence[Row]) -> Cases:
    """Make the cases of rows, called by their `eval_id` or else by the question."""
    conversations = conversations_of(rows)
    key = _ID if conversations else PROMPT
    conversations = conversations or [[row] for row in rows]
    names = distinct_names(
        one_line(as_text(each[0].get(key) or ""))[:_ID_CHARS].strip() or f"row {at}"
        for at, each in enumerate(conversations, start=1)
    )
    return Cases(
        {name: Case(name=name, rows=each) for name, each in zip(names, conversations, strict=True)}
    )


def refuse_lost(agent: Callable[..., Any], cases: Cases, user: object) -> None:
    """Refuse before the first question what would be sent without a part of its case.

    Raises:
        ConfigError: The agent does not take what a case begins with, or nobody plays its user.
    """
    taken = names_taken(agent, NAMES)
    for each in cases.by_name.values():
        name, state = f"case {each.name!r}", each.session.get(STATE)
        if state and STATE not in taken:
            keys = ", ".join(map(str, state)) if isinstance(state, dict) else as_text(state)
            raise ConfigError(
                f"{name} begins with a session state ({keys}), and the agent takes none; give it "
                f"a parameter called {STATE!r}, or remove session_input.state from the file"
            )
        for at, row in enumerate(each.rows):
            if row.get(ATTACHMENTS) and ATTACHMENTS not in taken:
                parts = cast("list[Mapping[str, JsonValue]]", row[ATTACHMENTS])
                kinds = ", ".join(dict.fromkeys(kind for part in parts for kind in part))
                raise ConfigError(
                    f"{name}, turn {at}: the user's message has parts beside its text ({kinds}), "
                    f"and the agent takes none; give it a parameter called {ATTACHMENTS!r}, which "
                    "gets these parts as a list, or remove them from the file"
                )
        if each.is_played and user is None:
            raise ConfigError(
                f"{name} has a conversation_scenario, and nobody plays its user; say who does: "
                "--simulated-user openai/gpt-4o-mini, or simulated_user= in Python"
            )
