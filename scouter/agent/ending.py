"""The ending of a model's answer: whole, declined or cut short."""

from typing import TYPE_CHECKING

from scouter.agent.reading import NoAnswerError
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.outcome import Reason

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse


def check_answer(response: "ModelResponse") -> None:
    """Refuse a response without an answer, for whose absence it gives no reason.

    Raises:
        NoAnswerError: It holds nothing, and no word on how it ended.
    """
    if not response.parts and response.finish_reason is None:
        raise NoAnswerError("it holds no answer")


def check_ending(response: "ModelResponse") -> None:
    """Refuse an answer that was declined, or is not complete.

    Raises:
        JudgeError: Says how it ended, in the vendor's words where there are any.
    """
    details = response.provider_details or {}
    match response.finish_reason:
        case "content_filter":
            said = details.get("refusal") or details.get("block_reason")
            said = said or details.get("finish_reason") or "content filter"
            raise JudgeError(Reason.REFUSAL, f"the model declined to answer: {said}")
        case "length":
            raise JudgeError(
                Reason.PARSE, "the model's answer is truncated: it ran out of tokens (max_tokens)"
            )
        case "error":
            said = details.get("finish_reason") or "error"
            raise JudgeError(Reason.PARSE, f"the model's answer ended with an error: {said}")
        case _:
            return
