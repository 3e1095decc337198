"""The number of examples of a property test that takes more or fewer than most."""

from hypothesis import settings


def examples(count: int) -> int:
    """So many in `make test`, where others take 25; `make fuzz` takes twenty times as many."""
    return count * settings().max_examples // 25
