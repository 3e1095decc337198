"""Base of all answers, and pages of lists."""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict

from scouter.evaluate.api.shown import Shown


class Answer(BaseModel, Shown):
    """Base of all answers; a list shows its items.

    Fields that came later have defaults, as older collectors do not send them. A collector that
    answers with one of these models sends all fields, and its OpenAPI document says so.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        defer_build=True,
        json_schema_serialization_defaults_required=True,
    )


Item = TypeVar("Item", bound=BaseModel)


class Page(Answer, Generic[Item]):
    """Part of a list."""

    items: tuple[Item, ...]
    next_cursor: str | None = None
    """Place at which the next page begins; None at the end of the list."""
