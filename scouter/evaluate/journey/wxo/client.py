"""The original's "client": it answers about texts and embeds values."""

from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from scouter.evaluate.journey.asking import KEYWORD, Answers, read_reply
from scouter.evaluate.journey.fuzzy import embed
from scouter.evaluate.journey.wxo import arguments
from scouter.evaluate.judge.port import JudgeError


class NoClientError(Exception):
    """The original has no client, and needs one."""


class Client:
    """Judge and embedder in one object, as in the original.

    Args:
        judge: None to search texts for the wanted words instead.
        embedder: None compares fuzzy values by their tokens.
        is_missing: True where the original would have no client.
    """

    def __init__(self, judge: Answers | None, embedder: object, *, is_missing: bool) -> None:
        self._judge = judge
        self._embedder = embedder
        self.is_missing = is_missing

    def is_like(self, actual: JsonValue, expected: JsonValue) -> bool:
        """Compare two normalised values; an embedder's exception is not caught, as there."""
        if self.is_missing or self._embedder is None:
            return arguments.is_alike_by_tokens(actual, expected)
        left, right = embed(self._embedder, [str(actual), str(expected)])
        return arguments.cosine(left, right) >= arguments.THRESHOLD

    def is_like_for_f1(self, actual: JsonValue, expected: JsonValue) -> bool:
        """Compare two normalised values as `is_like` does, but not without a client.

        Raises:
            NoClientError: The client is missing.
        """
        if self.is_missing:
            raise NoClientError("ToolParameterF1 requires a client, but none was provided")
        return self.is_like(actual, expected)

    def says(self, question: str, /, **data: object) -> bool:
        """Ask about a text; a judge that fails says no, and so does a client that is missing."""
        if self.is_missing:
            return False
        if self._judge is None:
            return _holds(question, data)
        try:
            answer = read_reply(self._judge.answer(question, **data))
        except JudgeError:
            return False
        if isinstance(answer, dict):
            return answer.get("verdict") is True
        return str(answer).strip().lower().startswith("true")

    def ask(self, question: str, /, **data: object) -> JsonValue:
        """Ask for any answer.

        Raises:
            NoClientError: There is nobody to ask.
            JudgeError: Nobody answered.
        """
        if self._judge is None:
            raise NoClientError("no judge was given")
        return self._judge.answer(question, **data)


def _holds(question: str, data: Mapping[str, Any]) -> bool:
    """Decide about a text without a judge: whether it holds the keywords, or the wanted text."""
    spoken = str(data["actual"]).lower()
    wanted = data["keywords"] if question == KEYWORD else [data["expected"]]
    return all(str(each).strip().lower() in spoken for each in wanted)
