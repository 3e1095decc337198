"""LLMJudgeTask: how it is written, and what its verdict is for every answer a judge can give."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeRequest, as_judge
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.scenario import EvalScenarios
from scouter.evaluate.tasks.base import EvaluationTaskType
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import TasksFile, parse_task, parse_tasks, tasks_digest
from scouter.model.record import EvalRecord
from scouter.testing import ScriptedJudge

SCORED = Prompt("Rate ${answer}.", "m", "openai", output_type=Score)
FREE = Prompt("Rate ${answer}.", "m", "openai")
TASK = LLMJudgeTask("Quality", SCORED, 3, "score", Op.GreaterThanOrEqual)


def verdict(answer: Any, task: LLMJudgeTask = TASK) -> EvalTaskResult:
    """The result where a judge answers this, or raises it."""
    results = EvalDataset([EvalRecord({"answer": "x"})], [task]).evaluate(
        judge=ScriptedJudge([answer])
    )
    return results.records[0].tasks[0]


# --- how it is written ---


def test_positional_order_of_the_constructor() -> None:
    task = LLMJudgeTask("Q", SCORED, 3, "score", "Equals", "d", ["A"], 5, True)
    assert task == LLMJudgeTask(
        id="q",
        prompt=SCORED,
        expected_value=3,
        context_path="score",
        operator=Op.Equals,
        description="d",
        depends_on=["a"],
        max_retries=5,
        condition=True,
    )
    assert task.task_type == EvaluationTaskType.LLMJudge
    unsaid = LLMJudgeTask("q", SCORED, 3, "s", "Equals", max_retries=None)
    assert TASK.max_retries == unsaid.max_retries == 3


@pytest.mark.parametrize("retries", [-1, 21, "many"])
def test_retries_have_bounds(retries: Any) -> None:
    with pytest.raises(ValidationError, match="max_retries"):
        LLMJudgeTask("q", SCORED, 3, "s", "Equals", max_retries=retries)


def test_the_wire_form_reads_back() -> None:
    wire = TASK.model_dump(mode="json")
    assert wire["task_type"] == "LLMJudge"
    assert wire["prompt"]["provider"] == "openai"
    assert parse_task(wire) == TASK
    flat, bucketed = parse_tasks([wire]), parse_tasks({"judge": [wire], "assertion": []})
    without_type = {key: value for key, value in wire.items() if key != "task_type"}
    assert flat == bucketed == parse_tasks({"judge": [without_type]}) == (TASK,)


def test_the_digest_is_that_of_the_question() -> None:
    other = LLMJudgeTask("Quality", FREE, 3, "score", Op.GreaterThanOrEqual)
    described = LLMJudgeTask("Quality", SCORED, 3, "score", Op.GreaterThanOrEqual, "for people")
    assert tasks_digest([described]) == tasks_digest([TASK]) != tasks_digest([other])


PROMPT = "model: m\nprovider: openai\nmessages: 'Rate ${answer}.'\noutput_type: Score\n"
TASKS = """
tasks:
  - task_type: LLMJudge
    id: Quality
    context_path: score
    operator: GreaterThanOrEqual
    expected_value: 3
    prompt: {path: prompts/quality.yaml}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/quality.yaml").write_text(PROMPT, encoding="utf-8")
    (tmp_path / "tasks.yaml").write_text(TASKS, encoding="utf-8")
    (tmp_path / "profile.yaml").write_text(f"alias: a{TASKS}", encoding="utf-8")
    scenarios = f"scenarios:\n  - initial_query: hi{TASKS.replace(chr(10), chr(10) + '    ')}"
    (tmp_path / "scenarios.yaml").write_text(scenarios, encoding="utf-8")
    return tmp_path


READERS: dict[str, Callable[[Path], Any]] = {
    "tasks.yaml": lambda path: TasksFile.from_path(path).tasks,
    "profile.yaml": lambda path: AgentEvalProfile.from_file(path).tasks,
    "scenarios.yaml": lambda path: EvalScenarios.from_path(path).scenarios[0].tasks,
}


@pytest.mark.parametrize("name", READERS)
def test_a_prompt_may_be_a_file_beside_its_task(folder: Path, name: str) -> None:
    assert READERS[name](folder / name) == (TASK,)


def test_a_prompt_file_that_is_missing_is_named_with_the_task_file(folder: Path) -> None:
    (folder / "prompts/quality.yaml").unlink()
    with pytest.raises(FileFormatError, match=r"tasks.yaml, line 8.*quality\.yaml") as caught:
        TasksFile.from_path(folder / "tasks.yaml")
    assert caught.value.field == "tasks[0].prompt"


def test_a_task_over_the_network_makes_nobody_read_files(folder: Path) -> None:
    wire = {
        **TASK.model_dump(mode="json"),
        "prompt": {"path": str(folder / "prompts/quality.yaml")},
    }
    with pytest.raises(ValidationError, match="only a file of tasks can name"):
        AgentEvalProfile.model_validate({"alias": "a", "tasks": [wire]})


def test_profiles_with_judges_are_saved_and_read(tmp_path: Path) -> None:
    profile = AgentEvalProfile([TASK], alias="a")
    assert profile.has_llm_tasks()
    assert profile.llm_judge_tasks == [TASK]
    again = AgentEvalProfile.from_file(profile.save_to_json(tmp_path / "a.json"))
    assert (again.digest, again.tasks) == (profile.digest, profile.tasks)


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (LLMJudgeTask("q", SCORED, 1, "a b", "Equals"), "'q'.*character 2"),
        (LLMJudgeTask("q", SCORED, "${", "a", "Equals"), "'q'.*without"),
        (LLMJudgeTask("q", SCORED, "(", "a", "Matches"), "'q'"),
        (
            LLMJudgeTask(
                "q", Prompt("x", "m", "openai", output_type={"type": 5}), 1, "a", "Equals"
            ),
            "'q'.*prompt.output_type",
        ),
        (
            LLMJudgeTask(
                "q",
                Prompt("x", "m", "openai", output_type={"$ref": "http://x.example/a"}),
                1,
                "a",
                "Equals",
            ),
            "'q'.*prompt.output_type",
        ),
    ],
)
def test_what_can_never_work_is_refused_with_its_task(task: LLMJudgeTask, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        EvalDataset([], [task])


# --- what an answer means ---


class Verdict(BaseModel):
    score: int
    reason: str


@pytest.mark.parametrize(
    "answer",
    [
        {"score": 4, "reason": "good"},
        Verdict(score=4, reason="good"),
        JudgeReply(response={"score": 4, "reason": "good"}),
        '{"score": 4, "reason": "good"}',
        '\n```json\n{"score": 4, "reason": "good"}\n```\n',
    ],
)
def test_the_forms_of_one_answer(answer: Any) -> None:
    result = verdict(answer)
    assert (result.outcome, result.actual, result.expected) == (Outcome.PASSED, 4, 3)
    assert result.message.endswith('the judge answered {"score": 4, "reason": "good"}')


def test_a_failed_verdict_tells_the_judges_reason() -> None:
    result = verdict({"score": 2, "reason": "misses the point"})
    assert (result.outcome, result.actual) == (Outcome.FAILED, 2)
    assert "is 2, expected GreaterThanOrEqual 3" in result.message
    assert "misses the point" in result.message


@pytest.mark.parametrize(
    ("answer", "reason", "words"),
    [
        ("1. Facts wrong. Score: 5", Reason.PARSE, "is no JSON"),
        ('{"score": NaN, "reason": "a"}', Reason.PARSE, "is no JSON"),
        ("[" * 100_000, Reason.PARSE, "nested too deeply"),
        ('{"score": 1, "score": 5, "reason": "a"}', Reason.PARSE, "the key 'score' stands twice"),
        ('{"score": 5, "score": 5, "reason": "a"}', Reason.PARSE, "the key 'score' stands twice"),
        (
            '```json\n{"score": 5, "reason": {"a": 1, "a": 2}}\n```',
            Reason.PARSE,
            "the key 'a' stands twice",
        ),
        ("5", Reason.PARSE, "not of the wanted form"),
        ({"score": "5", "reason": "a"}, Reason.PARSE, "score"),
        ({"score": 5}, Reason.PARSE, "reason"),
        (None, Reason.PARSE, "not of the wanted form"),
        (object(), Reason.PARSE, "no JSON form"),
        (JudgeError(Reason.REFUSAL, "I cannot help"), Reason.REFUSAL, "I cannot help"),
        (JudgeError(Reason.ABSTAINED, "unsure"), Reason.ABSTAINED, "unsure"),
        (JudgeError(Reason.PROVIDER, "key is wrong", permanent=True), Reason.PROVIDER, "key"),
        (ZeroDivisionError("oops"), Reason.PROVIDER, "ZeroDivisionError: oops"),
    ],
)
def test_an_answer_that_is_none_errs_with_its_reason(
    answer: object, reason: Reason, words: str
) -> None:
    """A verdict is never guessed from a text, and nothing that went wrong passes."""
    result = verdict(answer)
    assert (result.outcome, result.reason, result.actual) == (Outcome.ERRORED, reason, None)
    assert words in result.message


@pytest.mark.parametrize(
    ("task", "answer", "outcome"),
    [
        (LLMJudgeTask("q", FREE, "Positive", None, "Equals"), "Positive", Outcome.PASSED),
        (LLMJudgeTask("q", FREE, "5", None, "Equals"), "5", Outcome.PASSED),
        (LLMJudgeTask("q", FREE, 5, "n", "Equals"), '{"n": 5}', Outcome.PASSED),
        (LLMJudgeTask("q", FREE, 5, "n", "Equals"), "five", Outcome.ERRORED),
        (LLMJudgeTask("q", FREE, 5, "n", "Equals"), {"m": 5}, Outcome.ERRORED),
        (LLMJudgeTask("q", FREE, "${answer}", "same", "Equals"), {"same": "x"}, Outcome.PASSED),
        (
            LLMJudgeTask("q", Prompt("x", "m", "openai", output_type=str), "5", None, "Equals"),
            "5",
            Outcome.PASSED,
        ),
    ],
)
def test_free_answers_paths_and_templates(
    task: LLMJudgeTask, answer: Any, outcome: Outcome
) -> None:
    """A template in the expected value reads the record, not the answer."""
    assert verdict(answer, task).outcome is outcome


def test_a_path_that_is_not_in_the_answer_names_the_keys() -> None:
    result = verdict({"m": 5}, LLMJudgeTask("q", FREE, 5, "n", "Equals"))
    assert result.reason is Reason.MISSING_PATH
    assert "the keys there are 'm'" in result.message


def test_an_engine_without_a_judge_says_how_to_give_one() -> None:
    """Evaluations of records by hand never meet this error, as they ask models."""
    result = evaluate_record(compile_plan([TASK]), EvalRecord({"answer": "x"}), None).tasks[0]
    assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.PROVIDER)
    assert "no judge is configured" in result.message
    assert "judge=" in result.message


def test_a_missing_variable_asks_nothing() -> None:
    judge = ScriptedJudge({})
    results = EvalDataset([EvalRecord({"reply": "x"})], [TASK]).evaluate(judge=judge)
    result = results.records[0].tasks[0]
    assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.MISSING_PATH)
    assert "${answer}" in result.message
    assert "'reply'" in result.message
    assert judge.requests == []


def test_the_question_to_a_judge() -> None:
    judge = ScriptedJudge({"quality": {"score": 3, "reason": ""}})
    prompt = Prompt(
        "Rate ${answer}.", "m", "Anthropic", "Fair.", {"temperature": 0}, Score, fence=False
    )
    task = LLMJudgeTask("Quality", prompt, 3, "score", "Equals")
    record = EvalRecord({"answer": "x"})
    EvalDataset([record], [task]).evaluate(judge=judge)
    assert judge.requests == [
        JudgeRequest(
            task_id="quality",
            messages=(
                {"role": "system", "content": "Fair."},
                {"role": "user", "content": "Rate x."},
            ),
            model="m",
            provider="anthropic",
            settings={"temperature": 0},
            response_schema=Score.model_json_schema(),
            record_uid=record.uid,
        )
    ]


@pytest.mark.parametrize("context", ["a text", ["a text"]])
def test_a_context_that_is_no_object_is_called_context(context: Any) -> None:
    judge = ScriptedJudge({"q": "ok"})
    task = LLMJudgeTask("q", Prompt("${context}", "m", "openai", fence=False), "ok", None, "Equals")
    EvalDataset([EvalRecord(context)], [task]).evaluate(judge=judge)
    shown = "a text" if isinstance(context, str) else '["a text"]'
    assert judge.requests[0].messages[0]["content"] == shown


# --- who can be a judge ---


class AsyncCallable:
    async def __call__(self, request: JudgeRequest) -> str:
        return request.task_id


class PlainAsk:
    def ask(self, request: JudgeRequest) -> str:
        return request.task_id


async def async_function(request: JudgeRequest) -> str:
    return request.task_id


def plain_function(request: JudgeRequest) -> str:
    return request.task_id


def promise(request: JudgeRequest) -> Any:
    return async_function(request)


def whole_reply(request: JudgeRequest) -> JudgeReply:
    return JudgeReply(response=request.task_id)


@pytest.mark.parametrize(
    "judge",
    [
        async_function,
        AsyncCallable(),
        PlainAsk(),
        plain_function,
        promise,
        whole_reply,
        ScriptedJudge(plain_function),
    ],
)
def test_anything_that_answers_is_a_judge(judge: Any) -> None:
    reply = asyncio.run(as_judge(judge).ask(JudgeRequest(task_id="t", messages=())))
    assert reply.response == "t"


@pytest.mark.parametrize("judge", [5, "judge", ScriptedJudge, int])
def test_what_cannot_answer_is_no_judge(judge: Any) -> None:
    with pytest.raises(ConfigError, match="judge: expected"):
        EvalDataset([EvalRecord()], [TASK]).evaluate(judge=judge)


def test_an_object_whose_answer_is_no_reply_is_reported() -> None:
    class Wrong:
        async def ask(self, request: JudgeRequest) -> Any:
            return {"score": 5}

    results = EvalDataset([EvalRecord({"answer": ""})], [TASK]).evaluate(judge=Wrong())
    assert "expected a JudgeReply" in results.records[0].tasks[0].message


@pytest.mark.parametrize(
    ("prompt", "where"),
    [
        ("{model: m, provider: openai, messages: x, tone: kind}", "tasks[0].prompt.tone"),
        ("{model: m, provider: 'no/name', messages: x}", "tasks[0].prompt.provider"),
        ("{model: m, provider: openai, messages: [x, {role: judge, content: y}]}",
         "tasks[0].prompt.messages[1].role"),
        ("{path: 5}", "tasks[0].prompt"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_a_prompt_is_named_in_the_file(
    tmp_path: Path, prompt: str, where: str
) -> None:
    path = tmp_path / "tasks.yaml"
    path.write_text(TASKS.replace("{path: prompts/quality.yaml}", prompt), encoding="utf-8")
    with pytest.raises(FileFormatError) as caught:
        TasksFile.from_path(path)
    assert (caught.value.field, caught.value.line) == (where, 8)
