"""The fuzzy chain: judge, then cosine of embeddings, then ratio of tokens; each link optional."""

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.annotate.embed import Vectors, as_embed, similarity
from scouter.evaluate.journey.asking import ARGUMENT, SEMANTIC, Answers
from scouter.evaluate.journey.message import as_text
from scouter.evaluate.judge.ask import run_to_end
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.operators.equality import identity

EQUAL: Final = "equal"
JUDGE: Final = "judge"
EMBEDDING: Final = "embedding"
TOKEN_RATIO: Final = "token_ratio"  # noqa: S105 a link's name
LINKS: Final = (EQUAL, JUDGE, EMBEDDING, TOKEN_RATIO)


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """Answer of the fuzzy chain to whether two values mean the same, and the link that gave it."""

    matched: bool
    link: str = ""
    """Empty where nothing was compared."""
    similarity: float | None = None
    """Similarity of the values, in [0, 1]; None where the link measures none."""


async def _awaited(answer: Awaitable[Vectors]) -> Vectors:
    return await answer


class FuzzyChain:
    """Decides whether two values mean the same.

    Equal values do. For others the first link that can decides: a judge; the cosine of embeddings;
    the weighted ratio of tokens. A link that fails is named in `problems`.

    Args:
        judge: Asked first.
        embedder: An `Embedder` or a function; None leaves that link out.
        threshold: Least similarity of the last two links, in [0, 1].
        is_enabled: False: values are the same only if they are equal, and texts only if one says
            the other or a judge says so.
    """

    def __init__(
        self, judge: Answers | None, embedder: object, threshold: float, is_enabled: bool
    ) -> None:
        self._judge = judge
        self._embedder = embedder
        self._threshold = threshold
        self._is_enabled = is_enabled
        self._known: dict[object, Likeness] = {}
        self._vectors: dict[str, list[float]] = {}
        self._problems: dict[str, None] = {}
        self._links: set[str] = set()

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons why links could not decide, each once."""
        return tuple(self._problems)

    @property
    def links(self) -> tuple[str, ...]:
        """Links that decided something, in their order."""
        return tuple(link for link in LINKS if link in self._links)

    def argument(
        self, expected: JsonValue, actual: JsonValue, *, tool: str, argument: str
    ) -> Likeness:
        """Compare two values of one argument."""
        if identity(expected) == identity(actual):
            return self._by(Likeness(matched=True, link=EQUAL, similarity=1.0))
        if not self._is_enabled:
            return Likeness(matched=False)
        key = (tool, argument, identity(expected), identity(actual))
        if key not in self._known:
            data = {"expected": expected, "actual": actual, "tool": tool, "argument": argument}
            self._known[key] = self._chain(ARGUMENT, data)
        return self._by(self._known[key])

    def text(self, expected: str, actual: str, *, question: str) -> Likeness:
        """Compare what an agent says with what it should say."""
        if fold(expected) in fold(actual):
            return self._by(Likeness(matched=True, link=EQUAL, similarity=1.0))
        key = (expected, actual)
        if key not in self._known:
            data = {"expected": expected, "actual": actual, "question": question}
            self._known[key] = self._chain(SEMANTIC, data)
        return self._by(self._known[key])

    def _by(self, found: Likeness) -> Likeness:
        if found.link:
            self._links.add(found.link)
        return found

    def _chain(self, question: str, data: Mapping[str, JsonValue]) -> Likeness:
        if self._judge is not None:
            try:
                matched, _ = self._judge.verdict(question, **data)
            except JudgeError as error:
                self._problems[f"judge: {error}"] = None
            else:
                return Likeness(matched=matched, link=JUDGE)
        if not self._is_enabled:
            return Likeness(matched=False)
        left, right = as_text(data["actual"]), as_text(data["expected"])
        link, found = EMBEDDING, self._cosine(left, right)
        if found is None:
            link, found = TOKEN_RATIO, token_ratio(left, right)
        return Likeness(matched=found >= self._threshold, link=link, similarity=found)

    def _cosine(self, left: str, right: str) -> float | None:
        """The cosine, not below 0; None where it cannot be had."""
        if self._embedder is None or not left.strip() or not right.strip():
            return None
        try:
            missing = [text for text in (left, right) if text not in self._vectors]
            if missing:
                self._vectors.update(zip(missing, embed(self._embedder, missing), strict=True))
            found = similarity(self._vectors[left], self._vectors[right])
        except Exception as error:  # noqa: BLE001 - a provider's own code
            self._problems[f"embedding: {type(error).__name__}: {error}"] = None
            return None
        if found is None:
            self._problems["embedding: a vector of zeros has no direction"] = None
            return None
        return max(0.0, found)


def embed(embedder: object, texts: list[str]) -> list[list[float]]:
    """Ask an embedder, sync or async.

    Raises:
        ConfigError: It is no embedder.
        ValueError: It gave another number of vectors.
    """
    answer = as_embed(embedder)(texts)
    vectors = run_to_end(lambda: _awaited(answer)) if isinstance(answer, Awaitable) else answer
    found = [[float(value) for value in row] for row in vectors]
    if len(found) != len(texts):
        raise ValueError(f"the embedder gave {len(found)} vectors for {len(texts)} texts")
    return found


def token_ratio(left: str, right: str) -> float:
    """The weighted ratio of two texts' tokens, in [0, 1].

    Source: WRatio of fuzzywuzzy and rapidfuzz, divided by 100.
    """
    from rapidfuzz import fuzz, utils  # loads where values are compared

    return fuzz.WRatio(left, right, processor=utils.default_process) / 100


def fold(text: str) -> str:
    """A text without regard to case and to the number of blanks."""
    return " ".join(text.casefold().split())
