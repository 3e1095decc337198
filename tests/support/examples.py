"""How many examples a property test takes whose examples are dear, such as a store for each."""

from hypothesis import settings


def examples(count: int) -> int:
    """So many in `make test`, whose profile takes 50 of others, and ten times as many in `make fuzz`."""
    return count * settings.default.max_examples // 50
