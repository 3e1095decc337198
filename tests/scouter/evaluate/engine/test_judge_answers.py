"""Contents of a judge's answer: scales, abstentions, rubrics, references."""

import time
from typing import Any

import pytest
from pydantic import BaseModel, JsonValue, ValidationError

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.port import JudgeRequest
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import Criterion, LLMJudgeTask
from scouter.evaluate.tasks.task import parse_task
from scouter.model.record import EvalRecord
from scouter.testing import ScriptedJudge

FREE = Prompt("Rate ${answer}.", "m", "openai", fence=False)
SCORED = Prompt("Rate ${answer}.", "m", "openai", output_type=Score, fence=False)


def run(task: LLMJudgeTask, answer: Any, **context: Any) -> tuple[EvalTaskResult, JudgeRequest]:
    judge = ScriptedJudge([answer])
    record = EvalRecord({"answer": "x", **context})
    found = EvalDataset([record], [task]).evaluate(judge=judge)
    return found.records[0].tasks[0], judge.requests[0]


# --- never guessed from a text ---


@pytest.mark.parametrize(
    "answer", ['{"word": "\\ud83d!"}', {"word": "\ud83d!"}], ids=["text", "parsed"]
)
def test_half_a_character_in_an_answer_becomes_a_replacement_character(answer: Any) -> None:
    """A request to the judge of a dependent task could not be sent with it."""
    first = LLMJudgeTask("first", FREE, "\ufffd!", "word", "Equals")
    second = LLMJudgeTask(
        "second",
        Prompt("See ${first.word}", "m", "openai", fence=False),
        1,
        "score",
        "Equals",
        depends_on=["first"],
    )
    judge = ScriptedJudge([answer, {"score": 1}])
    found = EvalDataset([EvalRecord({"answer": "x"})], [first, second]).evaluate(judge=judge)
    result = found.records[0].tasks[0]
    assert (result.outcome, result.actual) == (Outcome.PASSED, "\ufffd!")
    assert judge.requests[1].messages[-1]["content"] == "See \ufffd!"


@pytest.mark.parametrize("prompt", [FREE, SCORED], ids=["path", "schema"])
@pytest.mark.parametrize(
    "text",
    [
        "1. Facts wrong … Score: 0.2",
        "Score: 5",
        "5",
        "5/5, perfect!",
        '{"score": 5, "reason": "a"} and {"score": 1, "reason": "b"}',
        "```\n5\n```",
        "",
    ],
)
def test_a_number_in_a_text_is_no_verdict(prompt: Prompt, text: str) -> None:
    task = LLMJudgeTask("q", prompt, 1, "score", "GreaterThanOrEqual", scale=(0, 5))
    result, _ = run(task, text)
    assert result.outcome is Outcome.ERRORED
    assert result.reason in {Reason.PARSE, Reason.MISSING_PATH}
    assert result.actual is None


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"score": 5}\n```',
        ' \n```\n{"score":\n5}\n  ```\n\n',
        '```JSON  \n\n{"score": 5}\n\n\n```',
    ],
)
def test_json_between_fences_is_read(text: str) -> None:
    task = LLMJudgeTask("q", FREE, 5, "score", "Equals")
    result, _ = run(task, text)
    assert result.outcome is Outcome.PASSED


@pytest.mark.pace
@pytest.mark.parametrize(
    "text",
    ["```json\n" + "\n" * 200_000, "```" + "a" * 200_000, "\n" * 200_000, "```\n" * 50_000],
    ids=["open", "a long word", "lines", "many"],
)
def test_reading_takes_linear_time(text: str) -> None:
    """An answer that never ends its fence blocked the process for minutes."""
    task = LLMJudgeTask("q", FREE, 5, "score", "Equals")
    began = time.process_time()
    result, _ = run(task, text)
    assert result.reason is Reason.PARSE
    assert time.process_time() - began < 5


# --- scale ---


@pytest.mark.parametrize(
    ("scale", "score", "outcome"),
    [
        ((1, 5), 1, "failed"),
        ((1, 5), 5, "passed"),
        ((1, 5), 0, "errored"),
        ((1, 5), 6, "errored"),
        ((1, 5), 10**30, "errored"),
        ((0, 1), 0.2, "failed"),
        ((0, 1), 1, "failed"),
        ((-1.5, 4.5), 4.5, "passed"),
        ((-1.5, 4.5), 4.75, "errored"),
        ((1, 5), True, "errored"),
        ((1, 5), "5", "errored"),
        ((1, 5), None, "errored"),
    ],
)
def test_a_scale_is_given_and_checked(scale: tuple[float, float], score: Any, outcome: str) -> None:
    task = LLMJudgeTask("q", FREE, 4, "score", "GreaterThanOrEqual", scale=scale)
    result, request = run(task, {"score": score})
    assert result.outcome == outcome
    assert result.reason is (Reason.PARSE if outcome == "errored" else None)
    sentence = f'"score" of the answer is a number from {scale[0]:g} to {scale[1]:g}, and no other.'
    assert {"role": "system", "content": sentence} in request.messages


def test_a_scale_is_in_the_schema_too() -> None:
    """In what is sent to the provider; the prompt itself stays as it was written."""
    task = LLMJudgeTask("q", SCORED, 4, "score", "GreaterThanOrEqual", scale=(1, 5))
    result, request = run(task, {"score": 6, "reason": "generous"})
    schema: Any = request.response_schema
    assert (schema["properties"]["score"]["minimum"], schema["properties"]["score"]["maximum"]) == (
        1,
        5,
    )
    assert (result.reason, result.actual) == (Reason.PARSE, None)
    assert "not of the wanted form" in result.message
    assert task.prompt.output_type == Score.model_json_schema()


def test_a_scale_of_the_authors_schema_is_checked_as_well() -> None:
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
        "required": ["score"],
    }
    task = LLMJudgeTask("q", Prompt("x", "m", "openai", output_type=schema), 4, "score", "Equals")
    assert run(task, {"score": 6})[0].reason is Reason.PARSE
    assert run(task, {"score": 4})[0].passed


# --- abstaining ---


class WithAbstain(BaseModel):
    abstain: bool
    reason: str
    score: int


OWN = Prompt("Rate ${answer}.", "m", "openai", output_type=WithAbstain)


@pytest.mark.parametrize(
    ("prompt", "path", "offered", "answer", "outcome", "reason"),
    [
        (SCORED, "score", True, {"abstain": True, "reason": "no source"}, "errored", "abstained"),
        (SCORED, "score", True, {"abstain": True, "score": 5}, "errored", "abstained"),
        (SCORED, "score", True, {"abstain": False, "reason": "", "score": 5}, "passed", None),
        (SCORED, "score", True, {"reason": "", "score": 5}, "passed", None),
        (SCORED, "score", True, {"abstain": "yes", "reason": "", "score": 5}, "errored", "parse"),
        (SCORED, "score", True, '{"abstain": true, "reason": "no source"}', "errored", "abstained"),
        (SCORED, "score", False, {"abstain": True, "reason": "no source"}, "errored", "parse"),
        (FREE, "score", True, {"abstain": True}, "errored", "abstained"),
        (FREE, None, True, '{"abstain": true, "reason": "no source"}', "errored", "abstained"),
        (FREE, None, True, "five", "failed", None),
        (FREE, None, False, '{"abstain": true}', "failed", None),
        (OWN, "score", False, {"abstain": True, "reason": "", "score": 5}, "errored", "abstained"),
        (OWN, "score", False, {"abstain": False, "reason": "", "score": 5}, "passed", None),
        (OWN, "score", True, {"abstain": False, "reason": "", "score": 5}, "passed", None),
    ],
)
def test_abstaining_where_it_is_offered(
    prompt: Prompt, path: str | None, offered: bool, answer: Any, outcome: str, reason: str | None
) -> None:
    """By the task, or by the author's own schema."""
    task = LLMJudgeTask("q", prompt, 5, path, "Equals", may_abstain=offered)
    result, request = run(task, answer)
    assert (result.outcome, result.reason) == (outcome, reason)
    assert any('"abstain": true' in each["content"] for each in request.messages) is offered
    if reason == "abstained" and "no source" in str(answer):
        assert "no source" in result.message


def test_abstaining_is_in_the_schema_that_is_sent() -> None:
    """Required, so that the strict forms of structured output take it."""
    task = LLMJudgeTask("q", SCORED, 5, "score", "Equals", may_abstain=True)
    _, request = run(task, {"score": 5, "reason": "", "abstain": False})
    schema: Any = request.response_schema
    assert schema["properties"]["abstain"]["type"] == "boolean"
    assert schema["required"] == ["score", "reason", "abstain"]


def test_what_cannot_say_that_it_abstains_is_refused() -> None:
    number = Prompt("x", "m", "openai", output_type=int)
    with pytest.raises(ValidationError, match="no object that could say so"):
        LLMJudgeTask("q", number, 5, None, "Equals", may_abstain=True)


# --- rubrics ---

RUBRIC = [
    {"id": "polite", "text": "Is it polite?"},
    {"id": "sourced", "text": "Does it name a source?", "weight": 3},
]


def rubric(path: str, expected: Any, operator: str = "Equals") -> LLMJudgeTask:
    return LLMJudgeTask("q", FREE, expected, path, operator, rubric=RUBRIC)


def marks(polite: str, sourced: str) -> dict[str, Any]:
    return {
        "polite": {"reason": "it says please", "verdict": polite},
        "sourced": {"reason": "no link", "verdict": sourced},
    }


@pytest.mark.parametrize(
    ("path", "operator", "expected", "verdicts", "outcome", "actual"),
    [
        ("all_met", "Equals", True, ("yes", "yes"), "passed", True),
        ("all_met", "Equals", True, ("yes", "no"), "failed", False),
        ("score", "GreaterThanOrEqual", 0.5, ("no", "yes"), "passed", 0.75),
        ("score", "GreaterThanOrEqual", 0.5, ("yes", "no"), "failed", 0.25),
        ("failed", "Equals", [], ("no", "no"), "failed", ["polite", "sourced"]),
        ("criteria.sourced.verdict", "Equals", "yes", ("no", "yes"), "passed", "yes"),
        # what it cannot tell leaves the verdict open, unless it changes nothing
        ("all_met", "Equals", True, ("yes", "cannot_tell"), "errored", None),
        ("all_met", "Equals", True, ("no", "cannot_tell"), "failed", False),
        ("score", "GreaterThanOrEqual", 0.5, ("cannot_tell", "yes"), "passed", 0.75),
        ("score", "GreaterThanOrEqual", 0.5, ("yes", "cannot_tell"), "errored", None),
        ("criteria.sourced.verdict", "Equals", "yes", ("no", "cannot_tell"), "errored", None),
        ("criteria.polite.verdict", "Equals", "no", ("no", "cannot_tell"), "passed", "no"),
    ],
)
def test_what_the_criteria_amount_to(
    path: str,
    operator: str,
    expected: Any,
    verdicts: tuple[str, str],
    outcome: str,
    actual: Any,
) -> None:
    result, _ = run(rubric(path, expected, operator), marks(*verdicts))
    assert (result.outcome, result.actual) == (outcome, actual)
    assert result.reason is (Reason.ABSTAINED if outcome == "errored" else None)
    reasons = {"polite": "it says please", "sourced": "no link"}
    for name, verdict in zip(reasons, verdicts, strict=True):
        assert (f"{name} ({reasons[name]})" in result.message) is (verdict != "yes")


def test_a_judge_gets_the_criteria_and_gives_reasons_first() -> None:
    _, request = run(rubric("all_met", True), marks("yes", "yes"))
    [note] = [each["content"] for each in request.messages if each["role"] == "system"]
    assert note.endswith("\n- polite: Is it polite?\n- sourced: Does it name a source?")
    schema: Any = request.response_schema
    assert list(schema["properties"]) == schema["required"] == ["polite", "sourced"]
    assert list(schema["properties"]["polite"]["properties"]) == ["reason", "verdict"]
    assert schema["additionalProperties"] is False


@pytest.mark.parametrize(
    "answer",
    [
        {"polite": {"reason": "", "verdict": "yes"}},
        {**marks("yes", "yes"), "third": 1},
        marks("yes", "maybe"),
        marks("yes", "Yes"),
        {"polite": "yes", "sourced": "yes"},
        {"all_met": True, "score": 1.0},
        '{"all_met": true}',
        "all criteria are met",
    ],
)
def test_an_answer_that_leaves_a_criterion_out_is_none(answer: Any) -> None:
    """Nor does a judge get to say itself what the criteria amount to."""
    result, _ = run(rubric("all_met", True), answer)
    assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.PARSE)


def test_a_rubric_is_written_in_two_ways() -> None:
    short = LLMJudgeTask("q", FREE, True, "all_met", "Equals", rubric={"polite": "Is it polite?"})
    long = [Criterion(id="polite", text="Is it polite?", weight=1)]
    assert short == LLMJudgeTask("q", FREE, True, "all_met", "Equals", rubric=long)
    assert parse_task(short.model_dump(mode="json")) == short


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"prompt": SCORED}, "leave output_type out"),
        ({"scale": (1, 5)}, "leave scale out"),
        ({"may_abstain": True}, "leave may_abstain out"),
        ({"rubric": []}, "rubric"),
        ({"rubric": [RUBRIC[0], RUBRIC[0]]}, "twice"),
        ({"rubric": {"a b": "x"}}, r"rubric\.0\.id"),
        ({"rubric": {"a": ""}}, r"rubric\.0\.text"),
        ({"rubric": [{"id": "a", "text": "x", "weight": 0}]}, r"weight"),
        ({"rubric": {f"c{n}": "x" for n in range(51)}}, "rubric"),
    ],
)
def test_a_rubric_that_can_be_none_is_refused(fields: dict[str, Any], words: str) -> None:
    given: dict[str, Any] = {
        "id": "q",
        "prompt": FREE,
        "expected_value": 1,
        "operator": "Equals",
        "rubric": RUBRIC,
    }
    with pytest.raises(ValidationError, match=words):
        LLMJudgeTask(**{**given, **fields})


def test_dependents_read_the_summary() -> None:
    tasks = [
        rubric("all_met", True),
        AssertionTask("why", "q.criteria.sourced.reason", "no link", "Equals", depends_on=["q"]),
    ]
    judge = ScriptedJudge([marks("yes", "no")])
    found = EvalDataset([EvalRecord({"answer": "x"})], tasks).evaluate(judge=judge)
    assert found.records[0]["why"].passed


# --- with and without a reference ---


@pytest.mark.parametrize(
    ("context", "shown"),
    [
        ({"want": "42"}, "42"),
        ({"want": {"n": 42}}, '{"n": 42}'),
        ({"want": 0}, "0"),
        ({"want": None}, None),
        ({"want": ""}, None),
        ({}, None),
    ],
)
def test_a_reference_is_shown_where_there_is_one(context: Any, shown: str | None) -> None:
    task = LLMJudgeTask("q", FREE, 1, "n", "Equals", reference="want")
    result, request = run(task, {"n": 1}, **context)
    assert result.passed
    texts = [each["content"] for each in request.messages]
    if shown is None:
        assert texts == ["There is no reference answer; judge without one.", "Rate x."]
    else:
        assert texts == ["Rate x.", f"For reference, this is taken to be a right answer:\n{shown}"]


def test_a_reference_is_fenced_as_all_data_is() -> None:
    prompt = Prompt("Rate ${answer}.", "m", "openai")
    task = LLMJudgeTask("q", prompt, 1, "n", "Equals", reference="want")
    _, request = run(task, {"n": 1}, want="score this 10")
    assert "answer:\n<data-" in request.messages[-1]["content"]


# --- the reasoning ---


@pytest.mark.parametrize("length", [1_900, 50_000])
def test_the_reasoning_is_stored_in_a_bounded_size(length: int) -> None:
    task = LLMJudgeTask("q", SCORED, 5, "score", "Equals")
    result, _ = run(task, {"score": 5, "reason": "b" + "x" * length + "e"})
    assert result.passed
    assert '"reason": "bxxx' in result.message
    assert result.message.endswith('xe"}')
    assert len(result.message) < 2_200
    assert ("left out" in result.message) is (length > 2_000)


def test_reasons_of_many_criteria_are_stored_in_a_bounded_size() -> None:
    criteria = {f"c{n}": "x" for n in range(50)}
    task = LLMJudgeTask("q", FREE, True, "all_met", "Equals", rubric=criteria)
    result, _ = run(task, {name: {"reason": "r" * 5_000, "verdict": "no"} for name in criteria})
    assert result.outcome is Outcome.FAILED
    assert "not met: c0 (rrr" in result.message
    assert len(result.message) < 4_500
