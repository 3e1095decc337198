"""A journey as version 1.6.9 of the original measures it, defects included."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

from pydantic import JsonValue

from scouter.evaluate.journey.asking import ASSERT, KEYWORD, SEMANTIC, read_reply
from scouter.evaluate.journey.case import Case, Goal
from scouter.evaluate.journey.case_faults import Edges, pairs
from scouter.evaluate.journey.message import (
    INTERACTION,
    PREFIX,
    SEARCH,
    TEXT,
    TOOL_CALL,
    TOOL_RESPONSE,
    Agents,
    JourneyMessage,
)
from scouter.evaluate.journey.result import (
    ArgumentMatch,
    CallResult,
    CheckResult,
    GoalResult,
    JourneyResult,
    Measure,
    sentence,
    why_unmet,
    why_wrong,
    written,
)
from scouter.evaluate.journey.sound import text_match_word
from scouter.evaluate.journey.wxo import arguments
from scouter.evaluate.journey.wxo.arguments import Client, NoClientError
from scouter.evaluate.judge.port import JudgeError
from scouter.model.agent_work import ToolCall


@dataclass(slots=True)
class Run:
    """One evaluation, operator by operator; what raises loses its measures."""

    case: Case
    messages: Sequence[JourneyMessage]
    client: Client
    metrics: dict[str, Measure] = field(default_factory=dict[str, Measure])
    problems: list[str] = field(default_factory=list[str])
    tools: "Tools | None" = None
    texts: "Texts | None" = None
    interactions: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()

    def operator(self, name: str, work: Callable[[], Iterable[tuple[str, Measure]]]) -> None:
        """Take what an operator measures; what it raises loses its measures."""
        try:
            self.metrics.update(work())
        except Exception as error:  # noqa: BLE001 - the original loses measures to any
            self.problems.append(f"{name}: {type(error).__name__}: {error}")


@dataclass(slots=True)
class Tools:
    """Calls sorted by whether they met a goal of the journey."""

    met: dict[str, int] = field(default_factory=dict[str, int])
    """Message that met each goal, in the order of messages."""
    relevant: list[int] = field(default_factory=list[int])
    irrelevant: list[int] = field(default_factory=list[int])
    incorrect: dict[int, tuple[ArgumentMatch, ...] | None] = field(
        default_factory=dict[int, "tuple[ArgumentMatch, ...] | None"]
    )
    """Arguments of incorrect calls against the nearest goal; None where all its goals are met."""
    missed: tuple[str, ...] = ()


@dataclass(slots=True)
class Texts:
    """Text goals that were met, and their counts."""

    met: tuple[str, ...]
    """Names of goals, in their order."""
    count: int
    met_count: int


def first_call(message: JourneyMessage) -> ToolCall | None:
    """The one call of a message that the original looks at."""
    return message.calls[0] if message.calls else None


ERROR_WORDS: Final = (
    "abort", "bad request", "broken pipe", "can't", "cannot", "connection refused", "core dumped",
    "crash", "denied", "erroneous", "error", "exceeded", "exceeds limit", "exception", "fail",
    "fatal", "forbidden", "http_code=400", "http_code=401", "http_code=403", "http_code=404",
    "http_code=405", "http_code=408", "http_code=409", "http_code=429", "http_code=500",
    "http_code=503", "http_code=504", "illegal", "incorrect", "infinite recursion", "invalid",
    "missing", "no such file or directory", "not found", "notfound", "oom", "out of memory",
    "overflow", "overrun", "overwrite", "panic", "segfault", "segmentation fault",
    "server is down", "stack trace", "timed out", "timeout", "traceback", "unable", "unauthorized",
    "unavailable", "underflow", "unexpected", "unknown", "unreachable", "unresolved",
    "unsuccessful",
)  # fmt: skip
"""Error words in lower case; each also stands for all words that hold it, as `syntax error`."""


def result_of(run: Run) -> JourneyResult:
    """Put a result together."""
    tools, texts = run.tools or Tools(), run.texts
    has_tags = "is_success" in run.metrics
    count, met = (texts.count, texts.met_count) if texts else (0, 0)
    goals = tuple(_fate(goal, run, tools) for goal in run.case.goals)
    order = {name: at for at, name in enumerate(
        [*tools.met, *run.interactions, *(texts.met if texts else ())]
    )}  # fmt: skip
    broken = tuple(
        (parent, child)
        for parent, child in pairs(run.case.edges)
        if parent in order and child in order and order[parent] >= order[child]
    )
    return JourneyResult(
        name=run.case.name,
        compat="wxo-1.6.9",
        metrics=run.metrics,
        goals=goals,
        calls=tuple(_call(at, run, tools) for at in (*tools.relevant, *tools.irrelevant)),
        checks=run.checks,
        broken_edges=broken,
        text_match=text_match_word(count, met),
        message=sentence(goals, broken, run.checks, bool(run.metrics.get("is_success"))),
        messages=tuple(run.messages),
        reasons=tuple(_tag(at, m, tools) for at, m in enumerate(run.messages)) if has_tags else (),
        missed_tools=tools.missed,
        problems=tuple(run.problems),
    )


def _fate(goal: Goal, run: Run, tools: Tools) -> GoalResult:
    met = {*tools.met, *run.interactions, *(run.texts.met if run.texts else ())}
    is_met = goal.name in met
    wrong = [_call(at, run, tools) for at in tools.incorrect]
    own = [call for call in wrong if call.tool == goal.tool_name and call.arguments]
    return GoalResult(
        name=goal.name, type=goal.type, met=is_met, message=tools.met.get(goal.name),
        reason="" if is_met else why_unmet(goal, own, is_taken=False),
    )  # fmt: skip


def _call(at: int, run: Run, tools: Tools) -> CallResult:
    call = first_call(run.messages[at])
    tool = call.name if call else ""
    goal = next((name for name, place in tools.met.items() if place == at), None)
    matches = tools.incorrect.get(at) or ()
    reason = "irrelevant tool call" if at in tools.irrelevant else ""
    if at in tools.incorrect:
        reason = "repeated call" if tools.incorrect[at] is None else "incorrect parameter"
    detail = why_wrong(reason, tool, matches) if reason else ""
    return CallResult(
        message=at, index=0, tool=tool, goal=goal, reason=reason, detail=detail, arguments=matches
    )


def _tag(at: int, message: JourneyMessage, tools: Tools) -> Mapping[str, JsonValue] | None:
    if at in tools.irrelevant:
        return {"reason": "irrelevant tool call"}
    if at in tools.incorrect:
        matches = tools.incorrect[at]
        if matches is None:
            return None
        return {"reason": "incorrect parameter", "parameters": [written(each) for each in matches]}
    text = message.text.lower() if message.type == TOOL_RESPONSE else ""
    return {"reason": "runtime error"} if any(word in text for word in ERROR_WORDS) else None


_TRIES: Final = 3
"""Most questions to a judge about one statement, until an answer is JSON."""


def evaluate_as_original(
    case: Case,
    messages: Sequence[JourneyMessage],
    client: Client,
    agents: Agents,
    searches: Sequence[Mapping[str, Any]],
) -> JourneyResult:
    """Hold a conversation against a journey; see `evaluate_journey`."""
    run = Run(case, messages, client)
    run.operator("OrchestrateAgentRoutingAccuracy", lambda: _routing(run, agents))
    run.operator("StepMetrics", lambda: _steps(messages))
    run.operator("AssertLLM", lambda: _assertions(run))
    run.operator("ExpectedToolExtractor", lambda: _match_tools(run))
    run.operator("ToolCalling", lambda: _tool_calling(run))
    run.operator("ToolParameterF1", lambda: _parameters(run))
    run.operator("TextMatchMetric", lambda: _text_match(run))
    run.interactions = _match_interactions(case, messages)
    run.operator("JourneySuccessMetric", lambda: _success(run))
    run.operator("JourneyCompletion", lambda: _completion(run))
    answers = arguments.answers_of(messages, searches)
    run.operator("DocumentRetrievalQuality", lambda: arguments.retrieval(answers))
    run.operator("KnowledgeBaseFaithfulness", lambda: arguments.faithfulness(answers, client.ask))
    run.operator(arguments.RELEVANCY_OPERATOR, lambda: arguments.relevancy(answers, client.ask))
    return result_of(run)


def _arguments(call: ToolCall) -> Mapping[str, JsonValue]:
    found = call.arguments
    if isinstance(found, str):
        with suppress(ValueError, RecursionError):
            found = cast("JsonValue", json.loads(found))
    return found if isinstance(found, dict) else {}


def _routing(run: Run, agents: Agents) -> Iterable[tuple[str, Measure]]:
    goal_tools = [goal.tool_name for goal in run.case.of_type(TOOL_CALL)]
    called: list[str] = []
    for message in run.messages:
        if message.type == TOOL_CALL:
            call = first_call(message)
            if call is None:
                raise TypeError("'NoneType' object is not subscriptable")
            called.append(call.name.removeprefix(PREFIX))
    reached = {*called} & agents.names
    named = {*goal_tools} & agents.names
    allowed = named | agents.owners_of(goal_tools)
    score: Measure = 1
    if reached:
        right, wrong, missed = len(reached & allowed), len(reached - allowed), len(named - reached)
        score = round(2 * right / (2 * right + missed + wrong), 2)
    return [("orchestrate_agent_routing_accuracy", score)]


def _steps(messages: Sequence[JourneyMessage]) -> Iterable[tuple[str, Measure]]:
    times = [m.response_time_s for m in messages if m.response_time_s is not None]
    steps = sum(m.is_agents and m.type in (TEXT, TOOL_CALL, SEARCH) for m in messages)
    return [
        ("total_steps", len(messages)),
        ("llm_steps", steps),
        ("average_agent_response_time", round(sum(times) / len(times), 3) if times else 0.0),
    ]


def _assertions(run: Run) -> Iterable[tuple[str, Measure]]:
    """Ask about statements; where nobody answers, or three times no JSON, they are not true."""
    found: list[CheckResult] = []
    for check in run.case.checks:
        context = _context(run.messages, check.scope)
        found.append(_check(run.client, check.text, context, check.kind))
    run.checks = tuple(found)
    passed = sum(check.passed is True for check in found)
    return [("assert_llm", round(passed / len(found), 2) if found else None)]


def _context(messages: Sequence[JourneyMessage], scope: str) -> str:
    if scope == "response":
        return next((m.text for m in reversed(messages) if m.is_agents and m.content), "")
    return "\n".join(f"{m.role}: {m.text}" for m in messages if m.content)


def _check(client: Client, text: str, context: str, kind: str) -> CheckResult:
    for _ in range(_TRIES):
        try:
            answer = read_reply(client.ask(ASSERT, check=text, context=context, kind=kind))
        except (JudgeError, NoClientError) as error:
            return CheckResult(check=text, passed=False, reason=str(error))
        if isinstance(answer, dict) and "verdict" in answer:
            reason = answer.get("reasoning") or answer.get("reason") or ""
            return CheckResult(check=text, passed=bool(answer["verdict"]), reason=str(reason))
    return CheckResult(check=text, passed=False, reason="the judge answered with no JSON")


def _match_tools(run: Run) -> Iterable[tuple[str, Measure]]:
    """Credit each call to the first goal that is open and fits: greedy, in the file's order."""
    goals = run.case.without_repeats(TOOL_CALL)
    if any(not goal.tool_name for goal in goals) and any(map(first_call, run.messages)):
        raise AttributeError("'NoneType' object has no attribute 'strip'")
    found = Tools()
    names: set[str] = set()
    for at, message in enumerate(run.messages):
        call = first_call(message) if message.type == TOOL_CALL else None
        if call is None:
            continue
        if not any(goal.tool_name.strip() == call.name.strip() for goal in goals):
            found.irrelevant.append(at)
            continue
        found.relevant.append(at)
        names.add(call.name)
        open_goals = [g for g in goals if g.name not in found.met and g.tool_name == call.name]
        passed = _arguments(call)
        is_like = run.client.is_like
        for goal in open_goals:
            if arguments.matches(goal.args, passed, goal.strategies, is_like):
                found.met[goal.name] = at
                break
        else:
            found.incorrect[at] = _nearest(run.client, open_goals, passed)
    found.missed = tuple(sorted({goal.tool_name for goal in goals} - names))
    run.tools = found
    return ()


def _nearest(
    client: Client, goals: Sequence[Goal], passed: Mapping[str, JsonValue]
) -> tuple[ArgumentMatch, ...] | None:
    """Compare with the open goal of which most arguments match; the first of several."""
    if not goals:
        return None
    if client.is_missing:
        raise NoClientError("ExpectedToolExtractor requires a client, but none was provided")
    compared = [arguments.compared(g.args, passed, g.strategies, client.is_like) for g in goals]
    return max(compared, key=lambda matches: sum(match.matched for match in matches))


def _tool_calling(run: Run) -> Iterable[tuple[str, Measure]]:
    tools = _needed(run.tools)
    expected = len(run.case.without_repeats(TOOL_CALL))
    total = sum(message.type == TOOL_CALL for message in run.messages)
    correct = len(tools.met)
    recall, precision = tool_rates(expected, correct, total)
    return [
        ("total_tool_calls", total),
        ("expected_tool_calls", expected),
        ("correct_tool_calls", correct if expected else None),
        ("missed_tool_calls", len(tools.missed)),
        ("relevant_tool_calls", len(tools.relevant)),
        ("tool_calls_with_incorrect_parameter", len(tools.incorrect) if expected else None),
        ("tool_call_recall", recall),
        ("tool_call_precision", precision),
        ("tool_match_success", correct == expected),
    ]


def _needed(tools: Tools | None) -> Tools:
    if tools is None:
        raise AttributeError("'NoneType' object has no attribute 'get'")
    return tools


def _parameters(run: Run) -> Iterable[tuple[str, Measure]]:
    """Score each call against each goal of its tool; the last call is what remains."""
    goals = run.case.without_repeats(TOOL_CALL)
    scores: dict[str, float | None] = {}
    for message in run.messages:
        call = first_call(message) if message.type == TOOL_CALL else None
        if call is None:
            continue
        try:
            passed = _parsed(call)
        except ValueError:
            continue
        for goal in goals:
            if goal.tool_name == call.name:
                is_like = run.client.is_like_for_f1
                scores[goal.name] = arguments.f1(goal.args, passed, goal.strategies, is_like)
    counted = [score for score in scores.values() if score is not None]
    value = round(sum(counted) / len(counted), 4) if counted else (None if scores else 0.0)
    return [("tool_parameter_f1", value if goals else None)]


def _parsed(call: ToolCall) -> Any:  # noqa: ANN401 - whatever the model wrote
    """The arguments as JSON of any kind; nothing is an empty object."""
    written_args = call.arguments or {}
    return json.loads(written_args) if isinstance(written_args, str) else written_args


def _text_match(run: Run) -> Iterable[tuple[str, Measure]]:
    """Ask about each text of the agent and each text goal; one text needs both verdicts."""
    goals = run.case.of_type(TEXT)
    spoken = [
        m.text if m.type == TEXT else m.content if isinstance(m.content, str) else ""
        for m in run.messages
        if m.is_agents and m.type in (TEXT, SEARCH)
    ]
    verdicts = [
        (goal, _has_keywords(run.client, goal, text), _has_meaning(run, goal, text))
        for text in spoken
        for goal in goals
    ]
    run.metrics["keyword_match"] = any(keyword for _, keyword, _ in verdicts)
    run.metrics["semantic_match"] = any(semantic for _, _, semantic in verdicts)
    if verdicts and any(not isinstance(word, str) for goal in goals for word in goal.keywords):
        raise TypeError("keywords: Input should be a valid string")
    met = {goal.name for goal, keyword, semantic in verdicts if keyword and semantic}
    run.texts = Texts(
        met=tuple(dict.fromkeys(goal.name for goal in goals if goal.name in met)),
        count=len(goals),
        met_count=sum(goal.name in met for goal in goals),
    )
    matched = int(run.texts.met_count == len(goals)) if goals else None
    return [("text_match", matched)]


def _has_keywords(client: Client, goal: Goal, text: str) -> bool:
    if not goal.keywords:
        return True
    if not all(isinstance(word, str) for word in goal.keywords):
        return False
    return client.says(KEYWORD, keywords=list(goal.keywords), actual=text)


def _has_meaning(run: Run, goal: Goal, text: str) -> bool:
    question = run.messages[0].text if run.messages else ""
    return run.client.says(SEMANTIC, expected=goal.wanted_text, actual=text, question=question)


def _match_interactions(case: Case, messages: Sequence[JourneyMessage]) -> tuple[str, ...]:
    """Give each goal the first interaction that is left and has its identifier."""
    left = [m.payload for m in messages if m.is_agents and m.type == INTERACTION and m.payload]
    found: list[str] = []
    for goal in case.without_repeats(INTERACTION):
        key, value = goal.identifier or ("", None)
        for at, payload in enumerate(left):
            if str(payload.get(key)) == str(value):
                del left[at]
                found.append(goal.name)
                break
    return tuple(found)


def _success(run: Run) -> Iterable[tuple[str, Measure]]:
    """Order the goals by kind: tools, then interactions, then texts."""
    tools = _needed(run.tools)
    if run.texts is None:
        raise AttributeError("'NoneType' object has no attribute 'get'")
    order = [*tools.met, *run.interactions, *run.texts.met]
    is_right = is_right_order(run.case.edges, order)
    return [("is_success", is_right and all(check.passed for check in run.checks))]


def _completion(run: Run) -> Iterable[tuple[str, Measure]]:
    shown = len(run.case.of_type(INTERACTION))
    texts, met_texts = (run.texts.count, len(run.texts.met)) if run.texts else (0, 0)
    passed = sum(check.passed is True for check in run.checks)
    value = completion(
        int(run.metrics.get("expected_tool_calls") or 0),
        int(run.metrics.get("correct_tool_calls") or 0),
        others=texts + shown + len(run.checks),
        met_others=met_texts + len(run.interactions) + passed,
        recall=run.metrics.get("tool_call_recall", 0.0),
    )
    return [("journey_completion", value)]


_END: Final = "dummy-goal"
"""Stands behind every goal that nothing comes after."""


def terminals(edges: Edges) -> set[str]:
    """Goals after which nothing comes."""
    parents = {goal for goal, after in edges.items() if after}
    seen = {*edges, *(child for after in edges.values() for child in after or ())}
    return seen - parents


def is_right_order(edges: Edges, order: Sequence[str], *, is_strict: bool = True) -> bool:
    """Tell whether goals come in an order in which every edge holds.

    Args:
        edges: For each goal, the goals that come after it.
        order: The goals as they were met.
        is_strict: Of a goal that comes more than once, look at the last place alone.
    """
    if not order:
        return False
    places: dict[str, list[int]] = {}
    for at, goal in enumerate(order):
        places[goal] = [at] if is_strict else [*places.get(goal, []), at]
    drawn = {goal: (*(after or ()),) for goal, after in edges.items()}
    for goal in terminals(edges):
        drawn[goal] = (_END,)
        places[_END] = [len(order)]
    return all(
        parent in places and child in places and min(places[parent]) < max(places[child])
        for parent, after in drawn.items()
        for child in after
    )


def tool_rates(expected: int, correct: int, total: int) -> tuple[float | None, float | None]:
    """Rate calls of tools.

    Args:
        expected: Goals that want a call.
        correct: Those that were met.
        total: Calls that were made.

    Returns:
        Recall and precision to two places; None without such goals.
    """
    if not expected:
        return None, None
    return round(correct / expected, 2), round(correct / total, 2) if total else 0.0


def completion(
    expected: int, correct: int, *, others: int, met_others: int, recall: float | None
) -> float | None:
    """Rate a journey.

    Args:
        expected: Goals that want a call.
        correct: Those that were met.
        others: Texts, interactions and statements that are wanted.
        met_others: Those of them that were met.
        recall: The result where only calls are wanted.

    Returns:
        Share of the wanted items that were met, to two places.
    """
    return round((correct + met_others) / (expected + others), 2) if others else recall
