"""EvalScenario and EvalScenarios in code."""

import pickle
import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scouter.errors import ConfigError
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.task import TasksFile
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask

CONTAINS = AssertionTask(
    id="says",
    context_path="response",
    operator=ComparisonOperator.Contains,
    expected_value="${expected_outcome}",
)
TRACE = TraceAssertionTask(
    id="fast",
    assertion=TraceAssertion.trace_duration(),
    operator=ComparisonOperator.LessThan,
    expected_value=1000,
)
AGENT = AgentAssertionTask(
    id="searched",
    assertion=AgentAssertion.tool_called("search"),
    operator=ComparisonOperator.Equals,
    expected_value=True,
)


def test_positional_order_is_the_originals() -> None:
    """Nine arguments, in the order of the original's constructor."""
    scenario = EvalScenario(
        "q", [CONTAINS], "id", "outcome", ["turn"], "persona", "DONE", 3, {"k": 1}
    )
    assert scenario.model_dump(exclude={"tasks"}) == {
        "id": "id",
        "initial_query": "q",
        "expected_outcome": "outcome",
        "predefined_turns": ["turn"],
        "simulated_user_persona": "persona",
        "termination_signal": "DONE",
        "max_turns": 3,
        "metadata": {"k": 1},
    }
    assert scenario.tasks == (CONTAINS,)


def test_defaults() -> None:
    """As in the document's table."""
    scenario = EvalScenario("q")
    assert len(scenario.id) == 36
    assert (scenario.predefined_turns, scenario.max_turns, scenario.tasks) == ([], 10, ())
    assert EvalScenario("r").id != scenario.id


def test_an_id_is_made_from_the_content() -> None:
    """A baseline of last week finds the scenario again; any other content is another one."""
    made = EvalScenario("q", [CONTAINS], metadata={"a": 1, "b": 2})
    again = EvalScenario("q", [CONTAINS], metadata={"b": 2, "a": 1})
    assert made.id == again.id == str(uuid.UUID(made.id))
    assert EvalScenario.model_validate(made.model_dump(exclude={"id"})).id == made.id
    # Written down from a first run: a stored baseline depends on it.
    assert EvalScenario("q").id == "030761ab-2093-56f0-a82c-53a4392a227a"
    others = [
        EvalScenario("q", [CONTAINS]),
        EvalScenario("q", [CONTAINS], metadata={"a": 1, "b": 3}),
        EvalScenario("q", metadata={"a": 1, "b": 2}),
        EvalScenario("q\ud800", [CONTAINS], metadata={"a": 1, "b": 2}),
    ]
    assert len({made.id, *(scenario.id for scenario in others)}) == 5


def test_equal_content_is_numbered(tmp_path: Path) -> None:
    """In the order of the collection, again and again; ids that somebody gave stay."""
    path = tmp_path / "s.jsonl"
    path.write_text('{"initial_query": "q"}\n' * 3 + '{"initial_query": "q", "id": "own"}\n')
    scenarios = EvalScenarios.from_path(path)
    first = EvalScenario("q").id
    ids = [first, f"{first}-2", f"{first}-3", "own"]
    assert [scenario.id for scenario in scenarios] == ids
    assert [scenario.id for scenario in EvalScenarios.from_path(path)] == ids
    assert [scenario.id for scenario in EvalScenarios(list(scenarios))] == ids
    stored = EvalScenarios.model_validate_json(scenarios.model_dump_json())
    assert [scenario.id for scenario in stored] == ids


@pytest.mark.parametrize(
    ("persona", "signal", "interactive"),
    [(None, None, False), ("a cook", None, True), (None, "DONE", True), ("a cook", "DONE", True)],
)
def test_persona_or_signal_makes_it_interactive(
    persona: str | None, signal: str | None, interactive: bool
) -> None:
    """The document says or; the original looked at the persona only (defect 16)."""
    scenario = EvalScenario("q", simulated_user_persona=persona, termination_signal=signal)
    assert scenario.is_interactive() is interactive
    assert not scenario.is_multi_turn()
    assert not scenario.has_tasks()


def test_tasks_by_kind() -> None:
    """Three kinds, each found under its own name; a TasksFile will do, too."""
    scenario = EvalScenario("q", TasksFile([CONTAINS, TRACE, AGENT]))
    assert scenario.assertion_tasks == [CONTAINS]
    assert scenario.trace_assertion_tasks == [TRACE]
    assert scenario.agent_assertion_tasks == [AGENT]
    assert scenario.has_tasks()


@pytest.mark.parametrize(
    "fields",
    [
        {"max_turns": 0},
        {"termination_signal": ""},
        {"id": ""},
        {"predefined_turns": "one text"},
        {"initial_querry": "typo"},
        {"metadata": ["no object"]},
    ],
    ids=str,
)
def test_bad_fields_are_refused(fields: dict[str, object]) -> None:
    """Each is named in the error."""
    with pytest.raises(ValidationError, match=next(iter(fields))):
        EvalScenario(**{"initial_query": "q", **fields})  # type: ignore[arg-type]


def test_tasks_that_form_no_plan_are_refused_with_the_scenario() -> None:
    """Two tasks of one id."""
    with pytest.raises(ConfigError, match=r"scenario 'capital': .*'says'"):
        EvalScenario("q", [CONTAINS, CONTAINS], id="capital")


def test_ids_are_unique_in_a_collection() -> None:
    """Results are looked up by id, so two scenarios cannot share one."""
    with pytest.raises(ConfigError, match="two scenarios have the id 'a'"):
        EvalScenarios([EvalScenario("q", id="a"), EvalScenario("r", id="a")])


def test_collection_is_a_sequence() -> None:
    """Length, index and iteration."""
    scenarios = EvalScenarios(scenarios=[EvalScenario("q", id="a"), EvalScenario("r", id="b")])
    assert [scenario.id for scenario in scenarios] == ["a", "b"]
    assert (len(scenarios), scenarios[1].initial_query) == (2, "r")
    assert not EvalScenarios(scenarios=[])


texts = st.text(st.characters(codec="utf-8"), max_size=20)


@given(
    query=texts,
    outcome=st.none() | texts,
    turns=st.lists(texts, max_size=3),
    persona=st.none() | texts.filter(bool),
    max_turns=st.integers(1, 100),
    metadata=st.none() | st.dictionaries(texts, st.integers() | texts | st.booleans()),
)
def test_json_round_trip(
    query: str,
    outcome: str | None,
    turns: list[str],
    persona: str | None,
    max_turns: int,
    metadata: dict[str, object] | None,
) -> None:
    """The JSON of any scenario gives the same scenario; so does pickle."""
    scenario = EvalScenario(
        query,
        [CONTAINS, TRACE, AGENT],
        expected_outcome=outcome,
        predefined_turns=turns,
        simulated_user_persona=persona,
        max_turns=max_turns,
        metadata=metadata,  # type: ignore[arg-type]
    )
    scenarios = EvalScenarios([scenario])
    assert EvalScenarios.model_validate_json(scenarios.model_dump_json()) == scenarios


def test_pickle() -> None:
    """Scenarios travel to worker processes."""
    scenario = EvalScenario("q")
    assert pickle.loads(pickle.dumps(scenario)) == scenario  # noqa: S301 our own bytes
