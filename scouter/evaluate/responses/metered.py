"""Texts that hold JSON, and responses, within what the tasks of one record may take together."""

from typing import Final

from pydantic import JsonValue

from scouter.evaluate.steps import charge, charge_done, no_steps, steps_left
from scouter.model.text_json import parse_if_json

_CHARACTERS_PER_STEP: Final = 8
"""Characters that are read as JSON, copied and looked through for one step."""
_COUNTED_PER_STEP: Final = 8
"""Values that are only counted, for one step."""
_BYTES_PER_CHARACTER: Final = 24
"""Most bytes that the values of one character of JSON take."""


def parsed(value: JsonValue, *, is_held: bool = False) -> JsonValue:
    """Give the object or list that a text holds as JSON; see `parse_if_json`.

    Args:
        value: The text; anything else is given back.
        is_held: Whether it is kept for other tasks.

    Raises:
        TaskFault: It takes more than the record's tasks may (`Reason.LIMIT`).
    """
    size = _json_characters(value)
    if size:
        needed = _BYTES_PER_CHARACTER * size
        held = needed if is_held else 0
        # Twice, as what is read is copied before it is let go.
        charge(1 + size // _CHARACTERS_PER_STEP, held=held, passing=2 * needed - held)
    return parse_if_json(value)


def charge_response(value: JsonValue) -> None:
    """Take what it costs to look through what may be a response, and to read the JSON in it.

    Raises:
        TaskFault: It is more than the record's tasks may take (`Reason.LIMIT`).
    """
    values = characters = 0
    most = steps_left()
    waiting = [value]
    while waiting:
        values += 1
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
        else:
            characters += _json_characters(item)
        if values + len(waiting) > most:
            charge_done(values // _COUNTED_PER_STEP)
            raise no_steps()
    charge(values + characters // _CHARACTERS_PER_STEP, held=_BYTES_PER_CHARACTER * characters)


def _json_characters(value: JsonValue) -> int:
    is_read = isinstance(value, str) and value.lstrip()[:1] in ("{", "[")
    return len(value) if isinstance(value, str) and is_read else 0
