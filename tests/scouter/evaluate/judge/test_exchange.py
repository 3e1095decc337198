"""The parts of a judge's question and answer that a result keeps."""

from pydantic import JsonValue

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.judge.shorten import JudgeExchange
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.model.record import EvalRecord
from scouter.testing import ScriptedJudge

TONE = LLMJudgeTask(
    "tone", Prompt("Rate ${answer}.", "m", "openai", output_type=Score), 3, "score",
    Op.GreaterThanOrEqual,
)  # fmt: skip


def evaluated(answer: JsonValue, said: str = "No.") -> EvalResults:
    field = AssertionTask("field", "answer", said, Op.Equals)
    records = [EvalRecord({"answer": said})]
    return EvalDataset(records, [TONE, field]).evaluate(judge=ScriptedJudge([answer]))


def test_question_and_answer_are_stored() -> None:
    """Also in a file, and in a result that was read through its record; no other task has any."""
    good: JsonValue = {"score": 4, "reason": "kind"}
    results = evaluated(good)
    for found in (results, EvalResults.model_validate_json(results.model_dump_json())):
        tone, field = found.records[0].tasks
        assert tone.exchange is not None
        *_, user = tone.exchange.messages
        assert user["role"] == "user"
        assert "No." in user["content"]
        assert tone.exchange.answer == good
        assert tone.seen_in("u", None).exchange == tone.exchange
        assert field.exchange is None
        assert "judge" not in field.to_json()


def test_an_answer_of_no_use_is_none() -> None:
    """The task says what is wrong with it; the question is there."""
    tone = evaluated({"score": "many"}).records[0].tasks[0]
    assert tone.outcome is Outcome.ERRORED
    assert tone.exchange is not None
    assert tone.exchange.messages
    assert tone.exchange.answer is None


def test_long_messages_are_cut() -> None:
    """Both ends stay, and the middle says how much is gone."""
    exchange = JudgeExchange.of([{"role": "user", "content": "a" * 9_000 + "b" * 9_000}], None)
    (stored,) = (message["content"] for message in exchange.messages)
    assert stored.startswith("a" * 4_000)
    assert stored.endswith("b" * 4_000)
    assert len(stored) < 8_200
    assert "10" in stored[4_000:-4_000]
