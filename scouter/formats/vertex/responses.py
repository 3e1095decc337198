"""Metrics of an answer's text against a reference."""

import string
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeAlias

from scouter.errors import ConfigError

TextMetric: TypeAlias = Callable[[str, str], float]
"""Function from answer and reference to a number in [0, 1]."""

_ARTICLES: Final = frozenset({"a", "an", "the"})
_NO_PUNCTUATION: Final = str.maketrans("", "", string.punctuation)


def exact_match(response: str, reference: str) -> float:
    """Tell whether two texts are the same, letter by letter."""
    return float(response == reference)


def token_f1(response: str, reference: str) -> float:
    """Measure how many words two texts share, without regard to case, punctuation and articles.

    Returns:
        The harmonic mean of the parts of either text that the other has, in [0, 1]; 1 for two
        texts without words.

    Source: the evaluation script of SQuAD 1.1 (Rajpurkar et al. 2016).
    """
    called, expected = _words(response), _words(reference)
    if not called or not expected:
        return float(called == expected)
    return 2 * (called & expected).total() / (called.total() + expected.total())


def _words(text: str) -> Counter[str]:
    words = text.lower().translate(_NO_PUNCTUATION).split()
    return Counter(word for word in words if word not in _ARTICLES)


def _bleu() -> TextMetric:
    """BLEU of one sentence, without the orders that a short text cannot have; by sacrebleu."""
    scorer = _package("sacrebleu.metrics", "sacrebleu").BLEU(effective_order=True)
    return lambda response, reference: min(
        1.0, float(scorer.sentence_score(response, [reference]).score) / 100
    )


def _rouge(kind: str, *, stems: bool = False) -> Callable[[], TextMetric]:
    """The F measure of ROUGE; by rouge-score."""

    def make() -> TextMetric:
        package = _package("rouge_score.rouge_scorer", "rouge-score")
        scorer = package.RougeScorer([kind], use_stemmer=stems)
        return lambda response, reference: float(scorer.score(reference, response)[kind].fmeasure)

    return make


def _package(module: str, name: str) -> Any:  # noqa: ANN401 — these have no types
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"this metric needs {name}, which is not installed: "
            "pip install 'scouter-agents[text-metrics]'"
        ) from error


_MAKERS: Final[dict[str, Callable[[], TextMetric]]] = {
    "exact_match": lambda: exact_match,
    "token_f1": lambda: token_f1,
    "bleu": _bleu,
    "rouge_1": _rouge("rouge1"),
    "rouge_2": _rouge("rouge2"),
    "rouge_l": _rouge("rougeL"),
    "rouge_l_sum": _rouge("rougeLsum"),
    "response_match_score": _rouge("rouge1", stems=True),
}

RESPONSE_METRICS: Final = tuple(_MAKERS)
"""Names of the metrics of answers."""


@cache
def response_metric(name: str) -> TextMetric:
    """Make a metric by its name, one of `RESPONSE_METRICS`.

    Raises:
        ConfigError: Its library is not installed; says how to get it.
    """
    try:
        return _MAKERS[name]()
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
