"""Errors cross process boundaries whole, and say where the mistake is."""

import pickle

import pytest

from scouter.errors import (
    ConfigError,
    DataError,
    FileFormatError,
    ScouterError,
    TransientError,
    UnknownProfileError,
)

ERRORS = [
    FileFormatError("a.yaml", "unknown field", 3, "tasks[0].operater", "'operator'"),
    UnknownProfileError("nope", ["retriever", "writer"]),
    TransientError("503 from the collector", 2.5),
    DataError("bad"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_error_crosses_a_process_boundary(error: ScouterError) -> None:
    """Worker pools pickle exceptions; no field may be lost on the way."""
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 our own bytes

    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


def test_what_is_worth_trying_again() -> None:
    assert TransientError("x").retryable
    assert not ConfigError("x").retryable
    assert not DataError("x").retryable


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_who_catches_what_the_original_raised_catches_ours(error: ScouterError) -> None:
    with pytest.raises(RuntimeError):
        raise error


def test_messages_say_where_and_what() -> None:
    assert (
        str(ERRORS[0])
        == "a.yaml, line 3, field 'tasks[0].operater': unknown field; expected 'operator'"
    )
    assert str(ERRORS[1]) == "no profile has the alias 'nope'; registered: 'retriever', 'writer'"
    assert str(ERRORS[2]) == "503 from the collector (retry after 2.5 s)"
