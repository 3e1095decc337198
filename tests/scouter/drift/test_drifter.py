"""The Drifter: records and a profile in, one set of results per record out."""

from pydantic import JsonValue

from scouter.drift.profile import AgentEvalProfile, Drifter
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock import create_simple_trace
from scouter.model.record import EvalRecord

SHORT = AssertionTask("short", "answer", 5, "HasLengthLessThan")
ASKED = LLMJudgeTask(
    id="good", prompt=Prompt(messages="Is ${answer} good?", model="m", provider="openai"),
    expected_value=3, operator="GreaterThanOrEqual", context_path="score",
)  # fmt: skip


def test_one_set_per_record_in_order() -> None:
    profile = AgentEvalProfile([SHORT], alias="a")
    texts = ["no", "certainly", "yes"]
    found = Drifter().compute_drift([EvalRecord({"answer": text}) for text in texts], profile)
    assert [each.passed_tasks for each in found.records] == [1, 0, 1]
    assert [each.total_tasks for each in found.records] == [1, 1, 1]


def test_a_set_is_found_by_the_uid_of_its_record() -> None:
    """As in the original, whatever has no such uid is None, an id too."""
    records = [EvalRecord({"answer": text}, id=text) for text in ("no", "certainly")]
    found = Drifter().compute_drift(records, AgentEvalProfile([SHORT], alias="a"))

    second = found.record(records[1].uid)
    assert second is not None
    assert (second.record_uid, second.passed_tasks) == (records[1].uid, 0)
    assert found.record("no") is None


def test_a_single_record_and_its_spans() -> None:
    spans = create_simple_trace()
    profile = AgentEvalProfile([SHORT], alias="a")
    record = EvalRecord({"answer": "no"}, trace_id=spans[0].trace_id)
    found = Drifter().compute_drift(record, profile, spans)
    assert len(found.records) == 1


def test_judge_tasks_ask_the_judge_or_are_errored() -> None:
    def judge(request: JudgeRequest) -> JsonValue:
        return {"score": 4 if "yes" in str(request.messages) else 1}

    profile = AgentEvalProfile([ASKED], alias="a")
    record = EvalRecord({"answer": "yes"})
    (judged,) = Drifter(judge).compute_drift(record, profile).records
    (unjudged,) = Drifter().compute_drift(record, profile).records
    assert [task.outcome for task in judged.records] == [Outcome.PASSED]
    assert [task.outcome for task in unjudged.records] == [Outcome.ERRORED]
