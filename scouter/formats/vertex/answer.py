"""Answers of agents as an evaluation reads them: texts, objects, and LangChain's steps."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, cast

from scouter.errors import DataError
from scouter.formats.vertex.dataset import Row
from scouter.model.json_value import parse_if_json, to_json_value

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
