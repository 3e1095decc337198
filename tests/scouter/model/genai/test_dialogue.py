"""Question and answer of an agent, on traces in several conventions whose truth is known.

The kind of fault: words of any model's call in a trace are taken for the agent's own.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.agent_work import AgentWork
from scouter.model.genai.work import agent_work
from scouter.model.record import EvalRecord
from scouter.model.span import AttributeValue, Span, StatusCode
from tests.scouter.evaluate.spans_support import span

Says = tuple[str, str]
"""Role and text of a message; the role `call` asks for a tool, `result` gives its result."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A span of a trace, for any convention."""

    kind: str
    up: int | None = None
    at: tuple[float, float]
    heard: Sequence[Says] | None = None
    said: Sequence[Says] | None = None
    failed: bool = False


def model(
    at: tuple[float, float],
    heard: str | Sequence[Says] | None,
    said: str | Sequence[Says] | None,
    up: int | None = 1,
    *,
    failed: bool = False,
) -> Node:
    given = [("user", heard)] if isinstance(heard, str) else heard
    made = [("assistant", said)] if isinstance(said, str) else said
    return Node(kind="model", up=up, at=at, heard=given, said=made, failed=failed)


def node(
    kind: str,
    at: tuple[float, float],
    up: int | None = 1,
    heard: str | None = None,
    said: str | None = None,
    *,
    failed: bool = False,
) -> Node:
    return Node(
        kind=kind, up=up, at=at, failed=failed,
        heard=None if heard is None else [("user", heard)],
        said=None if said is None else [("assistant", said)],
    )  # fmt: skip


def _chat_message(role: str, text: str) -> dict[str, object]:
    if role == "call":
        call = {"id": "c", "type": "function", "function": {"name": text, "arguments": "{}"}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
    if role == "result":
        return {"role": "tool", "tool_call_id": "c", "content": text}
    return {"role": role, "content": text}


def _merged(messages: Sequence[Says]) -> list[dict[str, object]]:
    """Chat messages; a text right before a call is of the same message."""
    found: list[dict[str, object]] = []
    for role, text in messages:
        made = _chat_message(role, text)
        if role == "call" and found and found[-1]["role"] == "assistant":
            found[-1] = {**made, "content": found[-1]["content"]}
        else:
            found.append(made)
    return found


def _parts(messages: Sequence[Says]) -> str:
    found: list[dict[str, object]] = []
    for role, text in messages:
        part: dict[str, object] = {"type": "text", "content": text}
        if role == "call":
            part = {"type": "tool_call", "id": "c", "name": text, "arguments": {}}
        elif role == "result":
            part = {"type": "tool_call_response", "id": "c", "response": text}
        who = {"call": "assistant", "result": "tool"}.get(role, role)
        if role == "call" and found and found[-1]["role"] == "assistant":
            found[-1] = {"role": who, "parts": [{"type": "text", "content": messages[0][1]}, part]}
        else:
            found.append({"role": who, "parts": [part]})
    return json.dumps(found)


_OPERATIONS = {
    "model": "chat", "agent": "invoke_agent", "tool": "execute_tool", "workflow": "invoke_workflow",
    "guardrail": "run_guardrail", "retrieval": "retrieval", "embedding": "embeddings",
    "helper": "update_memory",
}  # fmt: skip


def otel(each: Node) -> Mapping[str, AttributeValue]:
    found: dict[str, AttributeValue] = {"gen_ai.operation.name": _OPERATIONS[each.kind]}
    if each.kind == "model":
        found["gen_ai.request.model"] = "m"
    if each.heard is not None:
        found["gen_ai.input.messages"] = _parts(each.heard)
    if each.said is not None:
        found["gen_ai.output.messages"] = _parts(each.said)
    return found


_KINDS = {
    "model": "LLM", "agent": "AGENT", "tool": "TOOL", "guardrail": "GUARDRAIL",
    "retrieval": "RETRIEVER", "embedding": "EMBEDDING", "helper": "EVALUATOR",
    "workflow": "AGENT",
}  # fmt: skip


def _numbered(prefix: str, middle: str, messages: Sequence[Says]) -> dict[str, AttributeValue]:
    found: dict[str, AttributeValue] = {}
    for at, message in enumerate(_merged(messages)):
        base = f"{prefix}.{at}.{middle}"
        found[f"{base}role"] = str(message["role"])
        if message["content"] is not None:
            found[f"{base}content"] = str(message["content"])
        if message.get("tool_call_id"):
            found[f"{base}tool_call_id"] = "c"
        if "tool_calls" in message:
            name = "atlas"
            if middle:
                found[f"{base}tool_calls.0.tool_call.function.name"] = name
                found[f"{base}tool_calls.0.tool_call.function.arguments"] = "{}"
            else:
                found[f"{base}tool_calls.0.name"] = name
                found[f"{base}tool_calls.0.arguments"] = "{}"
    return found


def openinference(each: Node) -> Mapping[str, AttributeValue]:
    found: dict[str, AttributeValue] = {"openinference.span.kind": _KINDS[each.kind]}
    if each.kind == "model":
        found |= _numbered("llm.input_messages", "message.", each.heard or ())
        found |= _numbered("llm.output_messages", "message.", each.said or ())
    else:
        found |= {"input.value": each.heard[-1][1]} if each.heard else {}
        found |= {"output.value": each.said[-1][1]} if each.said else {}
    return found


_TYPES = {"model": "generation", "retrieval": "retriever", "helper": "evaluator",
          "workflow": "agent"}  # fmt: skip


def langfuse(each: Node) -> Mapping[str, AttributeValue]:
    found: dict[str, AttributeValue] = {
        "langfuse.observation.type": _TYPES.get(each.kind, each.kind)
    }
    if each.heard is not None:
        found["langfuse.observation.input"] = json.dumps(_merged(each.heard))
    if each.said is not None:
        found["langfuse.observation.output"] = json.dumps(_merged(each.said)[-1])
    return found


_SPAN_TYPES = {"model": "CHAT_MODEL", "retrieval": "RETRIEVER", "helper": "RERANKER"}


def mlflow(each: Node) -> Mapping[str, AttributeValue]:
    kind = _SPAN_TYPES.get(each.kind, each.kind.upper())
    found: dict[str, AttributeValue] = {"mlflow.spanType": json.dumps(kind)}
    if each.heard is not None:
        found["mlflow.spanInputs"] = json.dumps({"messages": _merged(each.heard)})
    if each.said is not None:
        choices = [{"message": message} for message in _merged(each.said)]
        found["mlflow.spanOutputs"] = json.dumps({"choices": choices})
    return found


def openllmetry(each: Node) -> Mapping[str, AttributeValue]:
    """Has no kind for guardrails and helpers; those cases are not written in it."""
    if each.kind == "model":
        found: dict[str, AttributeValue] = {"llm.request.type": "chat"}
        found |= _numbered("gen_ai.prompt", "", each.heard or ())
        return found | _numbered("gen_ai.completion", "", each.said or ())
    if each.kind == "embedding":
        return {"llm.request.type": "embedding"}
    found = {"traceloop.span.kind": each.kind}
    found |= {"traceloop.entity.input": json.dumps(each.heard[-1][1])} if each.heard else {}
    found |= {"traceloop.entity.output": json.dumps(each.said[-1][1])} if each.said else {}
    return found


WRITERS: dict[str, Callable[[Node], Mapping[str, AttributeValue]]] = {
    "otel": otel, "openinference": openinference, "langfuse": langfuse, "mlflow": mlflow,
    "openllmetry": openllmetry,
}  # fmt: skip
_ONLY_OTHERS = frozenset({"guardrail", "helper", "retrieval"})

UNKNOWN = "?"
"""In the place of an answer: nobody can tell it."""
Q, A = "What is the capital of Norway?", "It is Oslo, as the atlas has it."
LOOK = [("assistant", "Let me check."), ("call", "atlas")]
LOOP = [("user", Q), ("call", "atlas"), ("result", "Oslo")]
ROOT = node("agent", (0, 100), None)
PLAIN = node("plain", (0, 100), None)
"""A root that no convention knows, such as the span of a web request."""

CASES: dict[str, tuple[Sequence[Node], str | None, str | None]] = {
    "guardrails before and after": (
        [ROOT, node("guardrail", (1, 10)), model((2, 9), f"Is this harmful: {Q}", "no", 2),
         node("agent", (11, 90)), model((12, 40), Q, A, 4), node("guardrail", (41, 80), 4),
         model((42, 79), f"Is this harmful: {A}", "no", 6)], Q, A,
    ),
    "a guardrail that is an agent": (
        [ROOT, model((1, 20), Q, A), node("guardrail", (21, 50)),
         node("agent", (22, 49), 3, "Rate it", "no"), model((23, 48), "Rate it", "no", 4)], Q, A,
    ),
    "a tool that asks a model": (
        [ROOT, model((1, 10), Q, LOOK), node("tool", (11, 30)),
         model((12, 29), "Summarise: Oslo", "Oslo is a city", 3), model((31, 40), LOOP, A)], Q, A,
    ),
    "a tool that asks a model comes last": (
        [ROOT, model((1, 10), Q, [*LOOK]), node("tool", (11, 30)),
         model((12, 29), "Summarise: Oslo", "Oslo is a city", 3)], Q, "Let me check.",
    ),
    "an agent that is a tool": (
        [ROOT, model((1, 10), Q, [("call", "atlas")]), node("tool", (11, 50)),
         node("agent", (12, 49), 3, "Find it", "Oslo, I think"),
         model((13, 48), "Find it", "Oslo, I think", 4), model((51, 60), LOOP, A)], Q, A,
    ),
    "an agent that is a tool, in a request without an agent's span": (
        [PLAIN, model((1, 10), Q, [("call", "atlas")]), node("tool", (11, 50)),
         node("agent", (12, 49), 3), model((13, 48), "Find it", "Oslo, I think", 4),
         model((51, 60), LOOP, A)], Q, A,
    ),
    "an agent that is served as a tool": (
        [node("tool", (0, 100), None), node("agent", (1, 99)), model((2, 98), Q, A, 2)], Q, A,
    ),
    "a hand-over to an agent beside": (
        [ROOT, node("agent", (1, 20)), model((2, 19), Q, [("call", "atlas")], 2),
         node("agent", (21, 60)), model((22, 59), LOOP, A, 4)], Q, A,
    ),
    "a hand-over to an agent inside": (
        [ROOT, model((1, 10), Q, [("call", "atlas")]), node("agent", (11, 90)),
         model((12, 89), [("system", "You know maps."), ("user", Q)], A, 3)], Q, A,
    ),
    "an agent that asks another one and goes on": (
        [ROOT, model((1, 10), Q, [("call", "atlas")]), node("agent", (11, 50)),
         model((12, 49), "Name one city.", "Oslo", 3), model((51, 90), LOOP, A)], Q, A,
    ),
    "agents that work one after the other": (
        [node("workflow", (0, 100), None), node("agent", (1, 40)),
         model((2, 39), Q, "Oslo, in short.", 2), node("agent", (41, 90)),
         model((42, 89), "Write a sentence of this: Oslo, in short.", A, 4)], Q, A,
    ),
    "an agent for a title beside the agent": (
        [PLAIN, node("agent", (1, 40), 1, Q, A), node("agent", (41, 50), 1, f"Title: {Q}", "Trip")],
        Q, UNKNOWN,
    ),
    "an evaluator after the agent": (
        [ROOT, model((1, 10), Q, A), node("helper", (11, 40)),
         model((12, 39), "Grade this from 1 to 5.", "5", 3)], Q, A,
    ),
    "an evaluator of a request without an agent's span": (
        [PLAIN, model((1, 10), Q, A), node("helper", (11, 40)),
         model((12, 39), "Grade this from 1 to 5.", "5", 3)], Q, A,
    ),
    "a retriever that asks a model first": (
        [ROOT, node("retrieval", (1, 20)), model((2, 10), "Write a query.", "norway", 2),
         model((21, 60), Q, A)], Q, A,
    ),
    "an embedding is no question": (
        [PLAIN, node("embedding", (1, 5), 1, "norway capital"), model((6, 20), Q, A)], Q, A,
    ),
    "a loop without an agent's span": (
        [PLAIN, model((1, 10), Q, LOOK), node("tool", (11, 12)), model((13, 20), LOOP, A)], Q, A,
    ),
    "a loop that only tells what is new": (
        [PLAIN, model((1, 10), Q, LOOK), node("tool", (11, 12)),
         model((13, 20), [("result", "Oslo")], A)], Q, A,
    ),
    "turns without a history": (
        [PLAIN, model((1, 10), "Hello", "Hi!"), model((13, 20), Q, A)], "Hello", A,
    ),
    "turns with a history": (
        [PLAIN, model((1, 10), Q, A),
         model((13, 20), [("user", Q), ("assistant", A), ("user", "Sure?")], "Yes.")], Q, "Yes.",
    ),
    "a prompt that grows with each step": (
        [PLAIN, model((1, 10), f"Q: {Q}\nThought:", "I look."),
         model((11, 20), f"Q: {Q}\nThought: I look. Observation: Oslo.\nThought:", A)],
        f"Q: {Q}\nThought:", A,
    ),
    "a title after the answer": (
        [PLAIN, model((1, 10), Q, A), model((11, 15), f"Write a title for: {Q}", "Norway")], Q, A,
    ),
    "a title of question and answer": (
        [ROOT, model((1, 10), Q, A), model((11, 15), f"User: {Q}\nBot: {A}\nTitle?", "Norway")],
        Q, A,
    ),
    "a title while the agent works": (
        [ROOT, model((1, 10), Q, LOOK), model((2, 5), f"Write a title for: {Q}", "Norway"),
         node("tool", (11, 12)), model((13, 20), LOOP, A)], Q, A,
    ),
    "a title with the user's message and other instructions": (
        [PLAIN, model((1, 10), [("system", "Help."), ("user", Q)], LOOK), node("tool", (11, 12)),
         model((13, 20), [("system", "Help."), *LOOP], A),
         model((21, 25), [("system", "Write a title."), ("user", Q)], "Norway")], Q, A,
    ),
    "a title after a hand-over": (
        [PLAIN, model((1, 10), Q, LOOK), node("tool", (11, 12)),
         model((13, 20), LOOP, [("assistant", "A person will help."), ("call", "atlas")]),
         model((21, 25), f"Write a title for: {Q}", "Norway")], Q, "A person will help.",
    ),
    "a judge without a span of its own": (
        [PLAIN, model((1, 10), Q, LOOK), node("tool", (11, 12)), model((13, 20), LOOP, A),
         model((21, 25), f"Question: {Q} Answer: {A} Is it right?", "yes")], Q, A,
    ),
    "a query that is rewritten": (
        [PLAIN, model((1, 5), f"Rewrite: {Q}", "norway"), model((6, 20), Q, A)], Q, A,
    ),
    "a check before the answer": (
        [PLAIN, model((1, 5), f"Is this harmful: {Q}", "no"), model((6, 15), Q, LOOK),
         node("tool", (16, 18)), model((20, 30), LOOP, A)], Q, A,
    ),
    "documents that are fetched for the answer": (
        [PLAIN, model((1, 5), [("system", "Make a query."), ("user", Q)], "norway"),
         node("embedding", (6, 8)), model((9, 20), f"Context: Oslo. Question: {Q}", A)], Q, A,
    ),
    "a prompt that has the answer before": (
        [PLAIN, model((1, 5), Q, A), model((6, 20), f"Is this harmful: {A}", "no")], Q, UNKNOWN,
    ),
    "a prompt that is the answer before": (
        [PLAIN, model((1, 5), Q, A),
         model((6, 20), [("system", "Safe or unsafe?"), ("user", A)], "safe")], Q, UNKNOWN,
    ),
    "a translation of the answer": (
        [ROOT, model((1, 5), Q, A), model((6, 20), [("system", "In German."), ("user", A)], "Ja")],
        Q, UNKNOWN,
    ),
    "a check of the conversation so far": (
        [PLAIN, model((1, 5), Q, A), model((6, 20), [("user", Q), ("assistant", A)], "safe")],
        Q, UNKNOWN,
    ),
    "questions that might follow": (
        [ROOT, model((1, 5), [("system", "Help."), ("user", Q)], A),
         model((6, 20), [("system", "Suggest."), ("user", Q), ("assistant", A)], "And Sweden?")],
        Q, UNKNOWN,
    ),
    "a title as the last message, with other instructions": (
        [PLAIN, model((1, 5), [("system", "Help."), ("user", Q)], A),
         model((6, 9), [("system", "Write."), ("user", Q), ("assistant", A), ("user", "Title?")],
               "Norway")], Q, UNKNOWN,
    ),
    "a title with instructions beside an answer without": (
        [PLAIN, model((1, 5), Q, A), model((6, 9), [("system", "Title."), ("user", Q)], "Norway")],
        Q, UNKNOWN,
    ),
    "instructions that a tool changed": (
        [ROOT, model((1, 5), [("system", "It is 1."), ("user", Q)], LOOK), node("tool", (6, 7)),
         model((8, 9), [("system", "It is 2."), *LOOP], A)], Q, A,
    ),
    "an answer that has to be given again": (
        [ROOT, model((1, 5), Q, "Bergen"),
         model((6, 9), [("user", Q), ("assistant", "Bergen"), ("user", "No.")], A)], Q, A,
    ),
    "one question with two instructions": (
        [PLAIN, model((1, 5), [("system", "Route."), ("user", Q)], "geography"),
         model((6, 20), [("system", "You know maps."), ("user", Q)], A)], Q, UNKNOWN,
    ),
    "an agent that says something else than its model": (
        [node("agent", (0, 100), None, Q, "I may not say that."), model((1, 10), Q, A)],
        Q, "I may not say that.",
    ),
    "an agent whose prompt has the question in it": (
        [node("agent", (0, 100), None, Q), model((1, 10), f"Current task: {Q}", A)], Q, A,
    ),
    "a user that is an agent": (
        [node("agent", (0, 100), None, Q), node("agent", (1, 40)), model((2, 39), Q, A, 2),
         node("agent", (41, 50), 1, A)], Q, A,
    ),
    "the last call failed": (
        [ROOT, model((1, 10), Q, LOOK), node("tool", (11, 12)),
         model((13, 20), LOOP, None, failed=True)], Q, UNKNOWN,
    ),
    "the last call failed in the midst of its answer": (
        [ROOT, model((1, 10), Q, "It is Os", failed=True)], Q, UNKNOWN,
    ),
    "the last call does not tell its answer": (
        [ROOT, model((1, 10), Q, LOOK), node("tool", (11, 12)), model((13, 20), LOOP, None)],
        Q, UNKNOWN,
    ),
    "the agent failed behind a call for a tool": (
        [node("agent", (0, 100), None, failed=True), model((1, 10), Q, LOOK),
         node("tool", (11, 12), failed=True)], Q, UNKNOWN,
    ),
    "the agent failed before it called a model": (
        [node("agent", (0, 100), None, Q, failed=True)], Q, UNKNOWN,
    ),
    "another model takes over": (
        [ROOT, model((1, 5), Q, None, failed=True), model((6, 10), Q, A)], Q, A,
    ),
    "of two models at once the slower one is stopped": (
        [ROOT, model((1, 5), Q, A), model((2, 6), Q, None, failed=True)], Q, A,
    ),
    "a failed title": (
        [ROOT, model((1, 10), Q, A), model((11, 12), f"Title: {Q}", None, failed=True)], Q, A,
    ),
    "an end with a call for a tool": (
        [ROOT, model((1, 10), Q, [("call", "atlas")]), node("tool", (11, 12))], Q, None,
    ),
}  # fmt: skip


NOBODYS: dict[str, Sequence[Node]] = {
    "a guardrail alone": [node("guardrail", (0, 20), None), model((1, 19), Q, "no")],
    "an evaluator alone": [node("helper", (0, 20), None), model((1, 19), Q, "5")],
    "a tool alone, which asks a model": [node("tool", (0, 20), None), model((1, 19), Q, "5")],
    "documents alone": [node("embedding", (0, 5), None, Q), node("retrieval", (6, 9), None, Q)],
    "an empty workflow": [node("workflow", (0, 5), None)],
    "no agent at all": [PLAIN],
}


def spans_of(nodes: Sequence[Node], writer: str) -> list[Span]:
    return [
        span(
            at,
            each.kind,
            each.up,
            each.at,
            {} if each.kind == "plain" else WRITERS[writer](each),
            status=StatusCode.ERROR if each.failed else StatusCode.UNSET,
            message="it failed" if each.failed else "",
        )
        for at, each in enumerate(nodes, 1)
    ]


def work_of_case(case: str, writer: str) -> AgentWork:
    return agent_work(SpanTree(spans_of(CASES[case][0], writer)).spans)


WRITTEN = [
    pytest.param(case, writer, id=f"{case}-{writer}")
    for case, (nodes, _, _) in CASES.items()
    for writer in WRITERS
    if writer != "openllmetry" or _ONLY_OTHERS.isdisjoint(each.kind for each in nodes)
]


@pytest.mark.parametrize(("case", "writer"), WRITTEN)
def test_question_and_answer_are_the_agents_own(case: str, writer: str) -> None:
    """A call of a model that is somebody else's is taken for the agent's: see the module."""
    _, question, answer = CASES[case]
    work = work_of_case(case, writer)

    assert work.question == question
    assert (UNKNOWN if work.unknown_content else work.content) == answer
    assert work.has_agent


@pytest.mark.parametrize(
    ("nodes", "writer"),
    [
        pytest.param(nodes, writer, id=f"{case}-{writer}")
        for case, nodes in NOBODYS.items()
        for writer in ("otel", "openinference", "mlflow")
        if writer != "openinference" or nodes[0].kind != "workflow"  # which it does not know
    ],
)
def test_spans_without_a_call_of_an_agent(nodes: Sequence[Node], writer: str) -> None:
    """Work of helpers alone is no agent's work, and has neither question nor answer."""
    work = agent_work(SpanTree(spans_of(nodes, writer)).spans)

    assert not work.has_agent
    assert (work.question, work.content) == (None, None)


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        pytest.param([("assistant", A)], "passed", id="a text"),
        pytest.param([("call", "atlas")], "passed", id="a hand-over to a person"),
        pytest.param([("assistant", "One moment."), ("call", "atlas")], "passed", id="both"),
        pytest.param([("assistant", "")], "failed", id="an empty answer"),
        pytest.param([("assistant", " ")], "failed", id="a blank"),
        pytest.param(None, "errored", id="an answer that is not reported"),
    ],
)
def test_agent_health_sees_a_blank_answer(said: Sequence[Says] | None, outcome: str) -> None:
    """A good run that ends with a hand-over by a tool is taken for a blank one."""
    spans = spans_of([ROOT, model((1, 10), Q, said)], "otel")
    tasks = AgentEvalProfile.from_file("agent_health").tasks
    records = [EvalRecord({}, trace_id=spans[0].trace_id)]
    [result] = EvalDataset(records, tasks, spans).evaluate().records
    found = {task.task_id: task.outcome.value for task in result.tasks}
    assert found["something_was_said"] == outcome


@pytest.mark.parametrize(
    ("given", "prompt", "question"),
    [
        pytest.param(Q, f"Write a query for: {Q}", Q, id="a prompt around it"),
        pytest.param(json.dumps({"question": Q}), f"Context: Oslo. Question: {Q}", Q, id="a field"),
        pytest.param(
            json.dumps({"messages": [{"role": "user", "content": Q}]}), f"Task: {Q}", Q,
            id="messages",
        ),
        pytest.param("go", f"Write a query for: {Q}", f"Write a query for: {Q}", id="another text"),
        pytest.param("rite", f"Write a query for: {Q}", f"Write a query for: {Q}",
                     id="a part of a word"),
        pytest.param(None, Q, Q, id="nothing"),
    ],
)  # fmt: skip
def test_a_prompt_around_the_question(given: str | None, prompt: str, question: str) -> None:
    """Kind: the prompt of a step that rewrites or looks up counts as the user's words."""
    attributes: dict[str, AttributeValue] = {"openinference.span.kind": "CHAIN"}
    attributes |= {} if given is None else {"input.value": given}
    root = span(1, "query", None, (0, 100), attributes)
    asks = span(2, "llm", 1, (1, 50), openinference(model((1, 50), prompt, A)))
    work = agent_work(SpanTree([root, asks]).spans)
    assert (work.question, work.content) == (question, A)
