"""Base of all answers, and pages of lists."""

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict


class Answer(BaseModel):
    """Base of all answers.

    Fields that came later have defaults, as older collectors do not send them. A collector that
    answers with one of these models sends all fields, and its OpenAPI document says so.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        defer_build=True,
        json_schema_serialization_defaults_required=True,
    )

    def to_dataframe(self, polars: bool = False) -> Any:  # noqa: ANN401 — pandas or polars
        """Make a data frame with a row for each item of a list; of any other answer, with one row.

        Args:
            polars: A polars frame instead of a pandas one.

        Raises:
            TypeError: `polars` is neither True nor False.
            ConfigError: The library is not installed; says how to install it.
        """
        from scouter.evaluate.show.frame import frame_of_rows  # pandas loads on demand

        return frame_of_rows(self._rows(), polars)

    def _repr_html_(self) -> str:
        """Show the items of a list, or the fields of any other answer, in a notebook."""
        from scouter.evaluate.show.results_table import fields_html  # only in a notebook

        return fields_html(type(self).__name__, self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        items: Sequence[BaseModel] = getattr(self, "items", (self,))
        return [each.model_dump() for each in items]


Item = TypeVar("Item", bound=BaseModel)


class Page(Answer, Generic[Item]):
    """Part of a list."""

    items: tuple[Item, ...]
    next_cursor: str | None = None
    """Place at which the next page begins; None at the end of the list."""
