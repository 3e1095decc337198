"""Annotations as a part of stored results."""

from array import array
from typing import cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from scouter.evaluate.results.annotations import Annotations, Histogram, RecordAnnotations


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
