"""Additions to the results of an evaluation: embeddings, similarities, histograms."""

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

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
    """Histograms by column; see `scouter.evaluate.annotate.histograms`. None where not wanted."""


EMPTY: Final = RecordAnnotations()
"""Annotations of a record of which nothing was embedded."""
