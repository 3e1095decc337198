"""How a conversation with a simulated user ends, and what it is worth if it does not."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import check_gates
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.judge.ask import Backoff
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.scenario import EvalScenario
from scouter.replay.reports import html, json_report, junit, markdown
from scouter.replay.reports.decision import Word
from scouter.replay.reports.plain import scenario_text
from scouter.replay.reports.report import Report
from scouter.replay.simulated_user import SimulatedUser
from scouter.replay.turn import UserFaultError
from scouter.testing import ScriptedJudge
from tests.scouter.replay.bench import Bench, equals

POLITE = equals("response", "re: three", "polite")
WRONG = equals("response", "something else", "wrong")
CUT = "the conversation used up its 3 turns (max_turns) before the simulated user ended it"


def interactive(*tasks: Any, **fields: Any) -> EvalScenario:
    fields = {"termination_signal": "BYE", "max_turns": 3, **fields}
    return EvalScenario("one", tasks, "refund", **fields)


def saying(*messages: str | None) -> Callable[..., str | None]:
    """A user that says these, the last one again and again."""

    def user(first: str, answer: object, history: list[Any]) -> str | None:
        return messages[min(len(history), len(messages) - 1)]

    return user


def judged(said: dict[str, Any]) -> SimulatedUser:
    return SimulatedUser(ScriptedJudge({"simulated_user": said}), max_retries=0)


def constant(answer: str) -> Callable[[str], str]:
    """An agent that says this, whatever it hears."""

    def agent(message: str) -> str:
        return answer

    return agent


def echo(first: str, answer: str, history: list[Any]) -> str:
    return answer


def shouted_echo(first: str, answer: str, history: list[Any]) -> str:
    return f" {answer.upper()} ".replace(" ", "  ")


def no_pause(seconds: float) -> None:
    """Wait for nothing."""


def reply(message: str) -> str:
    return f"re: {message}"


MORE = saying("two", "three", "four")


@pytest.mark.parametrize(
    ("scenario", "user", "outcome"),
    [
        pytest.param(interactive(POLITE), MORE, Outcome.ERRORED, id="never says the signal"),
        pytest.param(
            interactive(POLITE, WRONG), MORE, Outcome.FAILED, id="a proven failure outranks"
        ),
        pytest.param(interactive(), MORE, Outcome.ERRORED, id="no tasks of its own"),
        pytest.param(
            interactive(POLITE, termination_signal=None, simulated_user_persona="p"),
            judged({"message": "three", "done": False}), Outcome.ERRORED,
            id="a model that is never done, without a signal",
        ),
        pytest.param(
            interactive(POLITE), saying("two", "three", "thanks, BYE"), Outcome.PASSED,
            id="says it after the last answer",
        ),
        pytest.param(
            interactive(POLITE), saying("two", "three", None), Outcome.PASSED, id="None after it"
        ),
        pytest.param(interactive(), saying("BYE"), Outcome.SKIPPED, id="ends at once"),
        pytest.param(
            interactive(POLITE, termination_signal=None, simulated_user_persona="p"), MORE,
            Outcome.PASSED, id="nothing else could end it",
        ),
        pytest.param(
            interactive(equals("response", "re: one"), max_turns=1), None, Outcome.PASSED,
            id="one turn, and nobody to ask",
        ),
        pytest.param(
            interactive(equals("response", "re: one"), max_turns=1), MORE, Outcome.ERRORED,
            id="one turn, and a user who goes on",
        ),
    ],
)  # fmt: skip
def test_the_end_is_seen_or_it_is_none(
    bench: Bench, scenario: EvalScenario, user: Any, outcome: Outcome
) -> None:
    """Kind: an end that is no end counts as one."""
    results = bench.orchestrator(scenario, simulated_user_fn=user).run()
    detail = results.get_scenario_detail("refund")
    if outcome is Outcome.SKIPPED:
        assert detail.error is None
        return
    assert detail.outcome is outcome
    if outcome is Outcome.PASSED:
        assert (detail.error, detail.error_reason) == (None, None)
        return
    assert "(max_turns) before the simulated user ended it" in str(detail.error)
    assert detail.error_reason is Reason.INCOMPLETE
    assert Report(results).decision.exit_code == (1 if outcome is Outcome.ERRORED else 0)
    (gate,) = check_gates(results, Gates(min_scenario_pass_rate=0.9))
    assert not gate.met


def test_an_agent_does_not_end_the_conversation(bench: Bench) -> None:
    """The word is the user's: an agent that says it has not satisfied anybody."""
    scenario = interactive(equals("response", "All done. BYE"))
    options = {"agent_fn": constant("All done. BYE"), "simulated_user_fn": MORE}
    detail = bench.orchestrator(scenario, **options).run().get_scenario_detail("refund")
    assert detail.outcome is Outcome.ERRORED
    assert len(detail.turns) == 3


def test_predefined_turns_are_an_end(bench: Bench) -> None:
    scenario = EvalScenario("one", [POLITE], "fixed", predefined_turns=["two", "three"])
    detail = bench.orchestrator(scenario).run().get_scenario_detail("fixed")
    assert detail.outcome is Outcome.PASSED


def test_it_stands_in_every_report(bench: Bench, tmp_path: Path) -> None:
    """The reason is saved, and each report has it; what passed so far is not decided."""
    late = EvalScenario("one", [POLITE], "late", termination_signal="BYE", max_turns=3)
    results = bench.orchestrator(interactive(POLITE, WRONG), late, simulated_user_fn=MORE).run()
    saved = tmp_path / "r.json"
    results.save(saved)
    again = ScenarioEvalResults.load(saved)
    detail = again.get_scenario_detail("late")
    assert (detail.outcome, detail.error_reason) == (Outcome.ERRORED, Reason.INCOMPLETE)
    (task,) = detail.task_results
    assert (task.outcome, task.reason) == (Outcome.ERRORED, Reason.INCOMPLETE)
    assert task.message.startswith(f"passes so far, but {CUT} (termination_signal 'BYE')")
    polite, wrong = again.get_scenario_detail("refund").task_results
    assert (polite.outcome, wrong.outcome) == (Outcome.ERRORED, Outcome.FAILED)

    report = Report(again)
    assert report.decision.word is Word.ERRORED
    for write in (html.write, json_report.write, junit.write, markdown.write):
        path = tmp_path / "report"
        write(path, report)
        text = path.read_text(encoding="utf-8")
        assert "used up its 3 turns" in text, write
    junit.write(tmp_path / "j.xml", report)
    assert 'type="incomplete"' in (tmp_path / "j.xml").read_text(encoding="utf-8")
    (late,) = (each for each in report.view.scenarios if each.scenario_id == "late")
    assert CUT in scenario_text(late)


@pytest.mark.parametrize("on_error", ["raise", "record"])
def test_a_journal_keeps_it(bench: Bench, tmp_path: Path, on_error: Any) -> None:
    """It ended, and nothing raised: the attempt is not made again."""
    options: dict[str, Any] = {"resume": tmp_path / "j.jsonl", "on_error": on_error}
    bench.orchestrator(interactive(POLITE), simulated_user_fn=MORE).run(**options)
    results = bench.orchestrator(interactive(POLITE), simulated_user_fn=MORE).run(**options)
    assert results.get_scenario_detail("refund").error_reason is Reason.INCOMPLETE
    assert len((tmp_path / "j.jsonl").read_text(encoding="utf-8").splitlines()) == 2


@pytest.mark.parametrize(
    ("agent", "user", "problem"),
    [
        pytest.param(reply, saying(""), "its message is empty", id="empty"),
        pytest.param(reply, saying(" \n "), "its message is empty", id="white space"),
        pytest.param(
            constant("I can help you with orders, returns and invoices."), echo,
            "it repeats what the agent said", id="a long echo",
        ),
        pytest.param(
            constant("One moment."), shouted_echo,
            "it repeats what the agent said", id="short echoes",
        ),
        pytest.param(
            reply, saying("Is it done?"), "it said the same 4 times in a row", id="repeats"
        ),
        pytest.param(
            reply, saying("As an AI language model, I cannot have an order."),
            "it speaks as a model", id="a model",
        ),
        pytest.param(
            reply, saying("I'm just an AI, so I have no address."), "it speaks as a model",
            id="an AI",
        ),
        *(
            pytest.param(reply, saying(said), "it speaks as a model", id=said[:12])
            for said in (
                "Als KI habe ich keine Bestellung.", "Ich bin nur ein Sprachmodell.",
                "En tant qu'IA, je n'ai pas de commande.",
                "Como modelo de lenguaje, no tengo pedidos.", "作为一个AI，我没有订单。",
                "Я языковая модель, у меня нет заказа.", "AIとして注文はありません。",
            )
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("signal", ["BYE", None])
def test_a_user_that_leaves_its_brief(
    bench: Bench, agent: Any, user: Any, problem: str, signal: str | None
) -> None:
    """Kind: a fault of the simulated user is taken for the agent's work."""
    scenario = interactive(
        equals("response", "never", "wrong"), max_turns=9, termination_signal=signal,
        simulated_user_persona="p",
    )  # fmt: skip
    options = {"agent_fn": agent, "simulated_user_fn": user}
    results = bench.orchestrator(scenario, **options).run(on_error="record")
    detail = results.get_scenario_detail("refund")
    assert (detail.outcome, detail.error_reason) == (Outcome.ERRORED, Reason.USER)
    assert problem in str(detail.error)
    (task,) = detail.task_results
    assert (task.outcome, task.reason) == (Outcome.ERRORED, Reason.USER)
    with pytest.raises(UserFaultError, match=problem):
        bench.orchestrator(scenario, **options).run()


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(("yes", "no", "yes", "no", "yes", "no", "BYE"), id="to and fro"),
        pytest.param(("next", "next", "go on", "next", "next", "BYE"), id="hardly repeats"),
        pytest.param(("Are you an AI?", "As an AI you should know.", "BYE"), id="asks about AI"),
        pytest.param(("RE: ONE", "BYE"), id="one short echo"),
        pytest.param(("GOODBYE?", "BYE-BYE"), id="a word that has the signal in it"),
        pytest.param(("BYES", "1BYE", "so: BYE."), id="more such words"),
        pytest.param(("Ich arbeite als KI-Forscher.", "BYE"), id="works with AI"),
    ],
)
def test_a_user_that_says_what_people_say(bench: Bench, messages: tuple[str, ...]) -> None:
    scenario = interactive(max_turns=9)
    results = bench.orchestrator(scenario, simulated_user_fn=saying(*messages)).run()
    assert [turn["user"] for turn in results.conversations[0].turns] == ["one", *messages[:-1]]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(JudgeError(Reason.REFUSAL, "no"), id="the model refuses"),
        pytest.param(JudgeError(Reason.PROVIDER, "503", permanent=True), id="provider"),
        pytest.param({"message": "   ", "done": False}, id="empty text of a model"),
        pytest.param("As you wish.", id="no JSON"),
    ],
)
def test_the_model_behind_the_user_fails(bench: Bench, fault: Any) -> None:
    """It is the user's error, and none of the agent."""
    judge = ScriptedJudge({"simulated_user": fault})
    user = SimulatedUser(judge, max_retries=0, backoff=Backoff(base_s=0.0))
    results = bench.orchestrator(interactive(POLITE), simulated_user_fn=user).run(on_error="record")
    detail = results.get_scenario_detail("refund")
    assert (detail.outcome, detail.error_reason) == (Outcome.ERRORED, Reason.USER)


def test_a_fault_of_the_user_is_tried_again(bench: Bench) -> None:
    """Another try may find it in its brief: `retries` count for it, too."""
    said = iter(["", "two", "three", "BYE"])

    def user(*given: object) -> str:
        return next(said)

    orchestrator = bench.orchestrator(interactive(POLITE), simulated_user_fn=user, sleep=no_pause)
    detail = orchestrator.run(retries=1).get_scenario_detail("refund")
    assert detail.outcome is Outcome.PASSED
    assert json.loads(json.dumps(detail.turns))[-1] == {"user": "three", "agent": "re: three"}
