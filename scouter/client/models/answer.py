"""Base of all answers, and pages of lists."""

from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Base of all answers."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


Item = TypeVar("Item", bound=BaseModel)


class Page(Answer, Generic[Item]):
    """Part of a list."""

    items: tuple[Item, ...]
    next_cursor: str | None = None
    """Place at which the next page begins; None at the end of the list."""
