"""Additions to the results of an evaluation: embeddings, similarities and histograms."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import Field, GetCoreSchemaHandler, GetPydanticSchema, JsonValue, TypeAdapter
from pydantic_core import CoreSchema, core_schema

Finite = Annotated[float, Field(allow_inf_nan=False)]
Vector: TypeAlias = "array[float]"
"""Doubles side by side: a third of the memory of a list, and numpy reads them without a copy."""


def _as_list(_: object, handler: GetCoreSchemaHandler) -> CoreSchema:
    return core_schema.no_info_after_validator_function(
        lambda values: array("d", values),
        handler.generate_schema(list[Finite]),
        serialization=core_schema.plain_serializer_function_ser_schema(list),
    )


if TYPE_CHECKING:
    _Stored: TypeAlias = Vector
else:
    _Stored = Annotated[array, GetPydanticSchema(_as_list)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAnnotations:
    """Embeddings and similarities of one record's texts.

    A target without an embedding is in none of the mappings, and `problems` says why.
    """

    embeddings: Mapping[str, _Stored] = field(default_factory=dict[str, Vector])
    """Vector of the embedder, by target."""
    mean_embeddings: Mapping[str, Finite] = field(default_factory=dict[str, float])
    """Mean of the vector's components, by target."""
    similarity_scores: Mapping[str, Finite] = field(default_factory=dict[str, float])
    """Cosine similarity, in [-1, 1], by `{target}_{target}` in the targets' order."""
    problems: tuple[str, ...] = ()
    """Reasons why an embedding or a similarity is missing, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Distribution of the values in one column, over bins of equal width."""

    bin_edges: tuple[Finite, ...]
    """One more than there are bins, rising. A bin holds its lower edge, the last one both."""
    bin_counts: tuple[int, ...]
    """Values per bin; they sum to `total`."""
    total: int
    """Values counted."""
    missing: int = 0
    """Records without such a value; they are in no bin."""

    def __post_init__(self) -> None:
        edges, bins = len(self.bin_edges), len(self.bin_counts)
        if edges != bins + 1:
            raise ValueError(f"{edges} edges for {bins} bins; expected one more")

    @property
    def bins(self) -> tuple[float, ...]:
        """The lower edge of each bin."""
        return self.bin_edges[:-1]

    @property
    def num_bins(self) -> int:
        """Number of bins."""
        return len(self.bin_counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """Additions that an `EvaluationConfig` requested, beside the results."""

    records: tuple[RecordAnnotations, ...] | None = None
    """One per record, in the records' order; None where nothing was to be embedded."""
    histograms: Mapping[str, Histogram] | None = None
    """Histograms by column; see `scouter.evaluate.annotate.config`. None where not wanted."""


EMPTY: Final = RecordAnnotations()
"""Annotations of a record of which nothing was embedded."""


@cache
def _form() -> TypeAdapter[Annotations]:
    return TypeAdapter(Annotations)


def dump(annotations: Annotations) -> dict[str, JsonValue]:
    """Write annotations as plain JSON values, as a field of this type in a model reads them."""
    found: dict[str, JsonValue] = _form().dump_python(annotations, mode="json")
    return found
