"""EvaluationConfig: embeddings, similarities and histograms, compared with brute force."""

import asyncio
import json
import math
import threading
import time
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from scouter.errors import ConfigError
from scouter.evaluate.annotate.config import (
    BATCH,
    BINS,
    EvaluationConfig,
    apply_config,
    apply_config_async,
    histogram,
)
from scouter.evaluate.annotate.embed import similarity
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.results.rows import Annotations, dump_annotations
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord

TASKS = [
    AssertionTask("gate", "kind", "a", Op.Equals, condition=True),
    AssertionTask("score", "score", 5, Op.GreaterThan, depends_on=["gate"]),
]


def letters(texts: list[str]) -> list[list[float]]:
    """An embedder whose vectors can be worked out by hand: counts of `a`, `b` and `c`."""
    return [[float(text.count(letter)) for letter in "abc"] for text in texts]


class Counting:
    """An async embedder that remembers its texts, in which thread and loop."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.loops: set[int] = set()
        self.threads: set[int] = set()

    async def embed(self, texts: list[str]) -> list[list[float]]:
        self.loops.add(id(asyncio.get_running_loop()))
        self.threads.add(threading.get_ident())
        await asyncio.sleep(0)
        self.batches.append(texts)
        return letters(texts)


def annotated(records: Sequence[EvalRecord], config: EvaluationConfig) -> Annotations:
    found = apply_config(records, EvalDataset(records, TASKS).evaluate(), config).annotations
    assert found is not None
    return found


def test_embeddings_means_and_similarities() -> None:
    """By hand: `aab` is (2, 1, 0), `bc` is (0, 1, 1); their cosine is 1/√10."""
    records = [
        EvalRecord({"kind": "a", "score": 1, "q": "aab", "r": {"t": "bc"}}),
        EvalRecord({"kind": "a", "score": 1, "q": "b", "r": {"t": ["b", "b"]}}),
    ]
    config = EvaluationConfig(letters, ["q", "r.t"], True)
    found = annotated(records, config)

    assert found.records is not None
    first, second = found.records
    assert {name: list(v) for name, v in first.embeddings.items()} == {
        "q": [2, 1, 0],
        "r.t": [0, 1, 1],
    }
    assert first.mean_embeddings == pytest.approx({"q": 1.0, "r.t": 2 / 3})
    assert first.similarity_scores == pytest.approx({"q_r.t": 1 / math.sqrt(10)})
    assert list(second.embeddings["r.t"]) == [0, 2, 0]  # the list as JSON text
    assert second.similarity_scores == {"q_r.t": 1.0}
    assert found.histograms is None


def test_each_unordered_pair_once() -> None:
    records = [EvalRecord({"kind": "a", "score": 1, "x": "a", "y": "b", "z": "ab"})]
    found = annotated(records, EvaluationConfig(letters, ["x", "y", "z"], True))
    assert found.records is not None
    assert found.records[0].similarity_scores == pytest.approx(
        {"x_y": 0.0, "x_z": math.sqrt(0.5), "y_z": math.sqrt(0.5)}
    )


def test_what_cannot_be_embedded_is_reported_and_costs_nothing_else() -> None:
    records = [
        EvalRecord({"kind": "a", "score": 1, "q": "a", "r": "zzz"}),  # a vector of zeros
        EvalRecord({"kind": "a", "score": 1, "q": " ", "r": "b"}),
        EvalRecord({"kind": "a", "score": 1, "r": "c"}),
        EvalRecord({"kind": "a", "score": 1, "q": None, "r": "ü"}),
        EvalRecord({"kind": "a", "score": 1, "q": object()}),
    ]
    found = annotated(records, EvaluationConfig(letters, ["q", "r"], True))
    assert found.records is not None
    assert [sorted(r.embeddings) for r in found.records] == [["q", "r"], ["r"], ["r"], ["r"], []]
    assert all(not r.similarity_scores for r in found.records)
    problems = ["\n".join(record.problems) for record in found.records]
    assert "zeros has no direction" in problems[0]
    assert problems[1] == problems[3] == "target 'q': there is no text"
    assert "'q'" in problems[2]
    assert "'kind', 'score', 'r'" in problems[2]
    assert "no JSON form" in problems[4]


def broken(texts: list[str]) -> list[list[float]]:
    raise ZeroDivisionError("division by zero")


WRONG_ANSWERS: list[tuple[Any, str]] = [
    ([], "0 vectors for 1 texts"),
    (None, "no list of lists"),
    ([["x"]], "no list of lists"),
    ([[]], "empty or of different lengths"),
    ([[math.nan]], "NaN or infinities"),
    (broken, "ZeroDivisionError"),
]


@pytest.mark.parametrize(("answer", "words"), WRONG_ANSWERS)
def test_an_embedder_that_fails(answer: Any, words: str) -> None:
    """A warning, and the reason at each record; no exception, no result lost."""
    records = [EvalRecord({"kind": "a", "score": 1, "q": "a"})] * 2

    def embed(texts: list[str]) -> Any:
        return answer(texts) if callable(answer) else answer

    with pytest.warns(RuntimeWarning, match=words):
        found = annotated(records, EvaluationConfig(embed, ["q"]))
    assert found.records is not None
    assert all(words in record.problems[0] for record in found.records)


@pytest.mark.parametrize("inside", [False, True], ids=["no loop", "inside a loop"])
def test_async_embedders_run_in_one_loop(inside: bool) -> None:
    """Distinct texts only, in batches, and from a notebook too."""
    records = [EvalRecord({"kind": "a", "score": 1, "q": f"a{at % 300}"}) for at in range(600)]
    embedder = Counting()
    config = EvaluationConfig(embedder, ["q"])

    async def main() -> Annotations:
        return annotated(records, config)

    found = asyncio.run(main()) if inside else annotated(records, config)
    assert [len(batch) for batch in embedder.batches] == [BATCH, 300 - BATCH]
    assert len(embedder.loops) == len(embedder.threads) == 1
    assert (embedder.threads == {threading.get_ident()}) is not inside
    assert found.records is not None
    assert list(found.records[599].embeddings["q"]) == [1, 0, 0]
    assert found.records[299].embeddings["q"] is found.records[599].embeddings["q"]


def test_the_async_form_leaves_the_loop_free() -> None:
    """Two datasets at once: each waits for the other's embedder to begin."""

    async def main() -> list[EvalResults]:
        barrier = asyncio.Barrier(2)

        async def meet(texts: list[str]) -> list[list[float]]:
            await asyncio.wait_for(barrier.wait(), 120)
            return letters(texts)

        records = [EvalRecord({"kind": "a", "score": 1, "q": "a"})]
        results = EvalDataset(records, TASKS).evaluate()
        config = EvaluationConfig(meet, ["q"])
        jobs = [apply_config_async(records, results, config) for _ in range(2)]
        return list(await asyncio.gather(*jobs))

    assert all(row.embeddings for found in asyncio.run(main()) for row in found)


def test_a_failing_async_embedder() -> None:
    async def dead(texts: list[str]) -> list[list[float]]:
        raise TimeoutError("no answer")

    with pytest.warns(RuntimeWarning, match="TimeoutError: no answer"):
        found = annotated(
            [EvalRecord({"kind": "a", "score": 1, "q": "a"})], EvaluationConfig(dead, ["q"])
        )
    assert found.records is not None
    assert "TimeoutError" in found.records[0].problems[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"embedder": letters}, "embedder needs embedding_targets"),
        ({"embedding_targets": ["a"]}, "embedding_targets needs embedder"),
        ({"embedder": 3, "embedding_targets": ["a"]}, "Invalid embedder type: int"),
        ({"embedder": Counting, "embedding_targets": ["a"]}, "Invalid embedder type"),
        ({"embedder": letters, "embedding_targets": "ab"}, "a list of paths"),
        ({"embedder": letters, "embedding_targets": [3]}, "3 is no path"),
        ({"embedder": letters, "embedding_targets": ["a["]}, "embedding_targets: "),
        ({"embedder": letters, "embedding_targets": ["a", "a"]}, "'a' stands twice"),
        (
            {"embedder": letters, "embedding_targets": ["a", "b_c", "a_b", "c"]},
            "are both called 'a_b_c'",
        ),
        (
            {"embedder": letters, "embedding_targets": ["a"], "compute_similarity": True},
            "there is 1",
        ),
        ({"compute_similarity": True}, "there are 0"),
    ],
)
def test_configs_that_can_never_work(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words.replace("[", r"\[")):
        EvaluationConfig(**fields)


def test_histograms_of_tasks_scores_and_embeddings() -> None:
    """Nine records: eight behind an open gate with scores 0 to 7, one behind a closed one."""
    records = [EvalRecord({"kind": "a", "score": at, "q": "a" * (at + 1)}) for at in range(8)]
    records.append(EvalRecord({"kind": "b", "score": 99}))
    found = annotated(records, EvaluationConfig(letters, ["q"], compute_histograms=True))
    assert found.histograms is not None
    assert list(found.histograms) == ["gate", "score", "actual(score)", "mean(q)"]
    gate, score, actual, mean = found.histograms.values()
    assert (gate.bin_counts, gate.missing) == ((1, *[0] * 8, 8), 0)
    assert (score.bin_counts, score.missing) == ((6, *[0] * 8, 2), 1)  # 6 and 7 are above 5
    assert (actual.bin_edges[0], actual.bin_edges[-1], actual.missing) == (0.0, 7.0, 1)
    assert actual.bin_counts == (1, 1, 1, 0, 1, 1, 0, 1, 1, 1)  # bins of 0.7
    assert (mean.total, mean.missing, mean.num_bins, len(mean.bins)) == (8, 1, 10, 10)


def test_a_column_may_begin_late() -> None:
    """The first record has no number; the histogram does not depend on it."""
    records = [EvalRecord({"kind": "a"}), EvalRecord({"kind": "a", "score": 3})]
    found = annotated(records, EvaluationConfig(compute_histograms=True))
    assert found.histograms is not None
    assert found.histograms["actual(score)"].missing == 1
    assert found.records is None


def test_equal_values_stand_in_the_middle() -> None:
    for value in (0.0, 3.0, -1e12, 1e300):
        made = histogram([value, value])
        assert made is not None
        assert sum(made.bin_counts) == made.total == 2
        assert made.bin_edges[0] < value < made.bin_edges[-1]
    assert histogram([3.0]) == histogram([None, 3.0][1:])
    three = histogram([3.0])
    assert three is not None
    assert (three.bin_edges[0], three.bin_edges[-1]) == (2.5, 3.5)
    assert histogram([None, math.nan, math.inf]) is None


numbers = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(numbers, min_size=1, max_size=40))
def test_histograms_count_every_value_where_it_belongs(values: list[float]) -> None:
    made = histogram(values)
    assert made is not None
    edges = made.bin_edges
    assert list(edges) == sorted(set(edges))
    assert len(edges) == BINS + 1
    brute = [
        sum(edges[at] <= v and (v < edges[at + 1] or at == BINS - 1) for v in values)
        for at in range(BINS)
    ]
    assert list(made.bin_counts) == brute
    assert sum(brute) == made.total == len(values)


@given(st.lists(st.integers(-1000, 1000).map(float), min_size=1, max_size=40))
def test_histograms_agree_with_numpy(values: list[float]) -> None:
    """Edges to rounding; counts wherever no value stands on an edge between two bins."""
    made = histogram(values)
    assert made is not None
    counts, edges = np.histogram(values, bins=BINS)
    assert made.bin_edges == pytest.approx(edges.tolist(), abs=1e-9)
    inner = edges[1:-1]
    if all(np.min(np.abs(inner - v)) > 1e-6 for v in values):
        assert list(made.bin_counts) == counts.tolist()


vectors = st.integers(1, 8).flatmap(
    lambda n: st.tuples(*[st.lists(numbers, min_size=n, max_size=n)] * 2)
)


@given(vectors)
def test_similarity_obeys_its_laws(pair: tuple[list[float], list[float]]) -> None:
    """In [-1, 1]; symmetric; 1 with itself, -1 with its negative; the same at any length."""
    left, right = pair
    score = similarity(left, right)
    if not any(left) or not any(right):
        assert score is None
        return
    assert score is not None
    assert -1.0 <= score <= 1.0
    assert similarity(right, left) == pytest.approx(score)
    assert similarity(left, left) == pytest.approx(1.0)
    assert similarity(left, [-value for value in left]) == pytest.approx(-1.0)


@given(st.lists(st.tuples(st.integers(-99, 99), st.integers(-99, 99)), min_size=1, max_size=9))
def test_similarity_agrees_with_the_textbook(pairs: list[tuple[int, int]]) -> None:
    left, right = map(list, zip(*pairs, strict=True))
    if any(left) and any(right):
        dot = sum(x * y for x, y in pairs)
        wanted = dot / math.sqrt(sum(x * x for x in left) * sum(y * y for y in right))
        assert similarity(left, right) == pytest.approx(wanted, abs=1e-12)
    assert similarity([1.0], [1.0, 2.0]) is None


def test_annotations_survive_json() -> None:
    records = [EvalRecord({"kind": "a", "score": at, "q": "aß", "r": "bé"}) for at in range(3)]
    config = EvaluationConfig(letters, ["q", "r"], True, True)
    found = annotated([*records, EvalRecord({})], config)
    text = json.dumps(dump_annotations(found), allow_nan=False)
    assert TypeAdapter(Annotations).validate_json(text) == found
    empty = Annotations()
    assert TypeAdapter(Annotations).validate_python(dump_annotations(empty)) == empty


@pytest.mark.pace
def test_speed_of_similarity() -> None:
    """2,000 pairs of 1,536 components within some seconds, without numpy."""
    left, right = array("d", range(1536)), array("d", range(1, 1537))
    start = time.perf_counter()
    for _ in range(200):
        similarity(left, right)
    assert time.perf_counter() - start < 5


def test_annotations_are_in_the_results() -> None:
    """By record, in the histograms, in the frame, and in the file."""
    records = [EvalRecord({"kind": "a", "score": 7, "q": "aab", "r": "bc"}, id="x")]
    results = EvalDataset(records, TASKS).evaluate()
    annotated = apply_config(records, results, EvaluationConfig(letters, ["q", "r"], True, True))
    record = annotated["x"]
    assert list(record.embeddings["q"]) == [2, 1, 0]
    assert record.mean_embeddings == pytest.approx({"q": 1.0, "r": 2 / 3})
    assert record.similarity_scores == pytest.approx({"q_r": 1 / math.sqrt(10)})
    assert annotated.histograms is not None
    assert annotated.histograms["mean(q)"].total == 1
    row = annotated.to_dataframe(polars=True).to_dicts()[0]
    assert json.loads(row["embedding_means"]) == pytest.approx({"q": 1.0, "r": 2 / 3})
    assert EvalResults.model_validate_json(annotated.model_dump_json()) == annotated
    assert results.histograms is None
