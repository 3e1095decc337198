"""Routes of judges."""

from pydantic import JsonValue

from scouter.client.call import Call, get, put
from scouter.client.models.judges import GoldJudges, JudgeAnswer, KeptJudgeAnswer


def gold_judges() -> Call[GoldJudges]:
    """Read the agreement of judges with people on the collector's gold items.

    Gold items are in no other answer of the collector.
    """
    return get("/judges/gold", GoldJudges)


def judge_answer(key: str) -> Call[JudgeAnswer]:
    """Read the answer to a question that the collector's judges, or other clients, have asked.

    Args:
        key: The question's SHA-256 as hex digits; see `scouter.agent.cache.keys`.
    """
    return get("/judge-answers/{key}", JudgeAnswer, at={"key": key})


def keep_judge_answer(key: str, response: str, model: str = "") -> Call[KeptJudgeAnswer]:
    """Keep an answer for other clients of the same space. Needs the scope profile.

    Args:
        key: The question's SHA-256 as hex digits.
        response: The answer, written as JSON.
        model: The model that answered.
    """
    body: dict[str, JsonValue] = {"response": response, "model": model}
    return put("/judge-answers/{key}", KeptJudgeAnswer, at={"key": key}, body=body)
