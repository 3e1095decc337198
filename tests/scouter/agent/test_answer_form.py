"""What comes back is read as the JSON that it is, or not at all."""

import pytest

from scouter.agent.entries import Kind, StructuredOutput
from scouter.agent.model_judge import ModelJudge
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.prompt import Prompt, Score
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_server import LLMTestServer
from scouter.model.record import EvalRecord
from tests.scouter.agent.providers import ENVIRON, MODELS, entry


@pytest.mark.parametrize(
    ("kind", "structured"),
    [
        ("openai", "schema"),
        ("openai", "tool"),
        ("openai", "text"),
        ("anthropic", "schema"),
        ("anthropic", "text"),
        ("google", "schema"),
        ("google", "text"),
    ],
)
@pytest.mark.parametrize(
    "answer",
    [
        '{"score": 1, "score": 5, "reason": "r"}',
        '{"reason": "r", "score": 5, "sc\\u006fre": 5}',
        f'{{"reason": "{"r" * 500}", "score": 1, "score": 5}}',
    ],
)
def test_a_key_twice_is_no_answer(kind: Kind, structured: StructuredOutput, answer: str) -> None:
    """Whether 1 or 5 is meant nobody knows; it is said that this is what is wrong."""
    prompt = Prompt("Rate ${answer}.", MODELS[kind], f"our-{kind}", output_type=Score)
    task = LLMJudgeTask("q", prompt, 3, "score", "GreaterThan")
    with LLMTestServer(answer) as server:
        judge = ModelJudge([entry(kind, server, structured_output=structured)], environ=ENVIRON)
        found = EvalDataset([EvalRecord({"answer": "x"})], [task]).evaluate(judge=judge)
    result = found.records[0].tasks[0]
    assert (result.outcome, result.reason, result.actual) == (Outcome.ERRORED, Reason.PARSE, None)
    assert "twice in one object" in result.message
    assert "key 'score'" in result.message.replace('"score"', "'score'")
