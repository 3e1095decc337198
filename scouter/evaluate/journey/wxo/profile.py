"""A journey as version 1.6.9 of the original measures it, defects included.

A measure that the original loses to an exception is left out, and `problems` names the operator
that lost it, in the original's words.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import JsonValue

from scouter.evaluate.journey.asking import (
    ASSERT,
    KEYWORD,
    SEMANTIC,
    JourneyJudge,
    JudgeError,
    read_json,
)
from scouter.evaluate.journey.case import Case, Goal
from scouter.evaluate.journey.fuzzy import embed
from scouter.evaluate.journey.graph import pairs
from scouter.evaluate.journey.message import (
    INTERACTION,
    SEARCH,
    TEXT,
    TOOL_CALL,
    TOOL_RESPONSE,
    AskedCall,
    JourneyMessage,
)
from scouter.evaluate.journey.result import (
    ArgumentMatch,
    CallResult,
    CheckResult,
    GoalResult,
    JourneyResult,
    Measure,
)
from scouter.evaluate.journey.routing import PREFIX, Agents
from scouter.evaluate.journey.sentences import sentence, why_unmet, why_wrong, written
from scouter.evaluate.journey.sound import text_match_word
from scouter.evaluate.journey.wxo import arguments, knowledge
from scouter.evaluate.journey.wxo.error_words import ERROR_WORDS
from scouter.evaluate.journey.wxo.order import is_right_order

_TRIES: Final = 3
"""How often a judge is asked about a statement until its answer is JSON."""


class NoClientError(Exception):
    """The original has no client, and needs one."""


class Client:
    """What the original calls its client: a judge and an embedder.

    Args:
        judge: None has texts compared by what they hold.
        embedder: None is the local model; without it fuzzy values are compared by their tokens.
        is_missing: There is no client.
    """

    def __init__(self, judge: JourneyJudge | None, embedder: object, *, is_missing: bool) -> None:
        self._judge = judge
        self._embedder = embedder
        self.is_missing = is_missing

    def is_like(self, actual: JsonValue, expected: JsonValue) -> bool:
        """Compare two normalised values; an embedder's exception is not caught, as there."""
        if self.is_missing:
            return arguments.is_alike_by_tokens(actual, expected)
        left, right = embed(self._embedder, [str(actual), str(expected)])
        return arguments.cosine(left, right) >= arguments.THRESHOLD

    def is_like_for_f1(self, actual: JsonValue, expected: JsonValue) -> bool:
        """The same, but without a client it raises."""
        if self.is_missing:
            raise NoClientError("ToolParameterF1 requires a client, but none was provided")
        return self.is_like(actual, expected)

    def says(self, question: str, /, **data: object) -> bool:
        """Ask about a text; a judge that fails says no."""
        if self._judge is None:
            return _holds(question, data)
        try:
            answer = read_json(self._judge.answer(question, **data))
        except JudgeError:
            return False
        if isinstance(answer, dict):
            return answer.get("verdict") is True
        return str(answer).strip().lower().startswith("true")

    def ask(self, question: str, /, **data: object) -> JsonValue:
        """Ask for any answer.

        Raises:
            NoClientError: There is nobody to ask.
            JudgeError: Nobody answered.
        """
        if self._judge is None:
            raise NoClientError("no judge was given")
        return self._judge.answer(question, **data)


def _holds(question: str, data: Mapping[str, Any]) -> bool:
    """Decide about a text without a judge: whether it holds the keywords, or the wanted text."""
    spoken = str(data["actual"]).lower()
    wanted = data["keywords"] if question == KEYWORD else [data["expected"]]
    return all(str(each).strip().lower() in spoken for each in wanted)


@dataclass(slots=True)
class _Run:
    """One evaluation, operator by operator; what raises loses its measures."""

    case: Case
    messages: Sequence[JourneyMessage]
    client: Client
    metrics: dict[str, Measure] = field(default_factory=dict[str, Measure])
    problems: list[str] = field(default_factory=list[str])
    tools: "_Tools | None" = None
    texts: "_Texts | None" = None
    interactions: tuple[str, ...] = ()
    checks: tuple[CheckResult, ...] = ()

    def operator(self, name: str, work: Callable[[], Iterable[tuple[str, Measure]]]) -> None:
        try:
            self.metrics.update(work())
        except Exception as error:  # noqa: BLE001 - the original loses measures to any
            self.problems.append(f"{name}: {type(error).__name__}: {error}")


@dataclass(slots=True)
class _Tools:
    met: dict[str, int] = field(default_factory=dict[str, int])
    """Message that met each goal, in the order of messages."""
    relevant: list[int] = field(default_factory=list[int])
    irrelevant: list[int] = field(default_factory=list[int])
    incorrect: dict[int, tuple[ArgumentMatch, ...] | None] = field(
        default_factory=dict[int, "tuple[ArgumentMatch, ...] | None"]
    )
    """Against the nearest goal; None where each goal of the tool is met already."""
    missed: tuple[str, ...] = ()


@dataclass(slots=True)
class _Texts:
    keyword: bool
    semantic: bool
    met: tuple[str, ...]
    """Names of goals, in their order."""
    count: int
    met_count: int


def evaluate_as_original(
    case: Case,
    messages: Sequence[JourneyMessage],
    client: Client,
    agents: Agents,
    searches: Sequence[Mapping[str, Any]],
) -> JourneyResult:
    """Hold a conversation against a journey; see `evaluate_journey`."""
    run = _Run(case, messages, client)
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
    answers = knowledge.answers_of(messages, searches)
    run.operator("DocumentRetrievalQuality", lambda: knowledge.retrieval(answers))
    run.operator("KnowledgeBaseFaithfulness", lambda: knowledge.faithfulness(answers, client.ask))
    run.operator(knowledge.RELEVANCY_OPERATOR, lambda: knowledge.relevancy(answers, client.ask))
    return _result(run)


def _first_call(message: JourneyMessage) -> AskedCall | None:
    """The one call of a message that the original looks at."""
    return message.calls[0] if message.calls else None


def _arguments(call: AskedCall) -> Mapping[str, JsonValue]:
    found = read_json(call.arguments)
    return found if isinstance(found, dict) else {}


def _routing(run: _Run, agents: Agents) -> Iterable[tuple[str, Measure]]:
    goal_tools = [goal.tool_name for goal in run.case.of_type(TOOL_CALL)]
    called: list[str] = []
    for message in run.messages:
        if message.type == TOOL_CALL:
            call = _first_call(message)
            if call is None:
                raise TypeError("'NoneType' object is not subscriptable")
            called.append(call.name.removeprefix(PREFIX))
    asked = {*called} & agents.names
    named = {*goal_tools} & agents.names
    allowed = named | agents.owners_of(goal_tools)
    score: Measure = 1
    if asked:
        right, wrong, missed = len(asked & allowed), len(asked - allowed), len(named - asked)
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


def _assertions(run: _Run) -> Iterable[tuple[str, Measure]]:
    """Ask about statements; what is no JSON three times is not true."""
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
        answer = read_json(client.ask(ASSERT, check=text, context=context, kind=kind))
        if isinstance(answer, dict) and "verdict" in answer:
            reason = answer.get("reasoning") or answer.get("reason") or ""
            return CheckResult(check=text, passed=bool(answer["verdict"]), reason=str(reason))
    return CheckResult(check=text, passed=False, reason="the judge answered with no JSON")


def _match_tools(run: _Run) -> Iterable[tuple[str, Measure]]:
    """Credit each call to the first goal that is open and fits: greedy, in the file's order."""
    goals = run.case.without_repeats(TOOL_CALL)
    if any(not goal.tool_name for goal in goals) and any(map(_first_call, run.messages)):
        raise AttributeError("'NoneType' object has no attribute 'strip'")
    found = _Tools()
    names: set[str] = set()
    for at, message in enumerate(run.messages):
        call = _first_call(message) if message.type == TOOL_CALL else None
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


def _tool_calling(run: _Run) -> Iterable[tuple[str, Measure]]:
    tools = _needed(run.tools)
    expected = len(run.case.without_repeats(TOOL_CALL))
    total = sum(message.type == TOOL_CALL for message in run.messages)
    correct = len(tools.met)
    precision = round(correct / total, 2) if total else 0.0
    return [
        ("total_tool_calls", total),
        ("expected_tool_calls", expected),
        ("correct_tool_calls", correct if expected else None),
        ("missed_tool_calls", len(tools.missed)),
        ("relevant_tool_calls", len(tools.relevant)),
        ("tool_calls_with_incorrect_parameter", len(tools.incorrect) if expected else None),
        ("tool_call_recall", round(correct / expected, 2) if expected else None),
        ("tool_call_precision", precision if expected else None),
        ("tool_match_success", correct == expected),
    ]


def _needed(tools: _Tools | None) -> _Tools:
    if tools is None:
        raise AttributeError("'NoneType' object has no attribute 'get'")
    return tools


def _parameters(run: _Run) -> Iterable[tuple[str, Measure]]:
    """Score each call against each goal of its tool; the last call is what remains."""
    goals = run.case.without_repeats(TOOL_CALL)
    scores: dict[str, float | None] = {}
    for message in run.messages:
        call = _first_call(message) if message.type == TOOL_CALL else None
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


def _parsed(call: AskedCall) -> Any:  # noqa: ANN401 - whatever the model wrote
    """The arguments as JSON of any kind; nothing is an empty object."""
    written_args = call.arguments or {}
    return json.loads(written_args) if isinstance(written_args, str) else written_args


def _text_match(run: _Run) -> Iterable[tuple[str, Measure]]:
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
    run.texts = _Texts(
        keyword=bool(run.metrics["keyword_match"]),
        semantic=bool(run.metrics["semantic_match"]),
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


def _has_meaning(run: _Run, goal: Goal, text: str) -> bool:
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


def _success(run: _Run) -> Iterable[tuple[str, Measure]]:
    """Order the goals by kind: tools, then interactions, then texts."""
    tools = _needed(run.tools)
    if run.texts is None:
        raise AttributeError("'NoneType' object has no attribute 'get'")
    order = [*tools.met, *run.interactions, *run.texts.met]
    is_right = is_right_order(run.case.edges, order)
    return [("is_success", is_right and all(check.passed for check in run.checks))]


def _completion(run: _Run) -> Iterable[tuple[str, Measure]]:
    shown = len(run.case.of_type(INTERACTION))
    texts, met_texts = (run.texts.count, len(run.texts.met)) if run.texts else (0, 0)
    if not texts and not shown and not run.checks:
        return [("journey_completion", run.metrics.get("tool_call_recall", 0.0))]
    passed = sum(check.passed is True for check in run.checks)
    expected = int(run.metrics.get("expected_tool_calls") or 0)
    correct = int(run.metrics.get("correct_tool_calls") or 0)
    met = correct + met_texts + len(run.interactions) + passed
    total = expected + texts + shown + len(run.checks)
    return [("journey_completion", round(met / total, 2))]


def _result(run: _Run) -> JourneyResult:
    tools, texts = run.tools or _Tools(), run.texts
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


def _fate(goal: Goal, run: _Run, tools: _Tools) -> GoalResult:
    met = {*tools.met, *run.interactions, *(run.texts.met if run.texts else ())}
    is_met = goal.name in met
    wrong = [_call(at, run, tools) for at in tools.incorrect]
    own = [call for call in wrong if call.tool == goal.tool_name and call.arguments]
    return GoalResult(
        name=goal.name, type=goal.type, met=is_met, message=tools.met.get(goal.name),
        reason="" if is_met else why_unmet(goal, own, is_taken=False),
    )  # fmt: skip


def _call(at: int, run: _Run, tools: _Tools) -> CallResult:
    call = _first_call(run.messages[at])
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


def _tag(at: int, message: JourneyMessage, tools: _Tools) -> Mapping[str, JsonValue] | None:
    if at in tools.irrelevant:
        return {"reason": "irrelevant tool call"}
    if at in tools.incorrect:
        matches = tools.incorrect[at]
        if matches is None:
            return None
        return {"reason": "incorrect parameter", "parameters": [written(each) for each in matches]}
    text = message.text.lower() if message.type == TOOL_RESPONSE else ""
    return {"reason": "runtime error"} if any(word in text for word in ERROR_WORDS) else None
