"""Values that users write in code, turned into plain JSON when a task is made."""

import math
from typing import Annotated

from pydantic import BeforeValidator, JsonValue

from scouter.model.json_value import to_json_value


def _constant(value: object) -> JsonValue:
    """Take what the rule takes, but no number that JSON lacks: it would turn into null unseen."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} cannot be compared with: JSON has no such number")
    return to_json_value(value)


JsonInput = Annotated[JsonValue, BeforeValidator(_constant)]
"""Anything that `to_json_value` takes: tuples, enums, pydantic models and so on."""
