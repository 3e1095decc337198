"""The local embedder: published numbers, and what it says where it is missing."""

from importlib.util import find_spec

import pytest

from scouter.evaluate.annotate import minilm
from scouter.evaluate.annotate.embed import Embedder, similarity
from scouter.evaluate.annotate.minilm import MissingModelError, local_embedder
from tests.support.components import require

IS_THERE = all(map(find_spec, (minilm.PACKAGE, "numpy", "safetensors", "tokenizers")))


def test_similarities_are_those_of_the_documentation() -> None:
    """Source: the quickstart of sentence-transformers, for all-MiniLM-L6-v2."""
    require("embeddings", present=IS_THERE)
    model = local_embedder()
    assert isinstance(model, Embedder)
    weather, sunny, stadium = model.embed(
        ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
    )
    found = [similarity(*pair) for pair in ((weather, sunny), (weather, stadium), (sunny, stadium))]
    assert found == pytest.approx([0.6660, 0.1046, 0.1411], abs=5e-5)
    assert len(weather) == 384
    assert local_embedder() is model


def test_a_long_text_is_cut() -> None:
    require("embeddings", present=IS_THERE)
    long = "word " * 2000
    assert similarity(*local_embedder().embed([long, "word " * 254])) == pytest.approx(1.0)


def test_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_package")
    local_embedder.cache_clear()
    try:
        with pytest.raises(MissingModelError, match=r"scouter-agents\[embeddings\]"):
            local_embedder()
    finally:
        local_embedder.cache_clear()
