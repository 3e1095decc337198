"""Checks that changed under their ids: named, judged again, or left out; never passed over.

Each case runs a real agent twice, with the checks of before and of today, through a file.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.checks import Fate
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.scenario import EvalScenarios
from scouter.evaluate.tasks.task import parse_tasks
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.options import RunOptions
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.replay.run import Run
from scouter.replay.runner import EvalRunner
from scouter.replay.simulated_user import SimulatedUser
from scouter.tracing.tracer import init_tracer, shutdown_tracer
from scouter.transport.config import MockConfig

Tasks = list[dict[str, Any]]
SCENARIOS = 8
AGAIN, OUT, ACCEPTED, NEW = Fate.JUDGED_AGAIN, Fate.LEFT_OUT, Fate.ACCEPTED, Fate.NEW


def right(operator: str = "Equals", value: Any = "ok", **more: Any) -> dict[str, Any]:
    """A check of the answer."""
    return {
        "task_type": "Assertion", "id": "right", "context_path": "response", "operator": operator,
        "expected_value": value, **more,
    }  # fmt: skip


def kind(floor: float = 4, model: str = "m", text: str = "${response}", **more: Any) -> Any:
    """A judge's check; the judge gives 5 to `ok` and 3 to anything else."""
    prompt = {"provider": "openai", "model": model, "messages": text, "output_type": "Score"}
    return {
        "task_type": "LLMJudge", "id": "kind", "context_path": "score", "prompt": prompt,
        "operator": "GreaterThanOrEqual", "expected_value": floor, **more,
    }  # fmt: skip


def spans(count: int) -> dict[str, Any]:
    """A check of the number of steps: the agent takes two."""
    filtered = {"SpanCount": {"filter": {"ByName": {"name": "step"}}}}
    return {
        "task_type": "TraceAssertion", "id": "steps", "assertion": filtered,
        "operator": "GreaterThanOrEqual", "expected_value": count,
    }  # fmt: skip


def way(metric: str) -> dict[str, Any]:
    """A check of the calls, of which there are two; one is expected."""
    return {
        "task_type": "Trajectory", "id": "way", "metric": metric, "operator": "Equals",
        "expected_value": 1.0, "reference": "expected_trajectory",
    }  # fmt: skip


def said(operator: str = "IsNotEmpty", value: Any = True, **more: Any) -> dict[str, Any]:
    """A check of the record."""
    fields = {"task_type": "Assertion", "id": "said", "context_path": "answer"}
    return {**fields, "operator": operator, "expected_value": value, **more}


def scenarios(*tasks: Any, count: int = SCENARIOS, query: str = "q{}", **more: Any) -> Any:
    """Scenarios with these tasks of their own."""
    return [
        {"id": f"s{at}", "initial_query": query.format(at), "tasks": tasks, **more}
        for at in range(count)
    ]


def judge(request: Any) -> dict[str, Any]:
    is_ok = any(">ok<" in message["content"] for message in request.messages)
    return {"score": 5 if is_ok else 3, "reason": "x"}


def another_judge(request: Any) -> dict[str, Any]:
    return judge(request)


Checks = tuple[list[dict[str, Any]], Tasks]
"""Scenarios, and the tasks of the profile."""


def ran(
    checks: Checks,
    answer: str,
    path: Path,
    judge_used: Callable[[Any], Any] = judge,
    repeats: int = 1,
) -> ScenarioEvalResults:
    """Run an agent that gives one answer to everything, and read the results from their file."""
    profile = AgentEvalProfile(alias="bot", tasks=parse_tasks(checks[1]))
    queue = ScouterQueue.from_profile([profile], transport_config=MockConfig())
    tracer = init_tracer(service_name="changed", scouter_queue=queue)

    def agent(message: str) -> str:
        with tracer.start_as_current_span("answer") as span:
            for _ in range(2):
                tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
                with tracer.start_as_current_span("step", attributes=tool):
                    pass
            span.add_queue_item("bot", EvalRecord({"answer": answer, "n": 4, "long": "x" * LONG}))
        return answer

    given = EvalScenarios.model_validate({"scenarios": checks[0]})
    try:
        run = EvalOrchestrator(queue, given, agent).run(judge=judge_used, repeats=repeats)
    finally:
        shutdown_tracer()
    run.save(path)
    return ScenarioEvalResults.load(path)


LONG = 10


def compared(
    before: Checks, after: Checks, answer: str, folder: Path, **more: Any
) -> ScenarioComparisonResults:
    """Compare an agent that said `ok` with one that says something now."""
    old = ran(before, "ok", folder / "before.json")
    new = ran(after, answer, folder / "now.json", more.pop("judge_used", judge))
    return new.compare_to(old, **more)


SAME = [said()]
EXPECTED: list[Any] = [{"tool_name": "look", "tool_input": {}}]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            (scenarios(right()), SAME),
            (scenarios(right(description="words")), [said(description="more")]),
            id="description",
        ),
        pytest.param(
            (scenarios(kind()), SAME), (scenarios(kind(max_retries=7)), SAME), id="retries"
        ),
        pytest.param(
            (scenarios(kind()), SAME), (scenarios(kind(sample_rate=0.999999)), SAME), id="sample"
        ),
        pytest.param(
            (scenarios(right(), kind()), SAME), (scenarios(kind(), right()), SAME), id="order"
        ),
        pytest.param((scenarios(right()), SAME), (scenarios(right(), tags=["a"]), SAME), id="tags"),
    ],
)
def test_what_changes_no_outcome_is_not_mentioned(
    before: Checks, after: Checks, tmp_path: Path
) -> None:
    """Kind: noise. Words, retries, samples, order and tags leave a check the same."""
    comparison = compared(before, after, "ok", tmp_path)
    assert (comparison.changes, comparison.exit_code) == ((), 0)


@pytest.mark.parametrize(
    ("before", "after", "answer", "code", "changed"),
    [
        pytest.param(
            (scenarios(right()), SAME), (scenarios(right("IsNotEmpty", True)), SAME), "bad", 0,
            'task \'right\' of 8 scenarios changed (expected_value: "ok" → true; operator: '
            '"Equals" → "IsNotEmpty")', id="weaker, and both pass it",
        ),
        pytest.param(
            (scenarios(right("IsNotEmpty", True)), SAME), (scenarios(right()), SAME), "bad", 1,
            'task \'right\' of 8 scenarios changed (expected_value: true → "ok"; operator: '
            '"IsNotEmpty" → "Equals")', id="stricter, and the baseline passes it",
        ),
        pytest.param(
            (scenarios(right("Equals", "no")), SAME), (scenarios(right()), SAME), "bad", 1,
            'task \'right\' of 8 scenarios changed (expected_value: "no" → "ok")',
            id="expected value",
        ),
        pytest.param(
            (scenarios(right()), SAME), (scenarios(right()), [said("Equals", 4, context_path="n")]),
            "ok", 0,
            "task 'said' of 'bot' changed (expected_value: true → 4; operator: \"IsNotEmpty\" → "
            '"Equals"; context_path: "answer" → "n")', id="path of a profile's task",
        ),
        pytest.param(
            (scenarios(), SAME), (scenarios(), [said("Equals", "ok")]), "bad", 1,
            'task \'said\' of \'bot\' changed (expected_value: true → "ok"; operator: '
            '"IsNotEmpty" → "Equals")', id="a profile's task alone",
        ),
        pytest.param(
            (scenarios(kind(5)), SAME), (scenarios(kind(3)), SAME), "bad", 1,
            "task 'kind' of 8 scenarios changed (expected_value: 5 → 3)",
            id="threshold loosened, which hides no fall of the scores",
        ),
        pytest.param(
            (scenarios(kind(3)), SAME), (scenarios(kind(5)), SAME), "bad", 1,
            "task 'kind' of 8 scenarios changed (expected_value: 3 → 5)", id="threshold tightened",
        ),
        pytest.param(
            (scenarios(spans(1)), SAME), (scenarios(spans(2)), SAME), "ok", 0,
            "task 'steps' of 8 scenarios changed (expected_value: 1 → 2)", id="spans",
        ),
        pytest.param(
            (scenarios(way("any_order_match"), expected_trajectory=EXPECTED), SAME),
            (scenarios(way("recall"), expected_trajectory=EXPECTED), SAME), "ok", 0,
            'task \'way\' of 8 scenarios changed (metric: "any_order_match" → "recall")',
            id="options of a trajectory",
        ),
        pytest.param(
            (scenarios(right(), right(id="two")), SAME),
            (scenarios(right(), right(id="two", depends_on=["right"])), SAME), "ok", 0,
            "task 'two' of 8 scenarios changed (depends_on: [] → [\"right\"])", id="dependency",
        ),
        pytest.param(
            (scenarios(right(value="${expected_outcome}"), expected_outcome="no"), SAME),
            (scenarios(right(value="${expected_outcome}"), expected_outcome="ok"), SAME), "bad", 1,
            "scenarios 's0', 's1', 's2' and 5 more changed (expected_outcome: \"no\" → \"ok\")",
            id="expected outcome",
        ),
        pytest.param(
            (scenarios(kind(), expected_outcome="a"), SAME),
            (scenarios(kind(), expected_outcome="b"), SAME), "ok", 0,
            "scenarios 's0', 's1', 's2' and 5 more changed (expected_outcome: \"a\" → \"b\")",
            id="an expected outcome that the judge is not shown",
        ),
        pytest.param(
            (scenarios(right(), kind(required=True)), SAME), (scenarios(right(), kind()), SAME),
            "ok", 0, "task 'kind' of 8 scenarios changed (required: true → nothing)",
            id="no longer required",
        ),
        pytest.param(
            (scenarios(right()), SAME), (scenarios(right(), right("IsNotEmpty", True, id="new")),
            SAME), "ok", 0, "task 'new' of 8 scenarios was added", id="added",
        ),
        pytest.param(
            (scenarios(), SAME), (scenarios(right()), SAME), "bad", 1,
            "task 'right' of 8 scenarios was added", id="the first of its scenario",
        ),
    ],
)  # fmt: skip
def test_a_check_that_reads_what_is_stored_judges_the_baseline_again(
    before: Checks, after: Checks, answer: str, code: int, changed: str, tmp_path: Path
) -> None:
    """Kind: other checks under the same id, compared as if they were the same.

    The baseline's agent says `ok`. Eight scenarios that fall from all to none are a regression;
    by hand: mid-p 1 of 2^8, halved.
    """
    comparison = compared(before, after, answer, tmp_path)
    [change] = comparison.changes
    assert change.cause == changed
    assert change.text == f"{changed}: the baseline was judged again by today's check"
    assert (change.fate, comparison.exit_code) == (AGAIN, code)


@pytest.mark.parametrize(
    ("before", "after", "options", "changed"),
    [
        pytest.param(
            (scenarios(right(), kind()), SAME), (scenarios(right(), kind(model="n")), SAME), {},
            'task \'kind\' of 8 scenarios changed (prompt.model: "m" → "n")', id="model",
        ),
        pytest.param(
            (scenarios(right(), kind()), SAME),
            (scenarios(right(), kind(text="How? ${response}")), SAME), {},
            "task 'kind' of 8 scenarios changed (prompt.messages[0].content: \"${response}\" → "
            '"How? ${response}")', id="prompt",
        ),
        pytest.param(
            (scenarios(right(), kind()), SAME), (scenarios(right(), kind()), SAME),
            {"judge_used": another_judge},
            "task 'kind' of 8 scenarios changed (judge: "
            '"tests.scouter.evaluate.compare.test_comparable:judge" → '
            '"tests.scouter.evaluate.compare.test_comparable:another_judge")', id="judge",
        ),
        pytest.param(
            (scenarios(right(), kind(samples=3)), SAME), (scenarios(right(), kind()), SAME), {},
            "task 'kind' of 8 scenarios changed (samples: 3 → nothing)", id="votes",
        ),
        pytest.param(
            (scenarios(right(), kind(3, samples=3)), SAME),
            (scenarios(right(), kind(4, samples=3)), SAME), {},
            "task 'kind' of 8 scenarios changed (expected_value: 3 → 4)",
            id="threshold of votes that are not all stored",
        ),
        pytest.param(
            (scenarios(right(), kind()), SAME), (scenarios(right()), SAME), {},
            "task 'kind' of 8 scenarios was removed", id="removed",
        ),
        pytest.param(
            (scenarios(right(), kind()), [said(), said(id="two")]),
            (scenarios(right(), kind()), SAME), {},
            "task 'two' of 'bot' was removed", id="removed from a profile",
        ),
        pytest.param(
            (scenarios(right(), count=9), SAME), (scenarios(right()), SAME), {},
            "scenario 's8' was removed", id="scenario removed",
        ),
        pytest.param(
            (scenarios(right()), SAME), (scenarios(right(), query="Ask {}"), SAME), {},
            "scenarios 's0', 's1', 's2' and 5 more changed (initial_query: \"q0\" → \"Ask 0\")",
            id="question",
        ),
        pytest.param(
            (scenarios(right()), SAME), (scenarios(right(), predefined_turns=["and?"]), SAME), {},
            "scenarios 's0', 's1', 's2' and 5 more changed (predefined_turns: nothing → "
            '["and?"])', id="turns",
        ),
    ],
)  # fmt: skip
def test_a_check_that_cannot_judge_the_baseline_is_never_cleared(
    before: Checks, after: Checks, options: Mapping[str, Any], changed: str, tmp_path: Path
) -> None:
    """Kind: 0 by silence. Code 3 with the way out, or 0 once somebody says that they looked."""
    old = ran(before, "ok", tmp_path / "before.json")
    new = ran(after, "ok", tmp_path / "now.json", **options)
    comparison = new.compare_to(old)
    [change] = comparison.changes
    assert (change.cause, change.fate, comparison.exit_code) == (changed, OUT, 3)
    assert comparison.decision_reasons[0].startswith(f"cannot clear {change.name}, which ")
    assert comparison.decision_reasons[0].endswith(f": {change.advice}")
    option = " ".join(f"--accept-changed {name}" for name in change.ids)
    assert (option if len(change.ids) == 1 else "--accept-changed ID for each") in change.advice

    assert new.compare_to(old, accept_changed=change.ids[1:]).exit_code == 3
    names = [*change.ids, *filter(None, [change.alias]), *change.scenarios]
    with pytest.raises(ConfigError) as raised:
        new.compare_to(old, accept_changed=[*change.ids, "nobody"])
    text = str(raised.value)
    assert text.startswith("--accept-changed nobody: nothing of this id changed since the baseline")
    assert all(repr(name) in text for name in names)
    accepted = new.compare_to(old, accept_changed=change.ids)
    assert [each.fate for each in accepted.changes] == [ACCEPTED]
    assert accepted.exit_code == 0


def test_ids_are_accepted_before_anything_runs(tmp_path: Path) -> None:
    """Kind: a typed id that is wrong. It costs no run, and the ids that would do are named.

    A task that depends on a changed one may be left out with it, so its id is one, too.
    """
    reads = right("IsNotEmpty", True, id="reads", depends_on=["kind"])
    also = said(id="also")
    checks = scenarios(right(), kind(), reads, count=2), [said(), also]
    changed = scenarios(right(), kind(model="n"), reads, count=2), [said("Equals", "ok"), also]
    before = ran(checks, "ok", tmp_path / "before.json")
    profile = AgentEvalProfile(alias="bot", tasks=parse_tasks(changed[1]))
    queue = ScouterQueue.from_profile([profile], transport_config=MockConfig())
    given = EvalScenarios.model_validate({"scenarios": changed[0]})
    messages: list[str] = []
    orchestrator = EvalOrchestrator(queue, given, messages.append)
    run = Run(orchestrator, RunOptions(baseline=before), judge=judge)
    run.check_accepted(["bot", "said", "s0", "s1", "kind", "reads"])
    for name in ("right", "also", "S0", "kind ", ""):
        with pytest.raises(ConfigError) as raised:
            run.check_accepted(["kind", name])
        assert str(raised.value) == (
            f"--accept-changed {name}: nothing of this id changed since the baseline; the ids of "
            "what did are 'bot', 'said', 's0', 'kind', 'reads', 's1'"
        )
    assert not messages


def test_nothing_that_changed_can_be_accepted(tmp_path: Path) -> None:
    """The option is not left in a build that has a new baseline."""
    run = ran((scenarios(right()), SAME), "ok", tmp_path / "run.json")
    with pytest.raises(ConfigError) as raised:
        run.compare_to(run, accept_changed=["right"])
    assert str(raised.value) == (
        "--accept-changed right: nothing of this id changed since the baseline; leave it out"
    )


class Moody:
    """A judge that gives another score to the same answer on another day."""

    def __init__(self, score: int) -> None:
        self._score = score

    def __call__(self, request: Any) -> dict[str, Any]:
        return {"score": self._score, "reason": "x"}


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        pytest.param(
            (scenarios(right(), kind()), SAME),
            (scenarios(right("IsNotEmpty", True), kind()), SAME), 8, id="another-check",
        ),
        pytest.param(
            (scenarios(kind(3)), SAME), (scenarios(kind(4)), SAME), 8, id="its-threshold",
        ),
        pytest.param(
            (scenarios(kind()), SAME), (scenarios(kind()), [said("Equals", "ok")]), 8,
            id="a-check-of-a-profile",
        ),
        pytest.param(
            (scenarios(kind()), SAME),
            ([*scenarios(kind(), count=7), *scenarios(kind(), query="?{}")[7:]], SAME), 7,
            id="the-question-of-another-scenario",
        ),
        pytest.param(
            (scenarios(kind()), SAME), (scenarios(kind(text="How? ${response}")), SAME), 0,
            id="its-prompt",
        ),
    ],
)  # fmt: skip
def test_flips_of_a_judge_beside_a_changed_check(
    before: Checks, after: Checks, count: int, tmp_path: Path
) -> None:
    """Kind: the baseline's attempts dropped, although what they are judged by was made the same.

    The judge gave 5 to `ok` and gives 1 to it now: it flipped in each scenario that is compared.
    """
    old = ran(before, "ok", tmp_path / "before.json", Moody(5))
    new = ran(after, "ok", tmp_path / "now.json", Moody(1))
    flips = [each for each in new.compare_to(old).check_flips if each.task_id == "kind"]
    assert [(each.judge, each.text) for each in flips] == [(1, "the judge's")] * count


def polite(message: str, answer: Any, history: Any) -> str:
    return "BYE"


def rude(message: str, answer: Any, history: Any) -> str:
    return polite(message, answer, history)


class OwnUser(EvalOrchestrator):
    def execute_simulated_user_turn(
        self, scenario: Any, initial_query: str, agent_response: Any, history: Any
    ) -> str:
        return "BYE"


def player(model: str, provider: str = "p") -> SimulatedUser:
    return SimulatedUser(lambda request: {"message": "", "done": True}, model, provider)


@pytest.mark.parametrize(
    ("before", "after", "named"),
    [
        pytest.param(polite, polite, None, id="the-same"),
        pytest.param(player("m"), player("m"), None, id="the-same-model"),
        pytest.param(polite, rude, (f"{__name__}:polite", f"{__name__}:rude"), id="function"),
        pytest.param(player("m"), player("n"), ("p/m", "p/n"), id="model"),
        pytest.param(player("m"), player("m", "q"), ("p/m", "q/m"), id="provider"),
        pytest.param(polite, None, (f"{__name__}:polite", f"{__name__}:OwnUser"), id="own-class"),
    ],
)
def test_another_simulated_user_asks_something_else(
    before: Any, after: Any, named: tuple[str, str] | None, tmp_path: Path
) -> None:
    """Kind: the question changed under its id, as somebody else puts it. Conversations are out."""
    interactive = scenarios(right(), termination_signal="BYE", max_turns=2)
    given = EvalScenarios.model_validate({"scenarios": [*interactive[:7], *scenarios(right())[7:]]})

    def run(user: Any, name: str) -> ScenarioEvalResults:
        profile = AgentEvalProfile(alias="bot", tasks=parse_tasks(SAME))
        queue = ScouterQueue.from_profile([profile], transport_config=MockConfig())
        kind = OwnUser if user is None else EvalOrchestrator
        done = kind(queue, given, lambda message: "ok", simulated_user_fn=user).run()
        done.save(tmp_path / name)
        return ScenarioEvalResults.load(tmp_path / name)

    comparison = run(after, "now.json").compare_to(run(before, "before.json"))
    if named is None:
        assert (comparison.changes, comparison.exit_code) == ((), 0)
        return
    [change] = comparison.changes
    assert change.ids == tuple(f"s{at}" for at in range(7))
    assert change.fields == (f'simulated_user: "{named[0]}" → "{named[1]}"',)
    assert (change.fate, comparison.exit_code) == (OUT, 3)
    assert comparison.comparison_scenarios_passed == (1, 1)


@pytest.mark.parametrize("kinds", ["runner", "dataset"])
def test_another_judge_in_code_is_named(kinds: str) -> None:
    """Kind: a judge that is given to `evaluate`, and not to a replay."""

    def evaluated(judge_used: Callable[[Any], Any]) -> Any:
        if kinds == "dataset":
            records = [EvalRecord({"response": "ok"}, id=f"r{at}") for at in range(SCENARIOS)]
            return EvalDataset(records, parse_tasks([kind()])).evaluate(judge=judge_used)
        given = EvalScenarios.model_validate({"scenarios": scenarios(kind())})
        runner = EvalRunner(given, {}, ())
        for each in given:
            runner.collect_scenario_data({}, "ok", each)
        return runner.evaluate(judge=judge_used)

    before = evaluated(judge)
    assert evaluated(judge).compare_to(before).changes == ()
    comparison = evaluated(another_judge).compare_to(before)
    [change] = comparison.changes
    assert change.fields == (f'judge: "{__name__}:judge" → "{__name__}:another_judge"',)
    assert (change.fate, comparison.exit_code) == (OUT, 3)


def test_what_else_is_broken_stops_the_release(tmp_path: Path) -> None:
    """An unclear check hides nothing: with code 1 both are named, what is broken first."""
    before, after = (scenarios(right(), kind()), SAME), (scenarios(right(), kind(model="n")), SAME)
    comparison = compared(before, after, "bad", tmp_path)
    assert comparison.exit_code == 1
    assert comparison.decision_reasons[0].startswith("scenarios passed: 8 of 8 before, 0 of 8 now")
    assert comparison.decision_reasons[-1].startswith("cannot clear task 'kind'")
    accepted = compared(before, after, "bad", tmp_path, accept_changed=["kind"])
    assert accepted.exit_code == 1


def test_a_changed_question_is_in_no_rate(tmp_path: Path) -> None:
    """One of nine scenarios asks something else, and fails: the others are compared without it."""
    old = scenarios(right(), count=9)
    new = [*old[:8], {**old[8], "initial_query": "another", "tasks": [right(value="no")]}]
    comparison = compared((old, SAME), (new, SAME), "ok", tmp_path)
    assert comparison.baseline_scenarios_passed == comparison.comparison_scenarios_passed == (8, 8)
    assert comparison.exit_code == 3
    assert {row.baseline_count for row in comparison.rates} == {8}


def test_a_new_name_is_suggested(tmp_path: Path) -> None:
    """A renamed check is a removed one and an added one, which says that they are the same."""
    after = scenarios(right(id="correct"))
    comparison = compared((scenarios(right()), SAME), (after, SAME), "ok", tmp_path)
    removed, added = comparison.changes
    assert removed.text == (
        "task 'right' of 8 scenarios was removed: left out of the comparison, as nothing runs it "
        "any more (the added task 'correct' is the same)"
    )
    assert (added.act, added.fate, comparison.exit_code) == ("added", AGAIN, 3)


def test_an_added_judge_is_compared_with_nothing(tmp_path: Path) -> None:
    """The judge fails every answer now; nobody knows what it would have said before."""
    after = (scenarios(right(), kind(6)), SAME)
    comparison = compared((scenarios(right()), SAME), after, "ok", tmp_path)
    [change] = comparison.changes
    assert change.text == (
        "task 'kind' of 8 scenarios was added: not compared, as its judge would have to be asked "
        "anew about the baseline's answers"
    )
    assert (change.fate, comparison.exit_code) == (NEW, 0)
    assert comparison.comparison_scenarios_passed == (8, 8)


def test_what_depends_on_a_check_that_is_left_out_is_left_out(tmp_path: Path) -> None:
    """A task reads the answer of a judge that would have to be called anew."""
    reads = right("IsNotEmpty", True, id="reads", context_path="kind.reason", depends_on=["kind"])
    before = (scenarios(right(), kind(), reads), SAME)
    after = (scenarios(right(), kind(model="n"), reads), SAME)
    comparison = compared(before, after, "ok", tmp_path)
    assert [change.ids for change in comparison.changes] == [("kind",), ("reads",)]
    assert comparison.changes[1].why == "it depends on 'kind', which is left out"
    assert comparison.exit_code == 3


def test_a_gate_that_opens_needs_answers_that_nobody_has(tmp_path: Path) -> None:
    """The judge was not called before, as its gate was closed: it is not judged again."""
    judged = kind(depends_on=["right"])
    before = (scenarios(right(value="no", condition=True), judged), SAME)
    after = (scenarios(right(condition=True), judged), SAME)
    found = {
        change.ids[0]: change.fate for change in compared(before, after, "ok", tmp_path).changes
    }
    assert found == {"right": AGAIN, "kind": OUT}
    opened = (scenarios(right("IsNotEmpty", True, condition=True), judged), SAME)
    [change] = compared(after, opened, "ok", tmp_path).changes
    assert (change.ids, change.fate) == (("right",), AGAIN)


def test_a_context_that_was_cut_judges_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results keep 20,000 characters of a context: what a check would read may be missing."""
    monkeypatch.setitem(globals(), "LONG", 20_001)
    before, after = (scenarios(), SAME), (scenarios(), [said("Equals", "ok")])
    [change] = compared(before, after, "ok", tmp_path).changes
    assert (change.fate, change.why) == (OUT, "the baseline does not store all that it reads")


def test_the_gates_rule_reads_the_attempts_of_today(tmp_path: Path) -> None:
    """A run with the baseline asks again for falls by today's checks only.

    By the old check the agent fell from 8 of 8 to 0 of 8; by today's both pass everything.
    """
    old = ran((scenarios(right()), SAME), "ok", tmp_path / "before.json")
    weaker = (scenarios(right("IsNotEmpty", True)), SAME)
    profile = AgentEvalProfile(alias="bot", tasks=parse_tasks(SAME))
    queue = ScouterQueue.from_profile([profile], transport_config=MockConfig())
    messages: list[str] = []

    def agent(message: str) -> str:
        messages.append(message)
        queue["bot"].insert(EvalRecord({"answer": "bad"}))
        return "bad"

    given = EvalScenarios.model_validate({"scenarios": weaker[0]})
    run = EvalOrchestrator(queue, given, agent).run(baseline=old)
    assert (len(messages), run.rounds) == (SCENARIOS, 1)
    assert run.compare_to(old).exit_code == 0


def test_results_of_records_store_no_contexts(tmp_path: Path) -> None:
    """Two evaluations of records by other tasks under one id."""

    def judged(operator: str, name: str) -> EvalResults:
        records = [EvalRecord({"answer": "ok"}, id=f"r{at}") for at in range(SCENARIOS)]
        tasks = parse_tasks([said(operator, "ok"), said(id="other")])
        path = tmp_path / name
        EvalDataset(records, tasks).evaluate().save(path)
        return EvalResults.load(path)

    before, now = judged("Equals", "a.json"), judged("Contains", "b.json")
    assert now.compare_to(now).changes == ()
    comparison = now.compare_to(before)
    [change] = comparison.changes
    assert change.text == (
        'task \'said\' changed (operator: "Equals" → "Contains"): left out of the comparison, as '
        "results of records do not store what it reads"
    )
    assert comparison.exit_code == 3
    assert {row.task_id for row in comparison.rates if not row.is_sum} == {"other"}
    assert now.compare_to(before, accept_changed=["said"]).exit_code == 0
