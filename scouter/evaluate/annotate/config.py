"""EvaluationConfig: embeddings, similarities and histograms beside the task results."""

import inspect
import math
import sys
import warnings
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations, pairwise
from json import JSONEncoder
from math import isfinite
from typing import Final, TypeVar, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.evaluate.annotate.embed import Embed, Embedder, as_embed, similarity
from scouter.evaluate.engine.execute import plain_context
from scouter.evaluate.judge.loops import run_to_end
from scouter.evaluate.outcome import Outcome, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.results.rows import (
    Annotations,
    Histogram,
    RecordAnnotations,
    ResultRows,
    Vector,
)
from scouter.model.record import EvalRecord

BINS: Final = 10

_LARGEST: Final = sys.float_info.max


def histogram(values: Iterable[float | None]) -> Histogram | None:
    """Count values in ten bins of equal width between the smallest and the largest.

    A bin holds its lower edge and not its upper one; the last bin holds both. Where all values
    are the same, or too close for ten bins to have ten widths, the bins cover half a unit (or a
    billionth of the value, if that is more) to both sides, so that the values stand in the middle.

    Args:
        values: Any number of them; None, NaN and infinities count as missing.

    Returns:
        None if nothing can be counted.

    Cost: linear.
    Source: the edges are those of `numpy.histogram(values, bins=10)`.
    """
    given = list(values)
    numbers = [value for value in given if value is not None and isfinite(value)]
    if not numbers:
        return None
    edges = _edges(min(numbers), max(numbers))
    counts = [0] * BINS
    for number in numbers:
        counts[min(max(bisect_right(edges, number) - 1, 0), BINS - 1)] += 1
    return Histogram(
        bin_edges=tuple(edges),
        bin_counts=tuple(counts),
        total=len(numbers),
        missing=len(given) - len(numbers),
    )


def _edges(low: float, high: float) -> list[float]:
    edges = _between(low, high)
    if all(left < right for left, right in pairwise(edges)):
        return edges
    around = max(0.5, 1e-9 * max(abs(low), abs(high)))
    return _between(max(low - around, -_LARGEST), min(high + around, _LARGEST))


def _between(low: float, high: float) -> list[float]:
    """Spread eleven edges; by parts, as `high - low` can be more than the largest float."""
    inner = [low * (1 - at / BINS) + high * (at / BINS) for at in range(1, BINS)]
    return [low, *inner, high]


def all_histograms(
    results: ResultRows, records: Sequence[RecordAnnotations] | None
) -> dict[str, Histogram]:
    """Make the histogram of every column of numbers, wherever in the records it first appears.

    The columns: `{task}` is 1.0 where the task passed, 0.0 where it failed or errored, missing
    where it was skipped; `actual({task})` is the value that the task compared, where that is a
    number, such as a judge's score; `mean({target})` is the mean of a target's embedding;
    `similarity({target}, {target})` of two.

    Raises:
        ConfigError: A task's id is the name of another column.

    Cost: linear in task results.
    """
    columns = _task_columns(results)
    for name, column in _embedding_columns(records or ()):
        if name in columns:
            raise ConfigError(f"the id of the task {name!r} is the name of another histogram")
        columns[name] = column
    found = {name: histogram(_padded(column, len(results))) for name, column in columns.items()}
    return {name: made for name, made in found.items() if made is not None}


def _padded(column: Sequence[float | None], length: int) -> Iterator[float | None]:
    yield from column
    yield from [None] * (length - len(column))


def _task_columns(results: ResultRows) -> dict[str, list[float | None]]:
    passed: dict[str, list[float | None]] = {}
    actual: dict[str, list[float | None]] = {}
    for record in results.records:
        for task in record.tasks:
            name = task.task_id
            value = None if task.outcome is Outcome.SKIPPED else task.value
            passed.setdefault(name, []).append(value)
            number = None if value is None else _number(task.actual)
            if number is not None:
                actual.setdefault(name, []).append(number)
    columns = dict(passed)
    for name, numbers in actual.items():
        if f"actual({name})" in columns:
            raise ConfigError(f"the id of the task 'actual({name})' is the name of another column")
        columns[f"actual({name})"] = list(numbers)
    return columns


def _number(value: JsonValue) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:  # an integer beyond the floats has no place between edges
        return None


def _embedding_columns(
    records: Sequence[RecordAnnotations],
) -> Iterator[tuple[str, list[float | None]]]:
    means: dict[str, list[float | None]] = {}
    pairs: dict[str, list[float | None]] = {}
    for record in records:
        for target, mean in record.mean_embeddings.items():
            means.setdefault(target, []).append(mean)
        for pair, score in record.similarity_scores.items():
            pairs.setdefault(pair, []).append(score)
    yield from ((f"mean({target})", column) for target, column in means.items())
    yield from ((f"similarity({pair})", column) for pair, column in pairs.items())


BATCH: Final = 256
"""Texts that an embedder gets at once."""


R = TypeVar("R", bound=ResultRows)

_json: Final = JSONEncoder(ensure_ascii=False).encode


@dataclass(frozen=True, slots=True)
class EvaluationConfig:
    """Computations beside the tasks.

    Args:
        embedder: An `Embedder`, or a function `texts -> vectors`, sync or async.
        embedding_targets: Paths into the records' contexts; what they lead to is embedded: a
            text as it is, anything else as JSON.
        compute_similarity: Cosine similarity of each two targets of a record.
        compute_histograms: Ten bins for each task, score, embedding mean and similarity.

    Raises:
        ConfigError: One of embedder and targets without the other, a target that is no path or
            stands twice, or similarity of fewer than two targets.
    """

    embedder: Embedder | Embed | None = None
    embedding_targets: Sequence[str] | None = None
    compute_similarity: bool = False
    compute_histograms: bool = False
    paths: tuple[Path, ...] = field(init=False, repr=False, compare=False)
    """The targets, parsed."""

    def __post_init__(self) -> None:
        if isinstance(self.embedding_targets, str):
            raise ConfigError("embedding_targets: pass a list of paths, not one text")
        targets = tuple(self.embedding_targets or ())
        object.__setattr__(self, "embedding_targets", targets)
        object.__setattr__(self, "paths", tuple(map(_target, targets)))
        if self.embedder is not None:
            as_embed(self.embedder)
        if (self.embedder is None) != (not targets):
            given, wanted = ("embedder", "embedding_targets")
            if targets:
                given, wanted = wanted, given
            raise ConfigError(
                f"{given} needs {wanted}: there is nothing to embed, or to embed with"
            )
        if self.compute_similarity and len(targets) < 2:
            raise ConfigError(
                "compute_similarity compares the embeddings of two embedding_targets; there "
                f"{'is' if len(targets) == 1 else 'are'} {len(targets)}"
            )
        _check_names(targets)


def _target(text: object) -> Path:
    if not isinstance(text, str):
        raise ConfigError(f"embedding_targets: {text!r} is no path; expected text")
    try:
        return Path(text)
    except ConfigError as error:
        raise ConfigError(f"embedding_targets: {error}") from error


def _check_names(targets: Sequence[str]) -> None:
    """Refuse targets that repeat, and pairs that could not be distinguished by their name."""
    for at, target in enumerate(targets):
        if target in targets[:at]:
            raise ConfigError(f"embedding_targets: {target!r} stands twice")
    seen: dict[str, tuple[str, str]] = {}
    for pair in combinations(targets, 2):
        name = "_".join(pair)
        if name in seen:
            raise ConfigError(
                f"embedding_targets: the pairs {seen[name]} and {pair} are both called {name!r}"
            )
        seen[name] = pair


def apply_config(records: Sequence[EvalRecord], results: R, config: EvaluationConfig) -> R:
    """Add the annotations of a config to results; the results themselves stay as they are.

    A text that cannot be embedded costs its record the embedding and nothing else: the record's
    `problems` tell the reason, and a warning tells of an embedder that failed.

    Args:
        records: The evaluated records.
        results: Their results, in the same order.
        config: Names the annotations to compute.

    Returns:
        The same results with `annotations`.

    Raises:
        ConfigError: A task's id is the name of another histogram.
        ValueError: There are not as many results as records.

    Cost: one call of the embedder per 256 different texts; works inside a running event loop,
    which waits. Linear in task results.
    """
    job = _Annotating(records, results, config)
    batches = job.batches()
    for batch in batches:
        answer = job.call(batch)
        if inspect.isawaitable(answer):
            run_to_end(partial(job.finish, answer, batch, batches))
            break
        job.keep(batch, answer)
    return results.with_annotations(job.annotations())


async def apply_config_async(
    records: Sequence[EvalRecord], results: R, config: EvaluationConfig
) -> R:
    """Do what `apply_config` does; an async embedder leaves the event loop free meanwhile."""
    job = _Annotating(records, results, config)
    for batch in job.batches():
        await job.keep_awaited(batch, job.call(batch))
    return results.with_annotations(job.annotations())


class _Failed:
    """Reason in words why an embedder gave no vectors for a batch."""

    __slots__ = ("words",)

    def __init__(self, words: str) -> None:
        self.words = words


class _Annotating:
    """One application of a config: texts to embed, vectors found, problems met."""

    def __init__(
        self, records: Sequence[EvalRecord], results: ResultRows, config: EvaluationConfig
    ) -> None:
        if len(records) != len(results):
            raise ValueError(f"{len(results)} results for {len(records)} records")
        self._results, self._config = results, config
        self._embed = None if config.embedder is None else as_embed(config.embedder)
        self._texts: list[list[str | _Failed]] = (
            [] if self._embed is None else [_texts_of(record, config.paths) for record in records]
        )
        self._vectors: dict[str, Vector | _Failed] = {}

    def batches(self) -> Iterator[list[str]]:
        """Each different text once."""
        distinct = list(
            dict.fromkeys(text for row in self._texts for text in row if isinstance(text, str))
        )
        for start in range(0, len(distinct), BATCH):
            yield distinct[start : start + BATCH]

    def call(self, batch: list[str]) -> object:
        """Ask the embedder; gives what it gave, maybe something to wait for."""
        if self._embed is None:
            return _Failed("there is no embedder")
        try:
            return self._embed(list(batch))
        except Exception as error:  # noqa: BLE001 — a provider's own code
            return _Failed(_words(error))

    async def keep_awaited(self, batch: list[str], answer: object) -> None:
        """Wait for an answer if it has to be waited for, and keep it."""
        if inspect.isawaitable(answer):
            try:
                answer = await answer
            except Exception as error:  # noqa: BLE001 — a provider's own code
                answer = _Failed(_words(error))
        self.keep(batch, answer)

    async def finish(self, first: object, batch: list[str], rest: Iterable[list[str]]) -> None:
        """Keep an answer, then ask for the other batches; all in one event loop."""
        await self.keep_awaited(batch, first)
        for texts in rest:
            await self.keep_awaited(texts, self.call(texts))

    def keep(self, batch: list[str], answer: object) -> None:
        """Keep the vectors of a batch, or why there are none."""
        found = _vectors(batch, answer)
        if isinstance(found, _Failed):
            warnings.warn(
                f"no embeddings for {len(batch)} texts: {found.words}", RuntimeWarning, stacklevel=3
            )
            self._vectors.update(dict.fromkeys(batch, found))
        else:
            self._vectors.update(zip(batch, found, strict=True))

    def annotations(self) -> Annotations:
        """Everything that was found."""
        records = None
        if self._embed is not None:
            means = {
                text: math.fsum(value / len(vector) for value in vector)
                for text, vector in self._vectors.items()
                if not isinstance(vector, _Failed)
            }
            records = tuple(self._record(row, means) for row in self._texts)
        histograms = None
        if self._config.compute_histograms:
            histograms = all_histograms(self._results, records)
        return Annotations(records=records, histograms=histograms)

    def _record(self, row: Sequence[str | _Failed], means: dict[str, float]) -> RecordAnnotations:
        targets = self._config.embedding_targets or ()
        vectors: dict[str, Vector] = {}
        mean_of: dict[str, float] = {}
        problems: list[str] = []
        for target, text in zip(targets, row, strict=True):
            vector = text if isinstance(text, _Failed) else self._vectors[text]
            if isinstance(vector, _Failed):
                problems.append(f"target {target!r}: {vector.words}")
            else:
                vectors[target] = vector
                mean_of[target] = means[cast(str, text)]
        scores: dict[str, float] = {}
        if self._config.compute_similarity:
            for left, right in combinations(vectors, 2):
                score = similarity(vectors[left], vectors[right])
                if score is None:
                    problems.append(
                        f"targets {left!r} and {right!r}: a vector of zeros has no direction, and "
                        "vectors of different lengths cannot be compared"
                    )
                else:
                    scores[f"{left}_{right}"] = score
        return RecordAnnotations(
            embeddings=vectors,
            mean_embeddings=mean_of,
            similarity_scores=scores,
            problems=tuple(problems),
        )


def _texts_of(record: EvalRecord, paths: Sequence[Path]) -> list[str | _Failed]:
    try:
        context = plain_context(record)
    except DataError as error:
        return [_Failed(str(error)) for _ in paths]
    found: list[str | _Failed] = []
    for path in paths:
        try:
            value = path.get(context)
        except TaskFault as fault:
            found.append(_Failed(str(fault)))
            continue
        text = value if isinstance(value, str) else "" if value is None else _json(value)
        found.append(text if text.strip() else _Failed("there is no text"))
    return found


def _vectors(batch: Sequence[str], answer: object) -> list[Vector] | _Failed:
    """Check an embedder's answer and copy it."""
    if isinstance(answer, _Failed):
        return answer
    try:
        found = [array("d", row) for row in cast(Iterable[Iterable[float]], answer)]
    except (TypeError, ValueError, OverflowError) as error:
        return _Failed(f"the embedder's answer is no list of lists of numbers: {error}")
    if len(found) != len(batch):
        return _Failed(f"the embedder gave {len(found)} vectors for {len(batch)} texts")
    if len({len(row) for row in found}) > 1 or not len(found[0]):
        return _Failed("the embedder's vectors are empty or of different lengths")
    if not all(map(math.isfinite, (value for row in found for value in row))):
        return _Failed("the embedder's vectors hold NaN or infinities")
    return found


def _words(error: Exception) -> str:
    return f"the embedder failed: {type(error).__name__}: {error}"
