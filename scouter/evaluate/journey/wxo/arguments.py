"""Arguments, texts and answers from knowledge as version 1.6.9 of the original compares them."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.journey.arguments import ANY_ARGS, ANY_VALUE
from scouter.evaluate.journey.asking import (
    FAITHFULNESS,
    KEYWORD,
    RELEVANCY,
    Answers,
    embed,
    read_reply,
    token_ratio,
)
from scouter.evaluate.journey.case_faults import flatten, strategy_of
from scouter.evaluate.journey.message import SEARCH, TEXT, JourneyMessage, as_text
from scouter.evaluate.journey.result import ArgumentMatch, Measure
from scouter.evaluate.journey.wxo import arguments
from scouter.evaluate.judge.answer_text import DecisiveOf, NoJsonError, read_answer, under
from scouter.evaluate.judge.port import JudgeError

THRESHOLD: Final = 0.8
_EPSILON: Final = 0.001
"""Largest difference of two equal numbers among fuzzy arguments."""

IsLike: TypeAlias = Callable[[JsonValue, JsonValue], bool]
"""Compares two normalised values that are neither numbers nor dates."""


def normalised(value: JsonValue) -> JsonValue:
    """Reduce a value to what is compared: numbers and texts of numbers as one text, lower case.

    A boolean is a number in Python, and keeps its capital letter; lists are sorted.
    """
    if str(value) == ANY_VALUE:
        return ANY_VALUE
    if isinstance(value, dict):
        return {str(key): normalised(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(normalised, value), key=lambda each: json.dumps(each, sort_keys=True))
    if isinstance(value, int):
        return str(value)
    number = _float(value)
    if number is not None:
        # `int` of an infinity raises in the original, too; but `is_integer` keeps it away
        return str(int(number)) if number.is_integer() else str(number)
    return str(value).lower()


def _float(value: JsonValue) -> float | None:
    if not isinstance(value, float | str):
        return None
    try:
        return float(value)
    except ValueError:
        return None


def as_date_or_number(actual: JsonValue, expected: JsonValue) -> tuple[bool, bool]:
    """Compare two normalised values as numbers, else as dates.

    Returns:
        Whether both are of one of these kinds, and whether they are the same then.

    Raises:
        ConfigError: python-dateutil is not installed.
        OverflowError: A number is too large to be a date.
    """
    try:
        left, right = float(cast("str", actual)), float(cast("str", expected))
    except (ValueError, TypeError):
        pass
    else:
        return True, abs(left - right) <= _EPSILON
    try:
        from dateutil import parser
    except ImportError as error:
        raise ConfigError(
            "fuzzy arguments of wxo-1.6.9 are read as dates by python-dateutil: "
            "pip install 'scouter-agents[watsonx]'"
        ) from error
    try:
        dates = [parser.parse(cast("str", each)) for each in (actual, expected)]
    except (ValueError, TypeError):
        return False, False
    return True, dates[0] == dates[1]


def is_alike_by_tokens(actual: JsonValue, expected: JsonValue) -> bool:
    """Compare without a client: a ratio of 0 to 100 against 0.8, so that anything alike passes."""
    return 100 * token_ratio(str(actual), str(expected)) > THRESHOLD


def cosine(left: list[float], right: list[float]) -> float:
    """The cosine of two vectors; 0 where one has no direction."""
    dot = sum(a * b for a, b in zip(left, right, strict=True))
    sizes = math.sqrt(sum(a * a for a in left)) * math.sqrt(sum(b * b for b in right))
    return dot / sizes if sizes else 0.0


def matches(
    expected: Mapping[str, JsonValue] | None,
    actual: Mapping[str, JsonValue],
    strategies: Mapping[str, str],
    is_like: IsLike,
) -> bool:
    """Tell whether a call's arguments fit; ends at the first that does not."""
    if expected is None:
        return not actual
    if expected == ANY_ARGS:
        return True
    there = flatten(actual)
    return all(
        _match(path, value, there, strategies, is_like).matched
        for path, value in flatten(expected).items()
    )


def compared(
    expected: Mapping[str, JsonValue] | None,
    actual: Mapping[str, JsonValue],
    strategies: Mapping[str, str],
    is_like: IsLike,
) -> tuple[ArgumentMatch, ...]:
    """Compare every expected leaf."""
    if expected is None or expected == ANY_ARGS:
        return ()
    there = flatten(actual)
    return tuple(
        _match(path, value, there, strategies, is_like) for path, value in flatten(expected).items()
    )


def _match(
    path: str,
    value: JsonValue,
    there: Mapping[str, JsonValue],
    strategies: Mapping[str, str],
    is_like: IsLike,
) -> ArgumentMatch:
    strategy = strategy_of(path, strategies)
    left, right = normalised(there.get(path)), normalised(value)
    if strategy == "ignore" or right == ANY_VALUE:
        matched = True
    elif path not in there:
        matched = strategy == "optional"
    elif strategy == "optional":
        matched = there[path] == value
    elif strategy == "fuzzy":
        is_read, is_same = as_date_or_number(left, right)
        matched = is_same if is_read else is_like(left, right)
    elif strategy == "strict":
        matched = left == right
    else:
        matched = True  # an unknown strategy checks nothing
    return ArgumentMatch(
        path=path, strategy=strategy, expected=value, actual=there.get(path),
        is_present=path in there, matched=matched,
    )  # fmt: skip


def f1(
    expected: Mapping[str, JsonValue] | None,
    actual: Mapping[str, JsonValue],
    strategies: Mapping[str, str],
    is_like: IsLike,
) -> float | None:
    """Measure the arguments of one call against one goal, by top-level names.

    Returns:
        Rounded to four places; None where the original has NaN.

    Raises:
        AttributeError: The arguments are no object.
    """
    if not expected:
        return 0.0 if actual else None
    if expected == ANY_ARGS:
        return None
    names = set(actual.keys())
    checked = [
        name
        for name in expected
        if strategies.get(name) != "ignore"
        and (strategies.get(name) != "optional" or name in actual)
    ]
    right = 0
    for name in checked:
        wanted = normalised(expected[name])
        if name not in names or wanted == ANY_VALUE:
            continue
        found = normalised(actual[name])
        is_same = found == wanted
        if strategies.get(name) == "fuzzy":
            is_read, is_same = as_date_or_number(found, wanted)
            is_same = is_same if is_read else is_like(found, wanted)
        right += is_same
    total = 2 * right + len(names - set(expected)) + len(checked) - right
    return round(2 * right / total, 4) if total else None


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


Ask: TypeAlias = Callable[..., JsonValue]
"""Asks a judge; raises where nobody can answer."""
_Search: TypeAlias = Mapping[str, Any]

RELEVANCY_OPERATOR: Final = "KnowledgeBaseAnswerRelevancy"


class Answer:
    """One answer of a knowledge base in a conversation, with the data of its search."""

    def __init__(
        self, at: int, messages: Sequence[JourneyMessage], searches: Sequence[_Search]
    ) -> None:
        self.call_id = messages[at].search_call_id or ""
        before = messages[:at]
        users = [m for m in before if m.role == "user"]
        self.question = users[-1].text if users else ""
        self.history = [f"{m.role}: {m.text}" for m in before if m.role == "user" or m.type == TEXT]
        found = next((s for s in searches if _id(s) == self.call_id), None)
        content = messages[at].content
        self.text = content if isinstance(content, str) else ""
        self.documents: list[Mapping[str, Any]] = []
        self.retrieval_confidence: Measure = None
        if found is not None:
            self.text = str(found.get("text") or "")
            self.documents = [*(found.get("search_results") or ())]
            scores = cast("Mapping[str, Any]", found.get("confidence_scores") or {})
            self.retrieval_confidence = scores.get("retrieval_confidence")


def _id(search: _Search) -> str:
    return str(cast("Mapping[str, Any]", search.get("metadata") or {}).get("tool_call_id"))


def answers_of(messages: Sequence[JourneyMessage], searches: Sequence[_Search]) -> list[Answer]:
    """Answers that name the call of their search."""
    return [
        Answer(at, messages, searches)
        for at, message in enumerate(messages)
        if message.type == SEARCH and message.search_call_id
    ]


def retrieval(answers: Sequence[Answer]) -> Iterator[tuple[str, Measure]]:
    """Give the retrieval confidence of each search: the mean over its documents, and its own."""
    for at, answer in enumerate(answers):
        results = [cast("Mapping[str, Any]", d.get("result_metadata") or {})
                   for d in answer.documents]  # fmt: skip
        scores = [result["score"] for result in results if result.get("score") is not None]
        if scores:
            yield f"avg_doc_retrieval_confidence_{at}", sum(scores) / len(scores)
        if answer.retrieval_confidence is not None:
            yield f"retrieval_confidence_{at}", answer.retrieval_confidence


def faithfulness(answers: Sequence[Answer], ask: Ask) -> Iterator[tuple[str, Measure]]:
    """Score how far documents support each answer, by a judge; 0 where its answer is no JSON."""
    for answer in answers:
        if answer.documents and answer.text:
            bodies = [document.get("body") for document in answer.documents]
            said = ask(FAITHFULNESS, claim=answer.text, documents=bodies)
            found = _lowered(said, under("faithfulness_score"))
            score = found.get("faithfulness_score", 0) if isinstance(found, dict) else 0
            yield f"kb_faithfulness_{answer.call_id}", float(cast("float", score))


def relevancy(answers: Sequence[Answer], ask: Ask) -> Iterator[tuple[str, Measure]]:
    """Share of an answer's statements that a judge finds relevant.

    Raises:
        ZeroDivisionError: The judge named no statement, or answered with no JSON.
    """
    for at, answer in enumerate(answers):
        if answer.documents and answer.text and answer.question:
            said = ask(
                RELEVANCY, question=answer.question, context="\n".join(answer.history),
                answer=answer.text,
            )  # fmt: skip
            found = _lowered(said, lambda value: (value,) if isinstance(value, list) else ())
            statements = found if isinstance(found, list) else []
            yield f"kb_answer_relevancy_{at}", share_of_yes(statements)


def share_of_yes(statements: Sequence[JsonValue]) -> float:
    """Share of the statements whose `relevant` is the text yes, to three places.

    Raises:
        ZeroDivisionError: There is none.
    """
    words = [each.get("relevant") if isinstance(each, dict) else None for each in statements]
    yes = sum(isinstance(word, str) and word.strip().lower() == "yes" for word in words)
    return round(yes / len(statements), 3)


def _lowered(answer: JsonValue, decisive_of: DecisiveOf) -> JsonValue:
    """The answer in lower case, as JSON; None where it is none."""
    try:
        return read_answer(as_text(answer).lower(), decisive_of)
    except NoJsonError:
        return None
