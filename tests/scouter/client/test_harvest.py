"""Evaluations that become scenarios, from a scripted collector."""

from collections.abc import Iterator
from typing import Any

import pytest

from scouter.client.client import ScouterClient
from scouter.client.expectation import Conversation
from scouter.client.harvest import Wanted, harvest, harvested, scenario_yaml
from scouter.client.models.evaluations import Evaluation
from scouter.client.models.records import Record
from scouter.client.models.traces import Trace
from scouter.evaluate.tasks.agent import AgentAssertionTask, ToolCallSequenceAssertion
from scouter.model.agent_work import ToolCall
from tests.support.answers import whole
from tests.support.served import Say, Script, run_script


@pytest.fixture
def script() -> Iterator[Script]:
    with run_script() as running:
        yield running


def verdict(uid: str, outcome: str, second: int, revision: int = 1) -> dict[str, Any]:
    at = f"2026-01-01T00:00:{second:02d}Z"
    return whole(Evaluation, **{
        "evaluation_id": f"{uid} {revision}", "scope": "record", "record_id": "", "uid": uid,
        "profile": "p", "profile_version": "d", "revision": revision, "outcome": outcome,
        "completeness": "complete", "created_at": at, "evaluated_at": at, "tasks": [],
    })  # fmt: skip


def record(uid: str, context: dict[str, Any] | None = None) -> Say:
    body = whole(Record, **{
        "uid": uid, "record_id": "", "session_id": "", "trace_id": None, "profile": "p",
        "state": "evaluated", "created_at": "2026-01-01T00:00:00Z",
        "received_at": "2026-01-01T00:00:00Z", "context": context or {"input": "why?"},
        "evaluations": [],
    })  # fmt: skip
    return Say(body=body)


@pytest.mark.parametrize("is_sample", [False, True])
def test_what_is_judged_again_between_two_lists_is_there_once(
    script: Script, is_sample: bool
) -> None:
    """u1 failed when the first list was made, and had errored when the second was."""
    failed = [verdict("u2", "failed", 2), verdict("u1", "failed", 1)]
    errored = [verdict("u1", "errored", 3, revision=2)]
    lists = [Say(body={"items": each, "next_cursor": None}) for each in (failed, errored)]
    profiles = Say(body={"items": [], "next_cursor": None})
    script.answers = [*lists, record("u2"), profiles, record("u1")]
    with ScouterClient(script.url) as client:
        found = harvest(client, Wanted(failed=True, is_sample=is_sample, limit=3))
    assert [(each.scenario.id, each.evaluation.revision) for each in found.items] == [
        ("u2", 1),
        ("u1", 2),
    ]
    assert script.answers == []


def in_session(uid: str, second: int, outcome: str = "passed") -> dict[str, Any]:
    return verdict(uid, outcome, second) | {"session_id": "s"}


def record_of(uid: str, *words: str) -> Say:
    """A record whose context has the conversation so far."""
    messages = [{"role": "user", "content": each} for each in words]
    return record(uid, {"messages": messages, "answer": f"to {uid}"})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param([["a"], ["a", "b"], ["a", "b", "c"]], ["a", "b", "c"], id="all so far"),
        pytest.param([["a"], ["b"], ["c"]], ["a", "b", "c"], id="the question alone"),
        pytest.param([["a"], ["a", "b"], ["b", "c"]], ["a", "b", "c"], id="the last two"),
        pytest.param([["yes"], ["yes"]], ["yes", "yes"], id="the same twice"),
        pytest.param([["a"], ["a", "a"], ["a", "a", "b"]], ["a", "a", "b"], id="twice, all so far"),
        pytest.param([["a", "b"], ["x", "y"]], ["a", "b", "x", "y"], id="nothing in common"),
    ],
)
def test_a_whole_session_is_one_scenario(
    script: Script, words: list[list[str]], expected: list[str]
) -> None:
    """The newest record is found first, and the session is requested once, oldest first."""
    uids = [f"u{n}" for n in range(len(words))]
    newest = [in_session(uid, n) for n, uid in reversed(list(enumerate(uids)))]
    profiles = Say(body={"items": [], "next_cursor": None})
    found_all = Say(body={"items": newest, "next_cursor": None})
    records = [record_of(uid, *each) for uid, each in zip(uids, words, strict=True)]
    script.answers = [found_all, found_all, *records, profiles]
    with ScouterClient(script.url) as client:
        (item,) = harvest(client, Wanted(whole_sessions=True, limit=5)).items
    scenario = item.scenario
    assert [scenario.initial_query, *scenario.predefined_turns] == expected
    assert scenario.id == uids[-1]
    assert [each.uid for each in item.earlier] == uids[:-1]
    assert (scenario.metadata or {})["observed_answer"] == f"to {uids[-1]}"
    assert script.answers == []


def test_of_profiles_that_judge_the_same_traces_one_counts(script: Script) -> None:
    """That of the record that was looked for; a turn that only the other one judges is there."""
    session = [
        in_session(f"{profile}{n}", n) | {"trace_id": f"{n}" * 32, "profile": profile}
        for n, profiles in enumerate([("p", "q"), ("q",), ("p", "q")])
        for profile in profiles
    ]
    lists = [Say(body={"items": each, "next_cursor": None}) for each in (session[3:4], session)]
    trace = Say(body=whole(Trace))
    read = [say for uid in ("p0", "q1", "p2") for say in (record_of(uid, uid), trace)]
    script.answers = [*lists, *read, Say(body={"items": [], "next_cursor": None})]
    with ScouterClient(script.url) as client:
        (item,) = harvest(client, Wanted(profile="p", whole_sessions=True)).items
    assert [item.scenario.initial_query, *item.scenario.predefined_turns] == ["p0", "q1", "p2"]
    assert item.evaluation.profile == "p"
    assert script.answers == []


def test_records_of_one_trace_have_its_words_and_calls_once() -> None:
    exchange = Conversation(questions=("find",), answer=None, tool_calls=(ToolCall(name="find"),))
    verdicts = [in_session(f"u{n}", n) | {"trace_id": "1" * 32} for n in range(2)]
    item = harvested([(Evaluation.model_validate(each), exchange) for each in verdicts], None, None)
    assert (item.scenario.initial_query, item.scenario.predefined_turns) == ("find", [])
    assert [each.name for each in item.tool_calls] == ["find"]


def test_a_session_has_the_words_of_a_record_that_is_still_judged(script: Script) -> None:
    session = [in_session("u1", 1), in_session("u0", 0, "pending")]
    found_all = Say(body={"items": session, "next_cursor": None})
    profiles = Say(body={"items": [], "next_cursor": None})
    script.answers = [found_all, found_all, record_of("u0", "a"), record_of("u1", "b"), profiles]
    with ScouterClient(script.url) as client:
        (item,) = harvest(client, Wanted(whole_sessions=True)).items
    assert [item.scenario.initial_query, *item.scenario.predefined_turns] == ["a", "b"]


def test_a_session_is_left_out_with_the_words_that_nobody_knows(script: Script) -> None:
    silent = record("u0", {"mood": "good"})
    found_all = Say(body={"items": [in_session("u1", 1), in_session("u0", 0)], "next_cursor": None})
    script.answers = [found_all, found_all, silent, record_of("u1", "b")]
    with ScouterClient(script.url) as client:
        found = harvest(client, Wanted(whole_sessions=True))
    assert (found.items, [each.uid for each in found.silent]) == ([], ["u0"])


@pytest.mark.parametrize("first", ["passed", "failed"])
def test_the_tools_of_a_session_are_expected_only_if_all_of_it_passed(first: str) -> None:
    exchanges = [
        Conversation(questions=(name,), answer=None, tool_calls=(ToolCall(name=name),))
        for name in ("find", "book")
    ]
    verdicts = [in_session("u0", 0, first), in_session("u1", 1)]
    turns = zip(map(Evaluation.model_validate, verdicts), exchanges, strict=True)
    item = harvested(list(turns), None, None)
    tasks = item.scenario.tasks if first == "passed" else item.draft
    (assertion,) = [each.assertion for each in tasks if isinstance(each, AgentAssertionTask)]
    assert assertion == ToolCallSequenceAssertion(names=["find", "book"])
    assert len(item.scenario.tasks) == (first == "passed")
    assert f"Before it in the session: u0: {first}." in scenario_yaml("c", [item])
