"""Values that users write in code, turned into plain JSON when a task is made."""

from typing import Annotated

from pydantic import BeforeValidator, JsonValue

from scouter.model.json_value import to_json_value

JsonInput = Annotated[JsonValue, BeforeValidator(to_json_value)]
"""Anything that `to_json_value` takes: tuples, enums, pydantic models and so on."""
