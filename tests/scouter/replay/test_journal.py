"""A run that was killed is taken up: the same results as if nothing had happened."""

import functools
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.model.attributes import CONVERSATION_ID, SCENARIO_TRY
from scouter.replay.journal import Entry, Journal
from scouter.replay.orchestrator import EvalOrchestrator
from tests.scouter.replay import journal_agent
from tests.scouter.replay.bench import Bench, equals, spans_named
from tests.scouter.replay.journal_agent import NAMES, REPEATS, Agent, profiles, run, scenarios
from tests.scouter.replay.test_orchestrator import in_background

ROOT = Path(__file__).parents[3]


def killed(journal: Path, kill_at: int, concurrency: int = 1) -> None:
    """Run as a program of its own that kills itself in the middle of a call."""
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            journal_agent.__name__,
            str(journal),
            str(kill_at),
            str(concurrency),
        ],
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL


NO_IDS = {SCENARIO_TRY: "", CONVERSATION_ID: ""}


def shown(results: ScenarioEvalResults) -> Any:
    """Everything but ids that are made by chance, and times."""
    return {
        "metrics": results.metrics,
        "scenarios": [
            (
                r.scenario_id, r.attempt, r.outcome, r.error, r.response, r.turns,
                [task.model_dump() for task in r.task_results],
                [(span.name, {**span.attributes, **NO_IDS}) for span in r.traces],
            )
            for r in results.scenario_results
        ],
        "rows": [
            (
                row.scenario_id, row.attempt, row.record_id, row.outcome,
                [{**task.to_json(), "span_ids": len(task.span_ids)} for task in row.record.tasks],
            )
            for row in results.dataset_results["agent"]
        ],
        "ids": results.scenario_ids,
        "repeats": results.repeats,
        "reliability": results.reliability(),
    }  # fmt: skip


@pytest.fixture(scope="module")
def whole() -> ScenarioEvalResults:
    """The run that nobody interrupted."""
    return run(None)[0]


def test_the_whole_run_by_hand(whole: ScenarioEvalResults) -> None:
    """Two attempts of five: `c` fails both, `d` raises once; 7 of 10."""
    assert (whole.metrics.passed_scenarios, whole.metrics.total_scenarios) == (3, 5)
    assert whole.get_scenario_detail("d", attempt=1).error == "LookupError: d is shy"
    assert len(whole.dataset_results["agent"]) == 10


@pytest.mark.parametrize("kill_at", [1, 4, 10])
def test_kill_9_and_take_up(tmp_path: Path, whole: ScenarioEvalResults, kill_at: int) -> None:
    """The second run asks only what was not finished, and is the same as a whole one."""
    journal = tmp_path / "journal.jsonl"
    killed(journal, kill_at)
    resumed, agent = run(journal)
    assert agent.messages == (NAMES * REPEATS)[kill_at - 1 :]
    assert shown(resumed) == shown(whole)
    third, agent = run(journal)
    assert agent.messages == []
    assert shown(third) == shown(whole)


def test_kill_9_of_many_at_once(tmp_path: Path, whole: ScenarioEvalResults) -> None:
    """At most the attempts that were running are lost."""
    journal = tmp_path / "journal.jsonl"
    killed(journal, kill_at=7, concurrency=3)
    done = [json.loads(line) for line in journal.read_text("utf-8").splitlines()[1:]]
    assert len(done) >= 4  # seven began, three may have been running
    resumed, agent = run(journal)
    assert len(agent.messages) == 10 - len(done)
    assert shown(resumed) == shown(whole)


@pytest.mark.parametrize("cut", [1, 7, 200])
def test_a_half_written_line_is_cut_off(
    tmp_path: Path, whole: ScenarioEvalResults, cut: int
) -> None:
    """Power went while the last line was written."""
    journal = tmp_path / "journal.jsonl"
    run(journal)
    content = journal.read_bytes()
    journal.write_bytes(content[:-cut])
    _, agent = run(journal)
    assert agent.messages == ["e"]
    assert len(journal.read_text("utf-8").splitlines()) == 11
    assert shown(run(journal)[0]) == shown(whole)


def test_a_half_written_header(tmp_path: Path) -> None:
    """Nothing was done yet."""
    journal = tmp_path / "journal.jsonl"
    Journal(journal, scenarios(), {"agent": profiles()[0]}).close()
    journal.write_bytes(journal.read_bytes()[:20])
    assert len(run(journal)[1].messages) == 10


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ("scenarios: []", 1),
        ("scenarios: []\n", 1),
        ('{"a": 1}\n', 1),
        ("[]\n[]\n", 1),
    ],
)
def test_other_files_are_left_alone(tmp_path: Path, content: str, line: int) -> None:
    """A wrong path does not cost a file."""
    path = tmp_path / "scenarios.yaml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(FileFormatError, match="is no journal of a run") as caught:
        run(path)
    assert caught.value.line == line
    assert path.read_text(encoding="utf-8") == content


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"scenario_id": 1}',
        '{"scenario_id": "a", "attempt": 0, "spans": [{}]}',
        '{"scenario_id": "a", "attempt": 0, "records": {"agent": [{"uid": "x"}]}}',
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str) -> None:
    """In the middle nothing is half-written; somebody changed the file."""
    path = tmp_path / "journal.jsonl"
    run(path)
    lines = path.read_text("utf-8").splitlines()
    lines[3] = line
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    with pytest.raises(FileFormatError) as caught:
        run(path)
    assert (caught.value.path, caught.value.line) == (str(path), 4)
    assert str(caught.value).count(caught.value.path) == 1


def test_changed_scenarios_and_profiles_are_refused(tmp_path: Path) -> None:
    """Old attempts and new ones would be mixed up; the file stays as it is."""
    path = tmp_path / "journal.jsonl"
    given = {"agent": profiles()[0]}
    Journal(path, scenarios(), given).close()
    content = path.read_bytes()
    other = {"agent": AgentEvalProfile([equals("n", 2)], alias="agent")}
    for changed, now, words in [
        (scenarios(max_turns=3), given, "the scenarios changed since"),
        (list(scenarios())[::-1], given, "the scenarios changed since"),
        (scenarios(), other, "the tasks of profile 'agent' changed since"),
        (scenarios(), {**given, "b": profiles()[0]}, "the tasks of profile 'b' changed since"),
        (scenarios(), {}, "the tasks of profile 'agent' changed since"),
        (scenarios(max_turns=3), {}, "the scenarios and the tasks of profile 'agent' changed"),
    ]:
        with pytest.raises(ConfigError, match=words) as caught:
            Journal(path, changed, now)
        assert str(path) in str(caught.value)
    assert path.read_bytes() == content
    path.write_text('{"scouter_journal": 2, "scenarios": "", "profiles": {}}\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="a journal of format 2, and this version reads format 1"):
        Journal(path, scenarios(), given)


def test_answers_of_another_agent_are_refused(
    bench: Bench, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would be judged as those of the agent that is called now."""
    path = tmp_path / "journal.jsonl"
    scenario = EvalScenario("q", [equals("response", "re: q")])

    def other(query: str) -> str:
        return f"re: {query}"

    class Own(EvalOrchestrator):
        def execute_agent(self, scenario: EvalScenario) -> str:
            return other(scenario.initial_query)

    class Named(EvalOrchestrator):
        agent_name = "v1"

    bench.orchestrator(scenario).run(resume=path)
    assert capsys.readouterr().err == f"0 of 1 attempts taken from {path}; 1 to make now\n"
    bench.orchestrator(scenario, agent_fn=functools.partial(bench.agent)).run(resume=path)
    assert capsys.readouterr().err == f"1 of 1 attempts taken from {path}; 0 to make now\n"
    before, here = path.read_bytes(), f"{__name__}:"
    make = "test_answers_of_another_agent_are_refused.<locals>"
    for orchestrator, name in [
        (bench.orchestrator(scenario, agent_fn=other), f"{here}{make}.other"),
        (
            bench.orchestrator(scenario, agent_fn=Agent(bench.queue)),
            f"{journal_agent.__name__}:Agent",
        ),
        (Own(bench.queue, EvalScenarios([scenario])), f"{here}{make}.Own"),
        (Named(bench.queue, EvalScenarios([scenario]), other), "v1"),
    ]:
        with pytest.raises(ConfigError) as caught:
            orchestrator.run(resume=path)
        assert str(caught.value) == (
            f"{path}: this journal holds answers of the agent 'tests.scouter.replay.bench:"
            f"Bench.agent', and this run asks {name!r}; give each agent a file of its own"
        )
    assert path.read_bytes() == before


def test_one_writer(tmp_path: Path) -> None:
    """Two runs into one journal would each do all the work."""
    path = tmp_path / "journal.jsonl"
    with (
        Journal(path, scenarios(), {}),
        pytest.raises(ConfigError, match="another run is writing this journal"),
    ):
        Journal(path, scenarios(), {})
    Journal(path, scenarios(), {}).close()
    with pytest.raises(FileFormatError, match="cannot be opened"):
        Journal(tmp_path, scenarios(), {})


def test_failed_attempts_are_run_again_where_failures_raise(bench: Bench, tmp_path: Path) -> None:
    """`on_error="raise"` cannot be content with a failure that was only written down."""
    path = tmp_path / "journal.jsonl"
    failures = [LookupError()]

    def agent(query: str) -> str:
        if failures:
            raise failures.pop()
        return bench.agent(query)

    orch = bench.orchestrator(EvalScenario("q", [equals("response", "re: q")]), agent_fn=agent)
    assert orch.run(resume=path, on_error="record").metrics.passed_scenarios == 0
    assert orch.run(resume=path, on_error="record").metrics.passed_scenarios == 0
    assert orch.run(resume=path).metrics.passed_scenarios == 1
    assert orch.run(resume=path, on_error="record").metrics.passed_scenarios == 1  # the later line


def test_more_repeats_and_fewer(tmp_path: Path) -> None:
    """The number of repeats is no part of what a journal is about."""
    path = tmp_path / "journal.jsonl"
    run(path)
    assert run(path, repeats=1)[0].repeats == 1
    results, agent = run(path, repeats=3)
    assert agent.messages == NAMES
    assert results.repeats == 3


TALKS = {
    "played": EvalScenario("one", id="talk", termination_signal="BYE"),
    "fixed": EvalScenario("one", id="talk", predefined_turns=["two", "three"]),
}


@pytest.mark.parametrize("concurrency", [1, 2])
@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize("scenario", TALKS.values(), ids=TALKS.keys())
def test_the_times_of_turns_are_in_the_journal(
    bench: Bench, tmp_path: Path, scenario: EvalScenario, kind: str, concurrency: int
) -> None:
    """Each span is in its turn by them, in the run that measured and in the one that goes on."""
    later = {"one": "two", "two": "three", "three": "BYE"}

    async def in_loop(query: str) -> str:
        return bench.agent(query)

    def play(query: str, answer: str, history: list[Any]) -> str:
        return later[answer.removeprefix("re: ")]

    path = tmp_path / "journal.jsonl"
    orchestrator = bench.orchestrator(
        scenario, agent_fn=bench.agent if kind == "plain" else in_loop, simulated_user_fn=play
    )
    whole = orchestrator.run(resume=path, concurrency=concurrency, repeats=2)
    again = orchestrator.run(resume=path, concurrency=concurrency, repeats=2)
    for attempt in range(2):
        found, resumed = (each.get_scenario_detail("talk", attempt) for each in (whole, again))
        assert resumed.turn_times_ns == found.turn_times_ns
        assert [turn["user"] for turn in resumed.turns] == ["one", "two", "three"]
        for (sent_ns, answered_ns), span in zip(resumed.turn_times_ns, resumed.traces, strict=True):
            assert sent_ns <= span.start_ns <= span.end_ns <= answered_ns
        times = [moment for turn in resumed.turn_times_ns for moment in turn]
        assert times == sorted(times)


def test_what_came_late_is_in_the_journal(bench: Bench, tmp_path: Path) -> None:
    """A thread of the first scenario emits while the second one runs."""
    go_on = threading.Event()
    threads: list[threading.Thread] = []

    def late() -> None:
        assert go_on.wait(120)
        bench.agent("late")

    def agent(query: str) -> str:
        if query == "first":
            threads.append(in_background(late))
        else:
            go_on.set()
            threads[0].join(120)
        return bench.agent(query)

    def no_agent(query: str) -> str:
        raise AssertionError(query)

    path = tmp_path / "journal.jsonl"
    cases = [
        EvalScenario("first", [spans_named("step", 2)], id="first"),
        EvalScenario("last", [spans_named("step", 1)], id="last"),
    ]
    no_agent.__qualname__ = agent.__qualname__  # the same agent, as far as a journal can know
    whole = bench.orchestrator(*cases, agent_fn=agent).run(resume=path)
    again = bench.orchestrator(*cases, agent_fn=no_agent).run(resume=path)
    assert whole.metrics.overall_pass_rate == 1.0
    assert again.metrics == whole.metrics
    for results in (whole, again):
        assert results.dataset_results["agent"].scenario_ids == ("first", "first", "last")


def test_entries_round_trip(tmp_path: Path) -> None:
    """Entries are read as they were written."""
    path = tmp_path / "journal.jsonl"
    entry = Entry(
        scenario_id="a\u2028\n\ud800",
        attempt=3,
        response={"x": [1.5, None, "日本"]},
        turns=({"user": "q", "agent": None},),
        error="E",
        duration_ns=5,
    )
    with Journal(path, [], {}) as journal:
        journal.append(entry)
    with Journal(path, [], {}) as journal:
        assert list(journal.entries) == [entry]
