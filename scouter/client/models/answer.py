"""Base of all answers: pages of lists, times, the place of a text, and counts beside a list."""

import datetime
import operator
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer

from scouter.evaluate.api.shown import Shown


class Answer(BaseModel, Shown):
    """Base of all answers; a list shows its items.

    The collector makes its answers of these models, and the client reads them. Unknown fields are
    ignored, so that a client may be older than its collector.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        defer_build=True,
        json_schema_serialization_defaults_required=True,
    )


def written(time: datetime.datetime) -> str:
    """A time as answers have it: in UTC, with six digits behind the second."""
    return f"{time.astimezone(datetime.UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


Time: TypeAlias = Annotated[
    datetime.datetime, PlainSerializer(written, return_type=str, when_used="json")
]
"""A time in UTC, to the microsecond; as JSON always with six digits behind the second."""

Item = TypeVar("Item", bound=BaseModel)


class Costed(Answer):
    """Cost of calls of models."""

    cost: float | None = Field(
        description="US dollars for its calls of models; null without a call, and where the cost "
        "of any of them is unknown."
    )
    unpriced_models: tuple[str, ...] = Field(
        description="Models of calls of unknown cost, 20 at most."
    )


class Page(Answer, Generic[Item]):
    """Part of a list."""

    items: tuple[Item, ...]
    next_cursor: str | None = Field(
        default=None, description="Pass it as `cursor` for the next page."
    )

    @classmethod
    def model_parametrized_name(cls, params: tuple[Any, ...]) -> str:
        """The name of a page in the OpenAPI document: `EvaluationPage`."""
        (item,) = params
        return f"{item.__name__.removesuffix('Item')}Page"


class Searched(Page[Item], Generic[Item]):
    """Part of a list that a text may filter."""

    is_partial: bool = Field(
        default=False, description="A search ended for want of time; `next_cursor` goes on with it."
    )
    looked_until: Time | None = Field(
        default=None, description="When the oldest item was received that such a search read."
    )


class TextMatch(Answer):
    """A text in a value, with up to 60 characters on either side."""

    where: str = Field(
        description="Path in the context, key of the attribute, or name, status or event of a span."
    )
    before: str
    text: str = Field(description="As the value has it.")
    after: str


MoreMatches: TypeAlias = Annotated[
    tuple[TextMatch, ...],
    Field(
        description="The places of further texts that were searched; left out without one.",
        exclude_if=operator.not_,
    ),
]


class FacetValue(Answer):
    """A value and its count."""

    value: str
    count: int = Field(description="Items that the list has with this value as a further filter.")


class Facet(Answer):
    """The values of one filter."""

    name: str = Field(description="Parameter of the list.")
    values: tuple[FacetValue, ...] = Field(description="The 20 most frequent ones.")
    others: int = Field(description="Further values.")


class FacetList(Answer):
    """Counts beside a list."""

    items: tuple[Facet, ...]
    is_partial: bool = Field(description="The time was up before everything was counted.")
    looked_until: Time | None = Field(
        description="Only what came since about then is counted; null where everything is."
    )
