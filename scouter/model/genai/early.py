"""What the store asks every span on its way in: few attributes, without a look at the others."""

from collections.abc import Sequence
from typing import Final

from scouter.model.genai.facts import MODEL_CALLS
from scouter.model.genai.field import Field
from scouter.model.genai.held import integer
from scouter.model.genai.lookup import KIND_KEYS, names_of
from scouter.model.span import Attributes

INPUT_TOKENS: Final = names_of(Field.INPUT_TOKENS)
OUTPUT_TOKENS: Final = names_of(Field.OUTPUT_TOKENS)
_KIND_NAMES: Final = frozenset(
    {"gen_ai.operation.name", "openinference.span.kind", "llm.request.type", "ai.operationId"}
)
"""Of conventions that write tokens as numbers of their own."""
_KEYS: Final = tuple(key for key in KIND_KEYS if key.name in _KIND_NAMES)
USAGE_KEYS: Final = (*(key.name for key in _KEYS), *INPUT_TOKENS, *OUTPUT_TOKENS)
"""What `is_model_call` and `tokens` look at."""
MODEL_OPERATIONS: Final = frozenset(
    value for value, kind in _KEYS[0].values.items() if kind in MODEL_CALLS
)
"""Values of `gen_ai.operation.name`."""


def is_model_call(attributes: Attributes) -> bool:
    """Tell whether a span with these attributes is one call of a model, embeddings included."""
    for key in _KEYS:
        value = attributes.get(key.name)
        if isinstance(value, str) and (kind := key.kind_of(value)) is not None:
            return kind in MODEL_CALLS
    return False


def tokens(attributes: Attributes, names: Sequence[str]) -> int | None:
    """The first number that a span reports under one of the names, such as `INPUT_TOKENS`."""
    found = (integer(attributes.get(name)) for name in names)
    return next((number for number in found if number is not None), None)
