"""Span attributes as JSON values."""

from typing import cast

from pydantic import JsonValue

from scouter.evaluate.steps import charge, charge_done, weight
from scouter.model.json_value import to_json_value
from scouter.model.span import Attributes, AttributeValue


def has_attribute(attributes: Attributes, key: str) -> bool:
    """Tell whether an attribute is there; one that holds nothing (OTLP's null) is not."""
    return attributes.get(key) is not None


def attribute_json(value: AttributeValue) -> JsonValue:
    """Turn an attribute's value into JSON: tuples become lists, bytes base64.

    Raises:
        TaskFault: It takes more than the record's tasks may (`Reason.LIMIT`).
    """
    kind = type(value)
    if kind is str or kind is int or kind is bool:
        return cast(JsonValue, value)
    charge(1)
    made = to_json_value(value)
    charge_done(weight(made))
    return made
