"""Measures of answers from knowledge bases, as version 1.6.9 of the original takes them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.evaluate.journey.asking import FAITHFULNESS, RELEVANCY
from scouter.evaluate.journey.message import SEARCH, TEXT, JourneyMessage, as_text
from scouter.evaluate.journey.result import Measure
from scouter.evaluate.judge.answer_text import DecisiveOf, NoJsonError, read_answer, under

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
