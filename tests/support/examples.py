"""How many examples a property test takes whose examples are dear, such as a store for each."""

from hypothesis import settings


def examples(count: int) -> int:
    """So many in `make test`, and as many times more as the profile takes (`make fuzz`: five)."""
    return count * settings.default.max_examples // 100
