"""A judge whose mistakes are known, as ground truth for whatever measures judges."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from pydantic import JsonValue

from scouter.mock.llm_protocols import LLMRequest

Word: TypeAlias = Literal["pass", "fail", "first", "second", "abstain"]
_OTHER: Final[dict[Word, Word]] = {
    "pass": "fail", "fail": "pass", "first": "second", "second": "first", "abstain": "abstain"
}  # fmt: skip
_LENGTH_UNIT: Final = 1000


def _as_object(word: Word) -> JsonValue:
    return {"verdict": word}


def _length(request: LLMRequest) -> int:
    return len(request.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyJudge:
    """Answers with known error rates; a reply function for `LLMTestServer`.

    Every draw comes from a digest of the seed and the question's texts: the same question gets
    the same verdict, in any order, process and protocol, and nothing random is shared.

    Args:
        truth: From a question to the right verdict: `pass` or `fail`, or for two answers to compare
            `first` or `second`.
        sensitivity: P(says pass | pass is right); for a comparison P(says first | first is right).
        specificity: P(says fail | fail is right); for a comparison P(says second | second is).
        position_bias: With this probability a comparison is answered `first` without looking.
        length_bias: Amount that is added to the log odds of `pass` for every 1,000 characters
            beyond `usual_length` (taken away below it); 0 keeps the rates above exact.
        usual_length: Characters of a question of usual length.
        length: Counts the characters of the text that is judged; the whole question if not given.
        abstention_rate: P(says abstain), for either right verdict.
        inconsistency: P(a verdict is turned around) for each time that a question comes again.
        say: From the verdict to the answer in the form that was requested.
        seed: Another one makes other mistakes at the same rates.

    Raises:
        ValueError: A probability outside of [0, 1].
    """

    truth: Callable[[LLMRequest], Word]
    sensitivity: float = 0.9
    specificity: float = 0.8
    position_bias: float = 0.0
    length_bias: float = 0.0
    usual_length: int = _LENGTH_UNIT
    length: Callable[[LLMRequest], int] = _length
    abstention_rate: float = 0.0
    inconsistency: float = 0.0
    say: Callable[[Word], JsonValue] = _as_object
    seed: int = 0
    _calls: Counter[bytes] = field(default_factory=Counter[bytes], init=False, repr=False)

    def __post_init__(self) -> None:
        for name in (
            "sensitivity", "specificity", "position_bias", "abstention_rate", "inconsistency"
        ):  # fmt: skip
            value: float = getattr(self, name)
            if not 0 <= value <= 1:
                raise ValueError(f"{name}: expected a probability from 0 to 1, got {value!r}")

    def __call__(self, request: LLMRequest) -> JsonValue:
        """Answer a question."""
        return self.say(self.verdict(request))

    def verdict(self, request: LLMRequest) -> Word:
        """The verdict on a question; counts how often it came."""
        texts = "\x00".join(f"{each['role']}\x01{each['content']}" for each in request.messages)
        digest = hashlib.sha256(f"{self.seed}\x02{texts}".encode("utf-8", "surrogatepass")).digest()
        times = self._calls[digest]
        self._calls[digest] += 1
        if _draw(digest, "abstain") < self.abstention_rate:
            return "abstain"
        word = self._first(request, digest)
        # Every repetition is drawn for itself, against the first verdict.
        is_turned = times > 0 and _draw(digest, f"again {times}") < self.inconsistency
        return _OTHER[word] if is_turned else word

    def _first(self, request: LLMRequest, digest: bytes) -> Word:
        right = self.truth(request)
        if right in {"first", "second"}:
            if _draw(digest, "position") < self.position_bias:
                return "first"
            rate = self.sensitivity if right == "first" else self.specificity
            return right if _draw(digest, "verdict") < rate else _OTHER[right]
        passing = self.sensitivity if right == "pass" else 1 - self.specificity
        if self.length_bias:
            excess = (self.length(request) - self.usual_length) / _LENGTH_UNIT
            passing = _shifted(passing, self.length_bias * excess)
        return "pass" if _draw(digest, "verdict") < passing else "fail"


def _draw(digest: bytes, what: str) -> float:
    """A number in [0, 1), uniform over digests, that is its own for each use."""
    drawn = hashlib.blake2b(what.encode(), key=digest, digest_size=8).digest()
    return (int.from_bytes(drawn, "big") >> 11) / 2**53  # 53 bits, so that it stays below 1


def _shifted(probability: float, log_odds: float) -> float:
    """Move a probability along the logistic curve."""
    if probability in (0.0, 1.0):
        return probability
    return 1 / (1 + math.exp(-(math.log(probability / (1 - probability)) + log_odds)))
