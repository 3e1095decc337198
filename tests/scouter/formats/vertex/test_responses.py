"""Metrics of texts, against values worked out by hand."""

import math
import sys

import pytest

from scouter.errors import ConfigError
from scouter.formats.vertex.responses import RESPONSE_METRICS, response_metric

LONG = "the cat sat down"
SHORT = "the cat sat"


@pytest.mark.parametrize(
    ("metric", "response", "reference", "score"),
    [
        ("exact_match", "Yes", "Yes", 1.0),
        ("exact_match", "Yes", "yes", 0.0),
        ("token_f1", "The cat, sat!", "a cat sat", 1.0),
        ("token_f1", "cat sat", "cat sat down there", 2 / 3),  # 1 and 1/2
        ("token_f1", "", "the", 1.0),
        ("token_f1", "", "cat", 0.0),
        ("token_f1", "no no no", "no", 0.5),  # 1/3 and 1
        ("rouge_1", SHORT, LONG, 6 / 7),  # 1 and 3/4
        ("rouge_2", SHORT, LONG, 0.8),  # 1 and 2/3
        ("rouge_l", "sat the cat", LONG, 4 / 7),  # 2/3 and 2/4
        ("rouge_l_sum", "b a\nd c", "a b\nc d", 0.5),  # line by line one word of two
        ("rouge_l_sum", "d c\nb a", "a b\nc d", 0.5),  # and the order of lines is of no matter
        ("bleu", LONG, LONG, 1.0),
        ("bleu", SHORT, LONG, math.exp(1 - 4 / 3)),  # all that is said is right, but too short
        ("bleu", "dog", LONG, 0.0),
    ],
)
def test_scores(metric: str, response: str, reference: str, score: float) -> None:
    assert response_metric(metric)(response, reference) == pytest.approx(score)


@pytest.mark.parametrize("metric", RESPONSE_METRICS)
def test_the_same_text_scores_1(metric: str) -> None:
    assert response_metric(metric)(LONG, LONG) == 1.0


@pytest.mark.parametrize(
    ("metric", "module", "name"),
    [
        ("rouge_l", "rouge_score.rouge_scorer", "rouge-score"),
        ("bleu", "sacrebleu.metrics", "sacrebleu"),
    ],
)
def test_a_missing_library_is_said(
    metric: str, module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    response_metric.cache_clear()
    with pytest.raises(
        ConfigError, match=rf"{metric}: .*needs {name}.*scouter-agents\[text-metric"
    ):
        response_metric(metric)
