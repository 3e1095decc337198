"""Many questions for one verdict: samples, both orders of a pair, a part of the records."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.judge_answer import Vote, still_needed
from scouter.evaluate.judge.port import JudgeError, JudgeReply, JudgeRequest, JudgeUsage
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import parse_task, tasks_digest
from scouter.model.record import EvalRecord
from scouter.testing import ScriptedJudge

FREE = Prompt("Rate ${answer}.", "m", "openai")
SCORED = Prompt("Rate ${answer}.", "m", "openai", output_type=Score)
REFUSED = JudgeError(Reason.REFUSAL, "no")
DEAD = JudgeError(Reason.PROVIDER, "wrong key", permanent=True)


def sampled(samples: int, **fields: Any) -> LLMJudgeTask:
    return LLMJudgeTask("q", FREE, 3, "n", "GreaterThanOrEqual", samples=samples, **fields)


def equals(
    task_id: str, path: str, expected: str, needs: Sequence[str] = (), condition: bool = False
) -> AssertionTask:
    return AssertionTask(
        id=task_id,
        context_path=path,
        expected_value=expected,
        operator="Equals",
        depends_on=needs,
        condition=condition,
    )


def run(task: LLMJudgeTask, replies: Any, **context: Any) -> tuple[EvalTaskResult, ScriptedJudge]:
    judge = ScriptedJudge(replies)
    record = EvalRecord({"answer": "x", **context})
    found = EvalDataset([record], [task]).evaluate(judge=judge)
    return found.records[0].tasks[0], judge


def answers(votes: str) -> list[Any]:
    """One reply per letter: passed, failed, refused, dead provider."""
    by_letter = {"p": {"n": 3}, "f": {"n": 2}, "r": REFUSED, "d": DEAD}
    return [by_letter[letter] for letter in votes]


# --- majority ---


@pytest.mark.parametrize(
    ("samples", "votes", "calls", "outcome", "reason"),
    [
        (1, "p", 1, "passed", None),
        (1, "r", 1, "errored", "refusal"),
        (3, "ppp", 2, "passed", None),  # the third is not requested
        (3, "ffp", 2, "failed", None),
        (3, "pfp", 3, "passed", None),
        (3, "pff", 3, "failed", None),
        (5, "pppff", 3, "passed", None),
        (5, "ppffp", 5, "passed", None),
        (5, "pfpfp", 5, "passed", None),
        (2, "pp", 2, "passed", None),
        (2, "pf", 2, "errored", "abstained"),  # a tie
        (4, "ppff", 4, "errored", "abstained"),
        (4, "pppf", 3, "passed", None),
        (3, "prp", 3, "passed", None),  # two of three are a majority all the same
        (3, "pfr", 3, "errored", "refusal"),
        (3, "rr", 2, "errored", "refusal"),  # one more could not make a majority
        (3, "prd", 3, "errored", "refusal"),  # as often, so the first
        (5, "rdd", 3, "errored", "provider"),
    ],
)
def test_a_majority_is_more_than_half_of_all_samples(
    samples: int, votes: str, calls: int, outcome: str, reason: str | None
) -> None:
    """Samples that errored have no vote; asking ends when nothing can change any more."""
    result, judge = run(sampled(samples), answers(votes))
    assert (result.outcome, result.reason) == (outcome, reason)
    assert [request.sample for request in judge.requests] == list(range(calls))
    assert result.usage == JudgeUsage(calls=calls)
    assert len({json.dumps(request.messages) for request in judge.requests}) == 1


@given(st.integers(1, 9), st.text("pfr", min_size=9, max_size=9))
def test_stopping_early_changes_no_verdict(samples: int, votes: str) -> None:
    """Counted over all samples, the verdict is the same."""

    def result_of(letter: str) -> Vote:
        outcome = {"p": "passed", "f": "failed", "r": "errored"}[letter]
        reason = "refusal" if letter == "r" else None
        found = EvalTaskResult.of(task_id="q", task_type="LLMJudge", outcome=outcome, reason=reason)
        return Vote(found, None)

    every = votes[:samples]
    counted = next((o for o in "pf" if every.count(o) * 2 > samples), "r")
    given_votes: list[Vote] = []
    while wanted := still_needed(given_votes, samples):
        given_votes += map(result_of, every[len(given_votes) :][:wanted])
    seen = every[: len(given_votes)]
    assert next((o for o in "pf" if seen.count(o) * 2 > samples), "r") == counted


def test_a_majority_tells_the_votes_and_a_reason() -> None:
    replies = [
        {"score": 4, "reason": "clear"},
        {"score": 1, "reason": "dull"},
        {"score": 5, "reason": "x"},
    ]
    task = LLMJudgeTask("q", SCORED, 3, "score", "GreaterThanOrEqual", samples=3)
    result, _ = run(task, replies)
    assert (result.outcome, result.actual) == (Outcome.PASSED, 4)
    assert result.message.startswith("2 passed, 1 failed of 3 samples; ")
    assert "clear" in result.message


def test_samples_are_requested_at_the_same_time() -> None:
    """As many as would decide; of several tasks, all."""
    judge = ScriptedJudge(lambda request: {"n": 3}, delay_s=0.01)
    tasks = [sampled(5), sampled(3).model_copy(update={"id": "r"})]
    found = EvalDataset([EvalRecord({"answer": "x"})], tasks).evaluate(judge=judge)
    assert found.records[0].outcome is Outcome.PASSED
    assert (judge.most_at_once, len(judge.requests)) == (5, 5)  # three of five, two of three


# --- median ---


@pytest.mark.parametrize(
    ("values", "outcome", "actual"),
    [
        ([1, 5, 3], "passed", 3),
        ([1, 2, 5], "failed", 2),
        ([2, 3, 3, 9], "passed", 3.0),
        ([2, 3, 2, 3], "failed", 2.5),
        ([2.5, 3.5], "passed", 3.0),
    ],
)
def test_the_median_is_compared(values: list[float], outcome: str, actual: float) -> None:
    result, judge = run(sampled(len(values), vote="median"), [{"n": value} for value in values])
    assert (result.outcome, result.actual) == (outcome, actual)
    assert len(judge.requests) == len(values)
    assert f"the median of {', '.join(map(str, values))}" in result.message


@pytest.mark.parametrize(
    ("replies", "outcome", "reason"),
    [
        ([{"n": 3}, REFUSED, {"n": 4}], "passed", None),
        ([{"n": 3}, REFUSED, REFUSED], "errored", "refusal"),
        ([{"n": "3"}, {"n": 3}, {"n": 3}], "passed", None),  # no number is no value
        ([{"n": True}, {"n": True}, {"n": 3}], "errored", "type"),
    ],
)
def test_a_median_needs_a_majority_of_numbers(
    replies: list[Any], outcome: str, reason: str | None
) -> None:
    result, _ = run(sampled(3, vote="median"), replies)
    assert (result.outcome, result.reason) == (outcome, reason)


def test_dependents_read_the_answer_nearest_to_the_median() -> None:
    tasks = [
        sampled(3, vote="median"),
        equals("after", "q.why", "near", ["q"]),
    ]
    replies: list[JsonValue] = [
        {"n": 9, "why": "far"},
        {"n": 4, "why": "near"},
        {"n": 1, "why": "low"},
    ]
    found = EvalDataset([EvalRecord({"answer": "x"})], tasks).evaluate(judge=ScriptedJudge(replies))
    assert found.records[0]["after"].passed


# --- both orders of a pair ---

PAIR = Prompt("First: ${mine}\nSecond: ${theirs}", "m", "openai", fence=False)


def paired(tie: str | None = None, expected: str = "A", **fields: Any) -> LLMJudgeTask:
    swap = {"first": "mine", "second": "theirs", "tie": tie}
    return LLMJudgeTask("q", PAIR, expected, "best", "Equals", swap=swap, **fields)


def compared(task: LLMJudgeTask, choose: Callable[[str, str], JsonValue]) -> EvalTaskResult:
    """The result where a judge chooses by what stands first and what second."""

    def judge(request: JudgeRequest) -> JsonValue:
        first, second = request.messages[-1]["content"].removeprefix("First: ").split("\nSecond: ")
        return {"best": choose(first, second)}

    record = EvalRecord({"mine": "good", "theirs": "bad"})
    found = EvalDataset([record], [task]).evaluate(judge=judge)
    return found.records[0].tasks[0]


CHOICES: Mapping[str, Callable[[str, str], JsonValue]] = {
    "by content": lambda first, _: "A" if first == "good" else "B",
    "by content, wrongly": lambda first, _: "A" if first == "bad" else "B",
    "the first": lambda _, __: "A",
    "the second": lambda _, __: "B",
    "neither": lambda _, __: "tie",
    "neither, or the first": lambda first, _: "A" if first == "good" else "tie",
    "in small letters": lambda _, __: "a",
    "a number": lambda _, __: 1,
}


@pytest.mark.parametrize(
    ("tie", "choice", "outcome", "actual", "reason"),
    [
        (None, "by content", "passed", "A", None),
        (None, "by content, wrongly", "failed", "B", None),
        (None, "the first", "errored", None, "abstained"),
        (None, "the second", "errored", None, "abstained"),
        (None, "neither", "errored", None, "parse"),
        ("tie", "by content", "passed", "A", None),
        ("tie", "by content, wrongly", "failed", "B", None),
        ("tie", "the first", "failed", "tie", None),
        ("tie", "the second", "failed", "tie", None),
        ("tie", "neither", "failed", "tie", None),
        ("tie", "neither, or the first", "failed", "tie", None),
        ("tie", "in small letters", "errored", None, "parse"),
        ("tie", "a number", "errored", None, "parse"),
    ],
)
def test_only_what_holds_in_both_orders_counts(
    tie: str | None, choice: str, outcome: str, actual: str | None, reason: str | None
) -> None:
    """A judge that looks at the position alone never wins."""
    result = compared(paired(tie), CHOICES[choice])
    assert (result.outcome, result.actual, result.reason) == (outcome, actual, reason)
    assert result.usage == JudgeUsage(calls=2)


def test_a_swapped_question_differs_in_the_two_values_only() -> None:
    task = LLMJudgeTask(
        "q",
        Prompt("${theirs.x} ${mine} ${other}", "m", "openai", "${mine}", fence=False),
        "A",
        "best",
        "Equals",
        swap={"first": "mine", "second": "theirs.x"},
        samples=3,
    )
    judge = ScriptedJudge(
        lambda request: {"best": "A" if request.messages[0]["content"] == "1" else "B"}
    )
    record = EvalRecord({"mine": "1", "theirs": {"x": "2"}, "other": "3"})
    found = EvalDataset([record], [task]).evaluate(judge=judge)
    assert found.records[0].outcome is Outcome.PASSED
    shown = [(r.sample, [m["content"] for m in r.messages]) for r in judge.requests]
    assert shown == [
        (0, ["1", "2 1 3"]), (0, ["2", "1 2 3"]), (1, ["1", "2 1 3"]), (1, ["2", "1 2 3"]),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("swap", "fields", "words"),
    [
        ({"first": "mine", "second": "hers"}, {}, "no variable 'hers'; its variables are mine, th"),
        ({"first": "mine", "second": "mine"}, {}, "two variables"),
        ({"first": "mine", "second": "theirs", "labels": ["A", "A"]}, {}, "different words"),
        ({"first": "mine", "second": "theirs", "tie": "B"}, {}, "different words"),
        ({"first": "mine", "second": "theirs"}, {"vote": "median"}, "no median"),
    ],
)
def test_a_pair_that_can_be_none_is_refused(
    swap: dict[str, Any], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        LLMJudgeTask("q", PAIR, "A", "best", "Equals", swap=swap, **fields)


# --- a part of the records ---


def test_a_part_of_the_records_is_judged_and_always_the_same() -> None:
    """Which, is in no process another: the hash is worked out here by hand."""
    from hashlib import blake2b

    task = sampled(1, sample_rate=0.25)
    records = [EvalRecord({"answer": "x"}, uid=f"{at:032x}") for at in range(1_000)]
    judge = ScriptedJudge(lambda request: {"n": 3})
    found = EvalDataset(records, [task]).evaluate(judge=judge)

    def is_in(uid: str) -> bool:
        digest = blake2b(f"{len(uid)}:{uid}q".encode(), digest_size=8).digest()
        return int.from_bytes(digest) / 2**64 < 0.25

    wanted = [uid for uid in (f"{at:032x}" for at in range(1_000)) if is_in(uid)]
    assert sorted(request.record_uid for request in judge.requests) == wanted
    assert 200 < len(wanted) < 300  # 250 ± 3.6 standard deviations
    left_out = [r.tasks[0] for r in found.records if r.outcome is Outcome.SKIPPED]
    assert {(r.reason, r.usage) for r in left_out} == {(Reason.SAMPLED, None)}
    assert len(left_out) + len(wanted) == 1_000
    assert "25.000%" in left_out[0].message


@pytest.mark.parametrize(("rate", "calls"), [(0.0, 0), (1.0, 20)])
def test_none_and_all(rate: float, calls: int) -> None:
    judge = ScriptedJudge(lambda request: {"n": 3})
    records = [EvalRecord({"answer": "x"}) for _ in range(20)]
    EvalDataset(records, [sampled(1, sample_rate=rate)]).evaluate(judge=judge)
    assert len(judge.requests) == calls


def test_what_is_not_sampled_is_in_no_pass_rate() -> None:
    """Nor are the tasks behind it, also where it is a gate; a closed gate still counts."""
    tasks = [
        sampled(1, sample_rate=0.0, condition=True),
        equals("behind", "answer", "y", ["q"]),
        equals("plain", "answer", "x"),
        equals("gate", "answer", "y", condition=True),
        equals("gated", "answer", "x", ["gate", "behind"]),
    ]
    found = EvalDataset([EvalRecord({"answer": "x"})], tasks).evaluate(judge=ScriptedJudge({}))
    [record] = found.records
    assert [(task.outcome, task.reason) for task in record.tasks] == [
        ("skipped", "sampled"), ("skipped", "sampled"), ("passed", None), ("failed", None),
        ("skipped", "gate"),
    ]  # fmt: skip
    assert found.pass_rate == pytest.approx(1 / 3)
    assert "'q' before it was" in record["behind"].message


# --- what it took, and what is stored ---


def test_what_all_calls_took_is_added_up_and_stored() -> None:
    replies: list[Any] = [
        JudgeReply(response={"n": 3}, input_tokens=10, output_tokens=1, cost_usd=0.25),
        JudgeReply(response={"n": 2}, input_tokens=20),
        JudgeReply(response="no JSON", output_tokens=4, cost_usd=0.5),  # paid for all the same
        REFUSED,
        JudgeReply(response={"n": 3}, input_tokens=None),
    ]
    result, judge = run(sampled(5), replies)
    usage = JudgeUsage(calls=5, input_tokens=30, output_tokens=5, cost_usd=0.75, unpriced_calls=3)
    assert (result.usage, len(judge.requests)) == (usage, 5)
    record = EvalRecord({"answer": "x"})
    found = EvalDataset([record], [sampled(5)]).evaluate(judge=ScriptedJudge(replies))
    again = EvalResults.model_validate_json(found.model_dump_json())
    assert again == found
    assert again.records[0].tasks[0].usage == usage
    [seen] = [each for row in found for each in row.eval_set.records]
    assert seen.usage == usage
    assert json.loads(seen.model_dump_json())["usage"]["calls"] == 5


def test_tasks_without_a_judge_have_no_usage() -> None:
    task = equals("t", "answer", "x")
    found = EvalDataset([EvalRecord({"answer": "x"})], [task]).evaluate()
    assert found.records[0].tasks[0].usage is None
    assert "usage" not in found.records[0].tasks[0].to_json()


FIELDS: dict[str, Any] = {
    "scale": [1, 5],
    "may_abstain": True,
    "reference": "want",
    "samples": 5,
    "vote": "median",
    "sample_rate": 0.5,
}


def test_what_is_not_said_is_not_written() -> None:
    """So that a task of before has the digest of before."""
    wire = LLMJudgeTask("q", SCORED, 3, "score", "Equals").model_dump(mode="json")
    assert not wire.keys() & {*FIELDS, "rubric", "swap"}


@pytest.mark.parametrize("name", FIELDS)
def test_what_is_said_is_stored_and_in_the_digest(name: str) -> None:
    plain = LLMJudgeTask("q", SCORED, 3, "score", "Equals")
    task = parse_task({**plain.model_dump(mode="json"), name: FIELDS[name]})
    assert parse_task(json.loads(task.model_dump_json())) == task
    assert tasks_digest([task]) != tasks_digest([plain])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("samples", 0), ("samples", 26), ("vote", "mean"), ("sample_rate", 1.1),
        ("sample_rate", -0.1), ("scale", [5, 1]), ("scale", [1, 1]), ("scale", [1]),
        ("scale", [0, float("inf")]), ("may_abstain", "perhaps"),
    ],
)  # fmt: skip
def test_what_can_not_be_meant_is_refused(field: str, value: Any) -> None:
    plain = LLMJudgeTask("q", SCORED, 3, "score", "Equals").model_dump(mode="json")
    with pytest.raises(ValidationError, match=field):
        parse_task({**plain, field: value})
