"""Rows that are turns of conversations: their agent is asked them one after the other, as one.

A row has `eval_id` and `turn`, from 0; a row that goes on with the one before it has the same
`eval_id`, and one more for `turn`. Each conversation is an attempt of a replay, so that an agent
has its session, its history and its simulated user as everywhere.
"""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.evaluate.api.replay import ScenarioResult
from scouter.evaluate.judge.prompt_text import as_text
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.trajectory.spans import trajectory_from_spans
from scouter.formats.vertex.dataset import Row
from scouter.formats.vertex.runnable import Call, Called, Patience, read_answer
from scouter.model.agent_work import why_untold
from scouter.model.span import Span
from scouter.replay.agent import names_taken
from scouter.replay.loading import loaded_agent
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.replay.turn import running_talk

STATE: Final = "state"
ATTACHMENTS: Final = "attachments"
NAMES: Final = (STATE, "app_name", "user_id", ATTACHMENTS)
"""Parameters that an agent may have beside those of every replay."""

_ID, _TURN, _PLAN, _SESSION = "eval_id", "turn", "conversation_plan", "session_input"
_SIGNAL: Final = "</finished>"
"""The word by which ADK's simulated users end a conversation."""
_MOST_TURNS: Final = 20
"""Answers in a conversation with a simulated user, as in ADK."""
_ID_CHARS: Final = 100
_NANO: Final = 1_000_000_000
_NOT_ASKED: Final = "not asked: an earlier turn failed"

Conversation: TypeAlias = Sequence[Row]
"""The rows of one conversation, in the order of its turns."""


def conversations_of(rows: Sequence[Row]) -> list[list[Row]]:
    """Put the turns of each conversation together; none where rows are no turns."""
    if not all(_ID in row and isinstance(row.get(_TURN), int) for row in rows):
        return []
    found: list[list[Row]] = []
    for row in rows:
        last = found[-1] if found else []
        if last and (row[_ID], row[_TURN]) == (last[0][_ID], len(last)):
            last.append(row)
        else:
            found.append([row])
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Leading:
    """How conversations are led.

    Args:
        user: Plays the users of conversations that have a plan.
        concurrency: Conversations at a time.
        patience: Retries of a conversation, and the time limit of each turn of the longest one.
    """

    user: Any = None
    concurrency: int = 1
    patience: Patience = field(default_factory=Patience)


def lead(
    agent: Call, conversations: Sequence[Conversation], leading: Leading
) -> list[tuple[Row, Called]]:
    """Lead conversations with an agent.

    Args:
        agent: A function, or a class of which each conversation has an instance.
        conversations: From `conversations_of`. One with a `conversation_plan` has one row, and
            gets one for each turn that it comes to.
        leading: Who plays the users, and the limits.

    Returns:
        The rows, in order, each with what the agent gave. Calls are those that the answer has, or
        else those of the turn's spans.

    Raises:
        ConfigError: The agent cannot be called, does not take what a case begins with, or nobody
            plays the user of a case.
    """
    _refuse(agent, conversations, leading.user)
    names = _names(conversations)
    scenarios = EvalScenarios(
        [_scenario(name, each) for name, each in zip(names, conversations, strict=True)]
    )
    patience, longest = leading.patience, max(map(_most_turns, conversations))
    with loaded_agent(agent, {}, "the agent", more=NAMES) as loaded:
        made = loaded.make(scenarios, leading.user)
        if type(made) is not EvalOrchestrator:
            raise ConfigError("the agent of an eval set is a function, and no EvalOrchestrator")
        cases = dict(zip(names, conversations, strict=True))
        results = _Turns(made, cases).run(
            on_error="record", concurrency=leading.concurrency, retries=patience.retries,
            timeout_s=None if patience.timeout_s is None else patience.timeout_s * longest,
            progress=False,
        )  # fmt: skip
    has_all_spans = not any(each.kind == "span" for each in results.lost)
    return [
        row
        for name, conversation in cases.items()
        for row in _rows(conversation, results.get_scenario_detail(name), has_all_spans)
    ]


class _Turns(EvalOrchestrator):
    """Gives an agent what its case begins with, and what stands beside a message."""

    def __init__(self, made: EvalOrchestrator, cases: Mapping[str, Conversation]) -> None:
        super().__init__(made.queue, made.scenarios, made.agent_fn, made.simulated_user_fn)
        self._cases = cases
        self._states: dict[str, Any] = {}

    def arguments(self, scenario: EvalScenario, turn: int) -> Mapping[str, object]:
        """Give the session's values, and the attachments of a turn."""
        rows = self._cases[scenario.id]
        session = _session(rows)
        state = self._states.setdefault(
            running_talk().session, copy.deepcopy(session.get(STATE) or {})
        )
        attachments = rows[turn].get(ATTACHMENTS) if turn < len(rows) else None
        return {**dict.fromkeys(NAMES), **session, STATE: state, ATTACHMENTS: attachments or []}


def _session(rows: Conversation) -> Mapping[str, JsonValue]:
    session = rows[0].get(_SESSION)
    if not isinstance(session, dict):
        return {}
    return {name: value for name, value in session.items() if name in NAMES}


def _names(conversations: Sequence[Conversation]) -> list[str]:
    """Names of the conversations, which are unique."""
    found: dict[str, None] = {}
    for at, rows in enumerate(conversations, start=1):
        name = as_text(rows[0][_ID])[:_ID_CHARS] if rows[0][_ID] else str(at)
        found[f"{name} ({at})" if name in found else name] = None
    return list(found)


def _scenario(name: str, rows: Conversation) -> EvalScenario:
    first, *more = (as_text(row.get("prompt")) for row in rows)
    if not _is_played(rows):
        return EvalScenario(first, id=name, predefined_turns=more)
    parts = [rows[0].get(_PLAN), rows[0].get("user_persona")]
    return EvalScenario(
        first,
        id=name,
        simulated_user_persona="\n".join(as_text(part) for part in parts if part) or None,
        termination_signal=_SIGNAL,
        max_turns=_MOST_TURNS,
    )


def _is_played(rows: Conversation) -> bool:
    return rows[0].get(_PLAN) is not None


def _most_turns(rows: Conversation) -> int:
    return _MOST_TURNS if _is_played(rows) else len(rows)


def _refuse(agent: Call, conversations: Sequence[Conversation], user: object) -> None:
    """Refuse before the first question what would be asked without a part of its case."""
    taken = names_taken(agent, NAMES)
    for rows in conversations:
        name = f"case {rows[0][_ID]!r}"
        state = _session(rows).get(STATE)
        if state and STATE not in taken:
            keys = ", ".join(map(str, state)) if isinstance(state, dict) else as_text(state)
            raise ConfigError(
                f"{name} begins with a session state ({keys}), and the agent takes none; give it "
                f"a parameter called {STATE!r}, or remove session_input.state from the file"
            )
        for at, row in enumerate(rows):
            if row.get(ATTACHMENTS) and ATTACHMENTS not in taken:
                parts = cast("list[Mapping[str, JsonValue]]", row[ATTACHMENTS])
                kinds = ", ".join(dict.fromkeys(kind for part in parts for kind in part))
                raise ConfigError(
                    f"{name}, turn {at}: the user's message has parts beside its text ({kinds}), "
                    f"and the agent takes none; give it a parameter called {ATTACHMENTS!r}, which "
                    "gets these parts as a list, or remove them from the file"
                )
        if _is_played(rows) and user is None:
            raise ConfigError(
                f"{name} has a conversation_scenario, and nobody plays its user; say who does: "
                "--simulated-user openai/gpt-4o-mini, or simulated_user= in Python"
            )


def _rows(
    rows: Conversation, result: ScenarioResult, has_all_spans: bool
) -> Iterator[tuple[Row, Called]]:
    """A conversation's rows with what the agent gave; of a played one, as many as it has turns."""
    is_played, error = _is_played(rows), result.error_line if result.error else ""
    said = len(result.turns)
    for at in range(max(1, said) if is_played else len(rows)):
        row = rows[0 if is_played else at]
        if is_played and at < said:
            row = {**row, _TURN: at, "prompt": result.turns[at]["user"]}
        if at >= said or (is_played and error):
            fault = error if is_played or at == said else ""
            yield row, Called({}, None, fault or _NOT_ASKED)
            continue
        begin_ns, end_ns = result.turn_times_ns[at]
        try:
            answer = read_answer(result.turns[at]["agent"])
        except DataError as problem:
            yield row, Called({}, None, str(problem))
            continue
        if answer.get("predicted_trajectory") is None and has_all_spans:
            spans = [span for span in result.traces if begin_ns <= span.start_ns <= end_ns]
            answer["predicted_trajectory"] = _calls(spans)
        yield row, Called(answer, (end_ns - begin_ns) / _NANO)


def _calls(spans: Sequence[Span]) -> JsonValue:
    """The calls of a turn's spans; None where these do not tell of every call."""
    tree = SpanTree(spans)
    if not tree.has_agent_spans or why_untold(tree.agent_work):
        return None
    return trajectory_from_spans(spans)
