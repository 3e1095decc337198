"""Whether a provider's answer had come when what reads it failed.

Then it is the answer that is wrong. The vendors' clients and pydantic-ai say so only of what they
look for: of a list without the element that they take, they say `IndexError`.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import httpx2

__all__ = ("UnreadAnswerError", "note_answer", "reading")


class UnreadAnswerError(Exception):
    """A provider answered, by its status that all is well, and then something was raised.

    Args:
        error: What was raised; a connection that broke and a time limit may be, too.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


@dataclass(slots=True)
class _Question:
    is_answered: bool = False


_PUT: Final[ContextVar[_Question | None]] = ContextVar("scouter_question_put", default=None)
"""The question that is being put: the HTTP client is shared, and does not know it."""


@contextmanager
def reading() -> Generator[None]:
    """Put one question inside, and have its answer read; nothing else.

    Raises:
        UnreadAnswerError: In place of what was raised after an answer had come.
    """
    question = _Question()
    token = _PUT.set(question)
    try:
        yield
    except Exception as error:
        if question.is_answered:
            raise UnreadAnswerError(error) from error
        raise
    finally:
        _PUT.reset(token)


async def note_answer(response: "httpx2.Response") -> None:
    """Note that the answer to a question has come; a hook of the HTTP client."""
    question = _PUT.get()
    if question is not None and response.is_success:
        question.is_answered = True
