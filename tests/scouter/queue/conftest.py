"""In our own tests a bug of ours is raised, not swallowed."""

from collections.abc import Iterator

import pytest

from scouter.transport.guard import GUARD


@pytest.fixture(autouse=True)
def strict_guard() -> Iterator[None]:
    """Raise internal errors, and log refusals anew."""
    GUARD.strict = True
    GUARD.forget()
    yield
    GUARD.strict = False
