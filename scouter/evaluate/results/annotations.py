"""Additions to the results of an evaluation: embeddings, similarities and histograms."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

Vector: TypeAlias = "array[float]"
"""Doubles side by side: a third of the memory of a list, and numpy reads them without a copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordAnnotations:
    """Embeddings and similarities of one record's texts.

    A target without an embedding is in none of the mappings, and `problems` says why.
    """

    embeddings: Mapping[str, Vector] = field(default_factory=dict[str, Vector])
    """Vector of the embedder, by target."""
    mean_embeddings: Mapping[str, float] = field(default_factory=dict[str, float])
    """Mean of the vector's components, by target."""
    similarity_scores: Mapping[str, float] = field(default_factory=dict[str, float])
    """Cosine similarity, in [-1, 1], by `{target}_{target}` in the targets' order."""
    problems: tuple[str, ...] = ()
    """Reasons why an embedding or a similarity is missing, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Distribution of the values in one column, over bins of equal width."""

    bin_edges: tuple[float, ...]
    """One more than there are bins, rising. A bin holds its lower edge, the last one both."""
    bin_counts: tuple[int, ...]
    """Values per bin; they sum to `total`."""
    total: int
    """Values counted."""
    missing: int = 0
    """Records without such a value; they are in no bin."""

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
    """Additions that an `EvaluationConfig` asked for, beside the results."""

    records: tuple[RecordAnnotations, ...] | None = None
    """One per record, in the records' order; None where nothing was to be embedded."""
    histograms: Mapping[str, Histogram] | None = None
    """Histograms by column; see `scouter.evaluate.annotate.config`. None where not wanted."""


EMPTY: Final = RecordAnnotations()
"""Annotations of a record of which nothing was embedded."""


class _Body(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Record(_Body):
    embeddings: dict[str, list[float]] = Field(default_factory=dict[str, list[float]])
    mean_embeddings: dict[str, float] = Field(default_factory=dict[str, float])
    similarity_scores: dict[str, float] = Field(default_factory=dict[str, float])
    problems: tuple[str, ...] = ()


class _HistogramBody(_Body):
    bin_edges: tuple[float, ...]
    bin_counts: tuple[int, ...]
    total: int
    missing: int = 0

    @model_validator(mode="after")
    def _edges_fit(self) -> "_HistogramBody":
        if len(self.bin_edges) != len(self.bin_counts) + 1:
            raise ValueError(
                f"{len(self.bin_edges)} edges for {len(self.bin_counts)} bins; expected one more"
            )
        return self


class AnnotationsBody(_Body):
    """The wire form of `Annotations`, to be a field of a larger model."""

    records: tuple[_Record, ...] | None = None
    histograms: dict[str, _HistogramBody] | None = None

    def value(self) -> Annotations:
        """Make the annotations themselves."""
        records = None
        if self.records is not None:
            records = tuple(
                RecordAnnotations(
                    embeddings={name: array("d", v) for name, v in row.embeddings.items()},
                    mean_embeddings=row.mean_embeddings,
                    similarity_scores=row.similarity_scores,
                    problems=row.problems,
                )
                for row in self.records
            )
        histograms = None
        if self.histograms is not None:
            histograms = {
                name: Histogram(
                    bin_edges=item.bin_edges,
                    bin_counts=item.bin_counts,
                    total=item.total,
                    missing=item.missing,
                )
                for name, item in self.histograms.items()
            }
        return Annotations(records=records, histograms=histograms)


def dump(annotations: Annotations) -> dict[str, JsonValue]:
    """Write annotations as plain JSON values, which `AnnotationsBody` reads."""
    records = None
    if annotations.records is not None:
        records = [_dump_record(record) for record in annotations.records]
    histograms = None
    if annotations.histograms is not None:
        histograms = {
            name: {
                "bin_edges": list(item.bin_edges),
                "bin_counts": list(item.bin_counts),
                "total": item.total,
                "missing": item.missing,
            }
            for name, item in annotations.histograms.items()
        }
    return cast("dict[str, JsonValue]", {"records": records, "histograms": histograms})


def _dump_record(record: RecordAnnotations) -> dict[str, object]:
    return {
        "embeddings": {name: list(vector) for name, vector in record.embeddings.items()},
        "mean_embeddings": dict(record.mean_embeddings),
        "similarity_scores": dict(record.similarity_scores),
        "problems": list(record.problems),
    }
