"""How many examples a property test takes whose examples are dear, such as a store for each."""

from hypothesis import settings


def examples(count: int) -> int:
    """So many where others take 50, as in `make test`; `make fuzz` takes ten times as many."""
    return count * settings().max_examples // 50
