"""The port to an embedder, and the similarity of the vectors that it gives."""

import math
from collections.abc import Awaitable, Callable, Sequence
from operator import mul
from typing import Protocol, TypeAlias, cast, runtime_checkable

from scouter.errors import ConfigError

Vectors: TypeAlias = Sequence[Sequence[float]]
Embed: TypeAlias = Callable[[list[str]], Vectors | Awaitable[Vectors]]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors; the port that every provider of embeddings implements.

    A plain function with the same argument and result is accepted wherever an embedder is; both
    may be `async`.
    """

    def embed(self, texts: list[str]) -> Vectors | Awaitable[Vectors]:
        """Give one vector per text, in order, all of the same length.

        Args:
            texts: From 1 to 256 different texts, none of them empty.
        """
        ...


def as_embed(embedder: object) -> Embed:
    """Give the function behind an embedder.

    Raises:
        ConfigError: Neither an `Embedder` nor a function.
    """
    if isinstance(embedder, Embedder) and not isinstance(embedder, type):
        return embedder.embed
    if callable(embedder) and not isinstance(embedder, type):
        return cast(Embed, embedder)
    raise ConfigError(
        f"Invalid embedder type: {type(embedder).__name__}. Expected an object with "
        "embed(texts) -> vectors, or a function texts -> vectors"
    )


def similarity(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Compute the cosine of the angle between two vectors.

    Args:
        left: Length n, finite.
        right: Length n, finite.

    Returns:
        From -1 (opposite) over 0 (orthogonal) to 1 (same direction); None where there is no
        such angle: a vector of zeros, or two lengths.

    Cost: 3n multiplications.
    """
    if len(left) != len(right):
        return None
    units = [_scaled(left), _scaled(right)]
    if units[0] is None or units[1] is None:
        return None
    first, second = units[0], units[1]
    dot = math.fsum(map(mul, first, second))
    norms = math.sqrt(math.fsum(map(mul, first, first))) * math.sqrt(
        math.fsum(map(mul, second, second))
    )
    return max(-1.0, min(1.0, dot / norms))


def _scaled(vector: Sequence[float]) -> list[float] | None:
    """Divide by the largest component, so that squares neither overflow nor vanish."""
    largest = max(map(abs, vector), default=0.0)
    if not largest:
        return None
    return [value / largest for value in vector]
