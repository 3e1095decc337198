"""Span attributes as JSON values."""

from typing import cast

from pydantic import JsonValue

from scouter.model.json_value import to_json_value
from scouter.model.span import Attributes, AttributeValue


def has_attribute(attributes: Attributes, key: str) -> bool:
    """Tell whether an attribute is there; one that holds nothing (OTLP's null) is not."""
    return attributes.get(key) is not None


def attribute_json(value: AttributeValue) -> JsonValue:
    """Turn an attribute's value into JSON: tuples become lists, bytes base64."""
    kind = type(value)
    if kind is str or kind is int or kind is bool:
        return cast(JsonValue, value)
    return to_json_value(value)
