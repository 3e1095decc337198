"""Agents that remember: instances of a class, sessions, and the history of a conversation."""

import asyncio
import functools
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.model.attributes import CONVERSATION_ID, ENTITY_PREFIX, SCENARIO_TRY
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.collected import records_of_traces
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.capture import CAPTURE
from tests.scouter.replay.bench import Bench, equals, spans_named

SIX = [
    EvalScenario("one", id=f"s{number}", predefined_turns=["two", "three"]) for number in range(6)
]
TALK = EvalScenario("one", id="talk", simulated_user_persona="p", max_turns=3)
WAYS: dict[str, dict[str, Any]] = {
    "in turn": {},
    "at once": {"concurrency": 4},
    "time limit": {"timeout_s": 60.0},
    "repeats": {"repeats": 2, "concurrency": 4},
}


def more(*given: object) -> str:
    """A user that never has enough."""
    return "more"


def no_pause(seconds: float) -> None:
    """Wait for nothing."""


Said = list[tuple[str, str, tuple[str, ...]]]


def answers(results: ScenarioEvalResults) -> list[list[object]]:
    """The agent's answers in each attempt, turn by turn."""
    attempts = [*results.conversations, *results.scenario_results]
    return [[turn["agent"] for turn in attempt.turns] for attempt in attempts]


class Desk:
    """Counts its turns, and works in one thread only, as SQLite's connections do."""

    made: list[int] = []  # noqa: RUF012 - the tests count instances by it

    def __init__(self) -> None:
        self.turns = 0
        self.thread = threading.get_ident()
        Desk.made.append(self.thread)

    def __call__(self, message: str) -> int:
        assert self.thread == threading.get_ident()
        self.turns += 1
        return self.turns


class AsyncDesk:
    """The same in an event loop."""

    def __init__(self) -> None:
        self.turns = 0

    async def __call__(self, message: str) -> int:
        self.turns += 1
        await asyncio.sleep(0)
        return self.turns


class Static:
    """One whose instances are called through a class method, with what all share."""

    @classmethod
    def __call__(cls, message: str, history: list[Any]) -> int:
        return len(history) // 2 + 1


def of_factory(queue: ScouterQueue) -> Callable[[str], int]:
    """Make an agent that counts."""
    turns: list[str] = []

    def answer(message: str) -> int:
        turns.append(message)
        return len(turns)

    return answer


def class_of_factory(queue: ScouterQueue) -> type[AsyncDesk]:
    return AsyncDesk


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("agent", [AsyncDesk, Static, of_factory, class_of_factory])
def test_each_attempt_has_an_agent_of_its_own(bench: Bench, agent: Any, way: str) -> None:
    """Turns count from one in every attempt, however many run at once."""
    results = bench.orchestrator(*SIX, agent_fn=agent).run(**WAYS[way])
    assert answers(results) == [[1, 2, 3]] * 6 * WAYS[way].get("repeats", 1)


@pytest.mark.parametrize("way", ["at once", "repeats", "time limit"])
def test_an_instance_is_made_in_the_thread_that_asks_it(bench: Bench, way: str) -> None:
    """One each, no more: making one may cost."""
    Desk.made.clear()
    results = bench.orchestrator(*SIX, agent_fn=Desk).run(**WAYS[way])
    assert answers(results) == [[1, 2, 3]] * 6 * WAYS[way].get("repeats", 1)
    assert len(Desk.made) == len(answers(results))
    assert threading.get_ident() not in Desk.made


def test_the_conversation_with_a_simulated_user_has_one_instance(bench: Bench) -> None:
    orch = bench.orchestrator(TALK, agent_fn=AsyncDesk, simulated_user_fn=more)
    assert answers(orch.run(concurrency=2)) == [[1, 2, 3]]


def test_a_retry_starts_anew(bench: Bench) -> None:
    """Its instance, its session and its history are those of no failed try."""
    sessions: list[str] = []

    class Shaky:
        def __init__(self, session: str) -> None:
            sessions.append(session)
            self.turns = 0

        def __call__(self, message: str, history: list[Any]) -> int:
            self.turns += 1
            assert len(history) == 2 * (self.turns - 1)
            if message == "two" and len(sessions) == 1:
                raise LookupError(message)
            return self.turns

    orch = bench.orchestrator(SIX[0], agent_fn=Shaky, sleep=no_pause)
    assert answers(orch.run(retries=1)) == [[1, 2, 3]]
    assert len(set(sessions)) == 2


def test_an_agent_that_cannot_be_made_fails_its_attempt(bench: Bench) -> None:
    """And no other one."""
    made: list[int] = []

    class Rare:
        def __init__(self) -> None:
            made.append(1)
            if len(made) == 2:
                raise LookupError("no room")

        def __call__(self, message: str) -> str:
            return message

    results = bench.orchestrator(*SIX, agent_fn=Rare).run(on_error="record")
    assert [item.error for item in results.scenario_results] == ["LookupError: no room"]
    assert answers(results)[:5] == [["one", "two", "three"]] * 5


def note(said: Said, message: str, session: str, history: list[dict[str, str]]) -> str:
    said.append((message, session, tuple(f"{m['role']}: {m['content']}" for m in history)))
    history.append({"role": "user", "content": "the list is the agent's own"})
    return message.upper()


class Method:
    def __init__(self, said: Said) -> None:
        self.said = said

    def answer(self, message: str, session: str, history: list[Any]) -> str:
        return note(self.said, message, session, history)

    def __call__(self, message: str, *, history: list[Any], session: str) -> str:
        return note(self.said, message, session, history)


def kinds(said: Said) -> dict[str, Any]:  # noqa: C901 - many small functions
    """Functions of every kind that take both."""
    wanted = functools.partial(note, said)

    def plain(message: str, session: str, history: list[Any]) -> str:
        return wanted(message, session, history)

    def optional(message: str, history: Any = None, session: str = "", **more: Any) -> str:
        assert not more
        return wanted(message, session, history)

    def message_last(session: str, history: list[Any], message: str) -> str:
        return wanted(message, session, history)

    def with_queue(
        message: str, queue: ScouterQueue, session: str, history: list[Any], mood: str = "calm"
    ) -> str:
        assert "agent" in queue
        assert mood == "calm"
        return wanted(message, session, history)

    async def in_loop(message: str, session: str, history: list[Any]) -> str:
        await asyncio.sleep(0)
        return wanted(message, session, history)

    def wrapping(message: str, session: str, history: list[Any]) -> Any:
        return in_loop(message, session, history)

    def generator(message: str, session: str, history: list[Any]) -> Generator[str]:
        yield from wanted(message, session, history)

    async def stream(message: str, session: str, history: list[Any]) -> AsyncGenerator[str]:
        for letter in wanted(message, session, history):
            await asyncio.sleep(0)
            yield letter

    async def late_stream(message: str, session: str, history: list[Any]) -> Any:
        return stream(message, session, history)

    @functools.wraps(plain)
    def decorated(*args: Any, **kwargs: Any) -> str:
        return plain(*args, **kwargs)

    def bound_first(prefix: str, message: str, history: list[Any], session: str) -> str:
        assert prefix == "p"
        return wanted(message, session, history)

    def made(queue: ScouterQueue) -> Method:
        return Method(said)

    method = Method(said)
    return {
        "plain": plain, "optional": optional, "message last": message_last, "queue": with_queue,
        "async": in_loop, "wrapping": wrapping, "generator": generator, "stream": stream,
        "late stream": late_stream, "decorated": decorated,
        "partial": functools.partial(bound_first, "p"),
        "partial by name": functools.partial(with_queue, mood="calm"),
        "method": method.answer, "object": method, "class": made,
    }  # fmt: skip


@pytest.mark.parametrize("way", ["in turn", "at once"])
@pytest.mark.parametrize("kind", kinds([]))
def test_session_and_history_by_name(bench: Bench, kind: str, way: str) -> None:
    """The history holds what was said before the message; the session is one per attempt."""
    said: Said = []
    agent = kinds(said)[kind]
    results = bench.orchestrator(*SIX[:2], agent_fn=agent).run(**WAYS[way])
    assert answers(results) == [["ONE", "TWO", "THREE"]] * 2
    turns = ("user: one", "assistant: ONE", "user: two", "assistant: TWO")
    sessions = list(dict.fromkeys(session for _, session, _ in said))
    assert len(sessions) == 2
    for session in sessions:
        own = [(message, history) for message, whose, history in said if whose == session]
        assert own == [("one", ()), ("two", turns[:2]), ("three", turns)]


@pytest.mark.parametrize("kind", ["plain", "async", "stream", "class"])
def test_history_with_a_simulated_user(bench: Bench, kind: str) -> None:
    said: Said = []
    replies = iter(["two", "three"])

    def user(*given: object) -> str:
        return next(replies)

    orch = bench.orchestrator(TALK, agent_fn=kinds(said)[kind], simulated_user_fn=user)
    assert answers(orch.run()) == [["ONE", "TWO", "THREE"]]
    assert [len(history) for _, _, history in said] == [0, 2, 4]


def test_the_user_hears_what_the_agent_said_whoever_called_it(bench: Bench) -> None:
    """A method of one's own may ask in other words, and twice: one exchange all the same."""
    histories: list[Any] = []

    class Own(EvalOrchestrator):
        def execute_agent_turn(self, scenario: EvalScenario, message: str) -> Any:
            super().execute_agent_turn(scenario, "hello")
            return super().execute_agent_turn(scenario, f"please: {message}")

    def user(query: str, answer: str, history: list[Any]) -> str:
        histories.append([*history, answer])
        return "two"

    results = Own(bench.queue, EvalScenarios([TALK]), lambda message: message, user).run()
    assert histories[1] == [{"user": "one", "agent": "please: one"}, "please: two"]
    assert answers(results) == [["please: one", "please: two", "please: two"]]


def test_execute_agent_of_ones_own_asks_turn_by_turn(bench: Bench) -> None:
    """It has the session, and what it asks is the history."""
    said: Said = []

    class Own(EvalOrchestrator):
        def execute_agent(self, scenario: EvalScenario) -> str:
            for message in (scenario.initial_query, "again"):
                answer = self.execute_agent_turn(scenario, message)
            return f"{self.session_id()} {answer}"

    orch = Own(bench.queue, EvalScenarios([EvalScenario("one", id="s")]), kinds(said)["plain"])
    (conversation,) = orch.run(concurrency=2).conversations
    assert conversation.response == f"{said[0][1]} AGAIN"
    assert said[1] == ("again", said[0][1], ("user: one", "assistant: ONE"))
    assert orch.session_id() != orch.session_id()  # outside of a run


@pytest.mark.parametrize(
    ("answer", "content"),
    [
        ("text", "text"),
        ({"städte": [1, None]}, '{"städte": [1, null]}'),
        (None, ""),
        (2.5, "2.5"),
    ],
)
def test_answers_that_are_no_text(bench: Bench, answer: object, content: str) -> None:
    seen: list[Any] = []

    def agent(message: str, history: list[Any]) -> object:
        seen.append(history)
        return answer

    bench.orchestrator(SIX[0], agent_fn=agent).run()
    assert seen[1] == [
        {"role": "user", "content": "one"}, {"role": "assistant", "content": content},
    ]  # fmt: skip


def test_functions_of_the_message_alone_work_as_ever(bench: Bench) -> None:
    """Their one parameter may have any name, and parameters that were bound before stay."""

    def session(session: str) -> str:
        return session

    def history(history: str) -> str:
        return history

    def anything(*args: Any, **kwargs: Any) -> str:
        assert not kwargs
        return args[0]

    def more(message: str, **kwargs: Any) -> str:
        assert not kwargs
        return message

    def named(message: str, session: str) -> str:
        return f"{session} {message}"

    @functools.cache
    def cached(message: str, session: str) -> bool:
        return message == "one" and len(session) > 1

    @functools.wraps(named)
    def hiding(message: str) -> str:
        return message

    agents: list[tuple[Any, object]] = [
        (session, "one"), (history, "one"), (anything, "one"), (more, "one"), (str, "one"),
        (str.upper, "ONE"), (hiding, "one"), (functools.partial(named, session="mine"), "mine one"),
        (len, 3), (cached, True),
    ]  # fmt: skip
    for agent, answer in agents:
        assert answers(bench.orchestrator(SIX[0], agent_fn=agent).run())[0][0] == answer, agent


@pytest.mark.parametrize(("items", "answer"), [(["a", "b"], "ab"), ([1, "b"], [1, "b"]), ([], "")])
def test_what_a_generator_yields_is_the_answer(
    bench: Bench, items: list[object], answer: object
) -> None:
    def agent(message: str) -> Generator[object]:
        yield from items

    assert answers(bench.orchestrator(SIX[0], agent_fn=agent).run()) == [[answer] * 3]


class NeedsMore:
    def __init__(self, model: str) -> None:
        raise AssertionError(model)

    def __call__(self, message: str) -> str:
        raise AssertionError(message)


class TwoMessages:
    def __call__(self, message: str, other: str) -> str:
        raise AssertionError(message, other)


async def async_maker(queue: ScouterQueue) -> Any:
    raise AssertionError(queue)


def positional(message: str, session: str, /) -> str:
    raise AssertionError(message, session)


def no_message(session: str, history: list[Any]) -> str:
    raise AssertionError(session, history)


def keyword_message(*, message: str) -> str:
    raise AssertionError(message)


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (NeedsMore, "it needs model to be made; expected nothing, or parameters called 'queue'"),
        (TwoMessages, "it takes message, other; expected one parameter, the message, and any of"),
        (async_maker, "it makes the agent and is async; expected a plain function"),
        (positional, "it takes message, session; expected"),
        (keyword_message, "it takes message; expected"),
    ],
)
def test_what_does_not_fit_is_refused_before_any_call(bench: Bench, agent: Any, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        bench.orchestrator(SIX[0], agent_fn=agent).run(on_error="record")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (7, "made int for the agent, which cannot be called with a message"),
        (object, "made object for the agent, which cannot be called with a message"),
        (TwoMessages(), "made TwoMessages for the agent, which takes message, other; expected"),
    ],
)
def test_what_was_made_for_an_agent_and_is_none(bench: Bench, made: object, words: str) -> None:
    def make(queue: ScouterQueue) -> object:
        return made

    with pytest.raises(ConfigError) as caught:
        bench.orchestrator(SIX[0], agent_fn=make).run(on_error="record")
    assert words in str(caught.value)


# --- the session on spans and records ---


@pytest.mark.parametrize("way", WAYS)
def test_the_session_is_on_spans_and_records(bench: Bench, way: str) -> None:
    """Every span of an attempt has it, and every record that names no other session."""
    scenarios = [each.model_copy(update={"tasks": [spans_named("step", 3)]}) for each in SIX]
    messages: dict[str, list[str]] = {}

    def agent(message: str, session: str) -> str:
        messages.setdefault(session, []).append(message)
        with bench.tracer.start_as_current_span("step") as span:
            span.add_queue_item("agent", EvalRecord(context={"said": message}))
            own = EvalRecord(context={}, session_id="my own")
            bench.queue["agent"].insert(own)
        return session

    results = bench.orchestrator(*scenarios, agent_fn=agent).run(**WAYS[way])
    assert len(messages) == 6 * WAYS[way].get("repeats", 1)
    assert set(map(tuple, messages.values())) == {("one", "two", "three")}
    for attempt in results.scenario_results:
        assert attempt.passed
        assert [span.attributes[CONVERSATION_ID] for span in attempt.traces] == (
            [attempt.response] * 3
        )
        assert attempt.response in messages
    sessions = [record.session_id for record in results.dataset_results["agent"].records]
    assert sorted(sessions) == sorted([*messages, *["my own"] * len(messages)] * 3)


def test_a_record_that_is_inserted_again_and_one_that_got_a_session_later(bench: Bench) -> None:
    sessions_seen: list[str] = []

    def agent(message: str, session: str) -> None:
        sessions_seen.append(session)
        record, named = EvalRecord(context={}), EvalRecord(context={})
        named.session_id = "later"
        for each in (record, record, named, named):
            bench.queue["agent"].insert(each)

    results = bench.orchestrator(EvalScenario("q"), agent_fn=agent).run()
    sessions = [record.session_id for record in results.dataset_results["agent"].records]
    assert sessions == [sessions_seen[0], sessions_seen[0], "later", "later"]


def test_a_conversation_that_the_agent_names_itself_stays(bench: Bench) -> None:
    """Also one that is named while the span runs; and the user's player has none."""

    def agent(message: str) -> str:
        with bench.tracer.start_as_current_span("early", attributes={CONVERSATION_ID: "a"}):
            pass
        with bench.tracer.start_as_current_span("late") as span:
            span.set_attribute(CONVERSATION_ID, "b")
        return message

    def user(*given: object) -> None:
        with bench.tracer.start_as_current_span("user"):
            found.extend(CAPTURE.spans())

    found: list[Any] = []
    results = bench.orchestrator(TALK, agent_fn=agent, simulated_user_fn=user).run()
    (conversation,) = results.conversations
    assert [span.attributes[CONVERSATION_ID] for span in conversation.traces] == ["a", "b"]


def test_nothing_is_marked_outside_of_a_replay(bench: Bench) -> None:
    CAPTURE.enable()
    bench.queue.enable_capture()
    try:
        bench.agent("hello")
        (span,) = CAPTURE.drain()
        (record,) = bench.queue.drain_records("agent")
    finally:
        bench.queue.disable_capture()
        CAPTURE.disable()
    assert not {CONVERSATION_ID, SCENARIO_TRY} & span.attributes.keys()
    assert record.session_id not in {"", "-"}


def test_a_record_made_for_a_trace_is_in_its_conversation(bench: Bench) -> None:
    profile = AgentEvalProfile(alias="agent", tasks=[spans_named("step", 1)])

    def agent(message: str, session: str) -> str:
        with bench.tracer.start_as_current_span("step") as span:
            span.set_attribute(ENTITY_PREFIX + profile.uid, profile.uid)
        return session

    scenario = EvalScenario("q", [equals("metadata", {})], id="s", metadata={})
    detail = bench.orchestrator(scenario, agent_fn=agent).run().get_scenario_detail("s")
    (record,) = records_of_traces(profile, detail.traces, [])
    assert record.session_id == detail.response
