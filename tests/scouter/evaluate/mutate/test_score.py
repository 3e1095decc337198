"""The score of a profile, and checks that are proposed for what it does not see."""

import re
from dataclasses import replace

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.mutate.candidates import candidates, stopped_by
from scouter.evaluate.mutate.faults import Corpus, Trace
from scouter.evaluate.mutate.score import MutationScore, mutation_score, task_wire
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task, task_adapter
from tests.scouter.evaluate.mutate import desk
from tests.scouter.evaluate.mutate.desk import trace, traces


def task(assertion: AgentAssertion, expected: object, operator: str = "Equals") -> Task:
    return AgentAssertionTask("t", assertion, expected, operator, source="spans")


SPOKE = task(AgentAssertion.response_is_blank(), False)


def seen(score: MutationScore) -> set[str]:
    return {each.fault.kind for each in score.faults if each.is_seen}


@pytest.mark.parametrize(
    ("checked", "kinds"),
    [
        (SPOKE, {"answer_blank"}),
        (task(AgentAssertion.tool_called("find_order"), True), {"call_dropped"}),
        (task(AgentAssertion.repeated_tool_call_count(), 0), {"call_doubled", "loop"}),
        (task(AgentAssertion.tool_call_count(), 4, "LessThanOrEqual"), {"loop"}),
        (task(AgentAssertion.tool_error_count(), 0), {"call_failed"}),
        (task(AgentAssertion.empty_result_count(), 0), {"result_empty"}),
        (task(AgentAssertion.tool_argument("find_order", "id"), "A-", "StartsWith"),
         {"call_dropped"}),
        (task(AgentAssertion.response_content(), "euros", "Contains"),
         {"answer_blank", "answer_cut", "language_changed"}),
        (task(AgentAssertion.response_content(), "[.!]$", "Matches"),
         {"answer_blank", "answer_cut"}),
        (task(AgentAssertion.unsourced_number_count(), 0),
            {"number_changed", "call_dropped", "result_empty", "call_failed"}),
    ],
)  # fmt: skip
def test_what_a_task_sees(checked: Task, kinds: set[str]) -> None:
    score = mutation_score([checked], traces(), propose=False)

    assert (score.traces, score.good, score.tried) == (16, 16, 12)
    assert seen(score) == kinds
    assert score.score == len(kinds) / 12


def test_proposals_see_the_faults_in_traces_that_they_were_not_drawn_from() -> None:
    score = mutation_score([SPOKE], traces(0, 20))
    proposed = score.proposed()
    later = traces(100, 30)

    trees = [Trace(tree=SpanTree(trace(number))) for number in range(100, 130)]
    assert not any(stopped_by(proposed, trees)), "a good trace fails"
    assert seen(mutation_score([SPOKE, *proposed], later, propose=False)) >= {
        "call_doubled", "calls_swapped", "argument_replaced", "result_empty", "call_failed",
        "loop", "act_claimed", "number_changed", "answer_blank", "answer_cut",
        "language_changed",
    }  # fmt: skip


@pytest.mark.parametrize(
    "said",
    [
        "Wir haben für die Bestellung {} Euro erstattet. Danke für das Warten, und alles Gute!",
        "ご注文の金額は{}円です。お待たせして申し訳ございません。",
        "لقد وجدنا طلبك وثمنه {} يورو. شكرا لك على الانتظار.",
    ],
    ids=["German", "Japanese", "Arabic"],
)
def test_answers_of_other_languages(said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No act is claimed in English; of the rest, proposals see all in traces that come later."""

    def answer(number: int) -> str:
        return said.format(100 + number)

    monkeypatch.setattr(desk, "answer", answer)
    score = mutation_score([SPOKE], traces(0, 20))
    kinds = {each.fault.kind: each for each in score.faults}
    after = mutation_score([SPOKE, *score.proposed()], traces(100, 30), propose=False)

    assert kinds["act_claimed"].mutants == 0
    assert (after.good, after.seen) == (30, after.tried)
    ids = [task.id for task in kinds["language_changed"].proposed]
    assert ids == ["answer_has_text", "answer_in_the_language"]


def test_of_words_that_are_as_common_the_first_ones_are_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By hand: all fourteen words are in each answer, and of these twelve are taken."""
    said = "so we now sent out your new parcel to the old home near you"
    monkeypatch.setattr(desk, "answer", said.format)
    found = candidates(Corpus(traces=[Trace(tree=SpanTree(trace(number))) for number in range(4)]))
    wire = {each.id: task_wire(each) for each in found}
    assert wire["answer_in_the_language"]["expected_value"] == (
        r"(?i)(?:^|\PL)(?:home|new|now|old|out|parcel|sent|so|the|to|we|your)(?:\PL|$)"
    )


def test_a_proposed_task_is_one_of_a_file() -> None:
    for each in mutation_score([SPOKE], traces()).proposed():
        read = task_adapter().validate_python(task_wire(each))
        assert read == each


def test_a_fault_that_no_check_sees_has_no_proposal() -> None:
    """Two customers, each with a tool of their own, whose answers have nothing of its result."""
    spans = [
        replace(each, attributes={
            name: re.sub(r"\d+ euros", "some euros", str(value)).replace("find_order", tool)
            for name, value in each.attributes.items()
        })
        for number, tool in ((2, "find_order"), (4, "look_up"))
        for each in trace(number)
    ]  # fmt: skip
    score = mutation_score([SPOKE], spans)
    (dropped,) = (each for each in score.faults if each.fault.kind == "call_dropped")

    assert (dropped.mutants, list(dropped.proposed), dropped.is_seen) == (2, [], False)


def test_traces_that_fail_as_they_are_get_no_fault() -> None:
    never = task(AgentAssertion.tool_not_called("refund_order"), True)
    score = mutation_score([never], traces())

    assert (score.traces, score.good, dict(score.failing)) == (16, 8, {"t": 8})
    assert all(each.mutants <= 8 for each in score.faults)


def test_without_a_good_trace_there_is_no_score() -> None:
    score = mutation_score([task(AgentAssertion.tool_called("pay"), True)], traces())

    assert (score.good, score.score, score.proposed()) == (0, None, [])


def test_no_judge_is_called() -> None:
    judge = LLMJudgeTask("kind", Prompt("kind? ${answer}", "m", "p"), 1, None, "Equals")
    behind = AgentAssertionTask(
        "behind", AgentAssertion.tool_called("pay"), True, "Equals", None, ["kind"], source="spans"
    )
    score = mutation_score([SPOKE, judge, behind], traces(), propose=False)

    assert (list(score.left_out), score.good) == (["kind", "behind"], 16)
    with pytest.raises(ConfigError, match="every task asks a judge"):
        mutation_score([judge], traces())


def test_the_same_traces_give_the_same_score_in_whatever_order() -> None:
    one, other = traces(), traces()[::-1]

    assert mutation_score([SPOKE], one).to_json() == mutation_score([SPOKE], other).to_json()


def test_nothing_to_judge_is_refused() -> None:
    with pytest.raises(ConfigError, match="none of the traces"):
        mutation_score([SPOKE], [])
