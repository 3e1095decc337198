"""A journey compared with its goals as the documents say, without the original's defects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.evaluate.journey.arguments import compare_arguments, f1_of_arguments
from scouter.evaluate.journey.asking import ASSERT, Answers, FuzzyChain, Likeness, fold
from scouter.evaluate.journey.case import Case, Check, Goal
from scouter.evaluate.journey.case_faults import Edges, in_order, pairs
from scouter.evaluate.journey.message import (
    INTERACTION,
    SEARCH,
    TEXT,
    TOOL_CALL,
    TOOL_RESPONSE,
    Agents,
    JourneyMessage,
    as_text,
    open_content,
    requested_calls,
    routing_f1,
)
from scouter.evaluate.journey.result import (
    ArgumentMatch,
    CallResult,
    CheckResult,
    GoalResult,
    JourneyResult,
    Measure,
    alike,
    reasons_of,
    sentence,
    why_unmet,
    why_wrong,
)
from scouter.evaluate.judge.port import JudgeError
from scouter.evaluate.trajectory.matching import Filling

Place: TypeAlias = tuple[int, int]
"""Index of a message in the journey, and index of a call among the calls of that message."""

MAX_STEPS: Final = 100_000
"""Most steps of the search for an assignment in which the order of the goals holds."""


def assign(
    candidates: Mapping[str, Sequence[Place]], shared: frozenset[str], edges: Edges
) -> tuple[dict[str, Place], bool]:
    """Assign places to goals.

    Args:
        candidates: By goal, the places that would meet it, in order.
        shared: Goals that may have the same place as another goal: texts.
        edges: For each goal, the goals that come after it.

    Returns:
        An assignment of all goals in which the order holds, if there is one; else one of as many
        goals as can be met. Earlier places are preferred. The second value is False if the search
        for an order was given up after `MAX_STEPS` steps.

    Cost: goals times candidates times goals, and the search; that takes one step a goal unless
        calls are alike.
    """
    goals = in_order([*candidates], edges)
    largest = _largest(goals, candidates, shared)
    if len(largest) < len(goals) or all(
        comes_after(largest[parent], largest[child], both_shared={parent, child} <= shared)
        for parent, child in pairs(edges)
        if parent in largest and child in largest
    ):
        return largest, True
    ordered, is_sure = _ordered(goals, candidates, shared, edges)
    return ordered or largest, is_sure


def _largest(
    goals: Sequence[str], candidates: Mapping[str, Sequence[Place]], shared: frozenset[str]
) -> dict[str, Place]:
    """A maximum matching: each goal takes a free place, or moves others along until one is."""
    filling = Filling(choices={goal: [*candidates[goal]] for goal in goals})
    filling.fill(goal for goal in goals if goal not in shared)
    said = {goal: candidates[goal][0] for goal in shared if candidates.get(goal)}
    return {**filling.call_of, **said}


def _ordered(
    goals: Sequence[str],
    candidates: Mapping[str, Sequence[Place]],
    shared: frozenset[str],
    edges: Edges,
) -> tuple[dict[str, Place] | None, bool]:
    """Search for an assignment of all goals in which each comes after those before it."""
    before: dict[str, list[str]] = {goal: [] for goal in goals}
    for parent, child in pairs(edges):
        if child in before and parent in before:
            before[child].append(parent)
    found: dict[str, Place] = {}
    taken: set[Place] = set()
    tried = [0] * len(goals)
    at, steps = 0, 0
    while at < len(goals):
        goal = goals[at]
        if goal in found:  # back again: what it had led nowhere
            taken.discard(found.pop(goal))
        steps += 1
        if steps > MAX_STEPS:
            return None, False
        parents = before[goal]
        is_cyclic = any(each not in found for each in parents)
        place = None
        while not is_cyclic and tried[at] < len(candidates[goal]):
            each = candidates[goal][tried[at]]
            tried[at] += 1
            is_free = goal in shared or each not in taken
            if is_free and all(
                comes_after(found[parent], each, both_shared={goal, parent} <= shared)
                for parent in parents
            ):
                place = each
                break
        if place is not None:
            found[goal] = place
            if goal not in shared:
                taken.add(place)
            at += 1
        elif at == 0:
            return None, True
        else:
            tried[at] = 0
            at -= 1
    return found, True


def comes_after(first: Place, second: Place, *, both_shared: bool = False) -> bool:
    """Tell whether a goal's place comes after that of the goal before it.

    One message may meet two texts, and then says them in order.
    """
    return first < second or (both_shared and first == second)


TOO_MANY: Final = "too many calls are alike to say whether an order of them would do"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call, wherever its message tells of it."""

    place: Place
    tool: str
    arguments: Mapping[str, JsonValue]


@dataclass(slots=True, kw_only=True)
class _Said:
    """Places where the agent's texts meet text goals, and the likeness to the wanted texts."""

    places: dict[str, list[Place]] = field(default_factory=dict[str, list[Place]])
    likeness: dict[str, tuple[int, Likeness]] = field(
        default_factory=dict[str, tuple[int, Likeness]]
    )
    """Message nearest to the wanted text, among those with its keywords, and likeness; by goal."""
    has_keywords: bool = False
    has_meaning: bool = False


def evaluate_soundly(
    case: Case,
    messages: Sequence[JourneyMessage],
    judge: Answers | None,
    chain: FuzzyChain,
    agents: Agents,
) -> JourneyResult:
    """Hold a conversation against a journey; see `evaluate_journey`."""
    calls = calls_of(messages)
    tools, shown = case.of_type(TOOL_CALL), case.of_type(INTERACTION)
    fits = {goal.name: _fits(goal, calls, chain) for goal in tools}
    said = _heard(case, messages, chain)
    candidates = {
        **{name: [call.place for call in fitting] for name, fitting in fits.items()},
        **{goal.name: _shown(goal, messages) for goal in shown},
        **said.places,
    }
    candidates = {goal.name: candidates[goal.name] for goal in case.goals}
    shared = frozenset(said.places)
    found, is_sure = assign(candidates, shared, case.edges)
    problems = [] if is_sure else [TOO_MANY]
    call_results = _calls_of_goals(tools, calls, fits, found, chain, agents)
    checks = tuple(_checked(check, messages, judge) for check in case.checks)
    goals = tuple(_fate(goal, found, call_results, candidates, said) for goal in case.goals)
    broken = _broken(case, found, shared)
    problems += [*chain.problems, *(f"{c.check}: {c.reason}" for c in checks if c.passed is None)]
    success = _success(goals, broken, checks, problems)
    return JourneyResult(
        name=case.name,
        compat="sound",
        metrics={
            **_of_tools(tools, calls, call_results, found, agents),
            "tool_parameter_f1": _parameters(tools, calls, found, call_results, chain),
            **_of_texts(case, found, said),
            **_of_steps(messages),
            **_of_checks(checks, len(found), len(goals)),
            "is_success": success,
        },
        goals=goals,
        calls=call_results,
        checks=checks,
        broken_edges=broken,
        text_match=text_match_word(len(said.places), sum(name in found for name in said.places)),
        message=sentence(
            goals,
            broken,
            checks,
            success,
            [] if success is not None else [each for each in problems if each == TOO_MANY],
        ),
        messages=tuple(messages),
        reasons=reasons_of(messages, call_results),
        missed_tools=tuple(sorted({g.tool_name for g in tools} - {c.tool for c in calls})),
        links=chain.links,
        problems=tuple(problems),
    )


def calls_of(messages: Sequence[JourneyMessage]) -> list[Call]:
    """Every call: parallel ones too, and those that only a content tells of."""
    found: list[Call] = []
    for at, message in enumerate(messages):
        for index, call in enumerate(requested_calls(message)):
            arguments = open_content(call.arguments)
            found.append(Call(place=(at, index), tool=call.name.strip(), arguments=arguments))
    return found


def _fits(goal: Goal, calls: Sequence[Call], chain: FuzzyChain) -> list[Call]:
    return [
        call
        for call in calls
        if call.tool == goal.tool_name.strip()
        and all(m.matched for m in _compared(goal, call, chain, is_quick=True))
    ]


def _compared(
    goal: Goal, call: Call, chain: FuzzyChain, *, is_quick: bool = False
) -> tuple[ArgumentMatch, ...]:
    return compare_arguments(
        goal.args, call.arguments, goal.strategies, chain, tool=call.tool, is_quick=is_quick
    )


def _shown(goal: Goal, messages: Sequence[JourneyMessage]) -> list[Place]:
    """Messages of the agent whose payload has what identifies an interaction."""
    if goal.identifier is None:
        return []
    key, value = goal.identifier
    return [
        (at, 0)
        for at, message in enumerate(messages)
        if message.is_agents
        and message.payload is not None
        and key in message.payload
        and as_text(message.payload[key]) == as_text(value)
    ]


def _heard(case: Case, messages: Sequence[JourneyMessage], chain: FuzzyChain) -> _Said:
    """Find the messages that say what text goals want: all keywords, and the meaning."""
    question = next((m.text for m in messages if m.role == "user"), case.starting_sentence or "")
    said = _Said(places={goal.name: [] for goal in case.of_type(TEXT)})
    for at, message in enumerate(messages):
        if not message.is_agents or message.type not in (TEXT, SEARCH):
            continue
        spoken = message.text
        for goal in case.of_type(TEXT):
            if not all(fold(as_text(word)) in fold(spoken) for word in goal.keywords):
                continue
            said.has_keywords = True
            if goal.wanted_text:
                likeness = chain.text(goal.wanted_text, spoken, question=question)
                known = said.likeness.get(goal.name)
                if known is None or _rank(likeness) > _rank(known[1]):
                    said.likeness[goal.name] = at, likeness
                if not likeness.matched:
                    continue
            said.has_meaning = True
            said.places[goal.name].append((at, 0))
    return said


def _rank(likeness: Likeness) -> tuple[bool, float]:
    return likeness.matched, likeness.similarity or 0.0


def _calls_of_goals(
    tools: Sequence[Goal],
    calls: Sequence[Call],
    fits: Mapping[str, Sequence[Call]],
    found: Mapping[str, Place],
    chain: FuzzyChain,
    agents: Agents,
) -> tuple[CallResult, ...]:
    """Say of each call which goal it met, or why none."""
    met = {found[goal.name]: goal.name for goal in tools if goal.name in found}
    fitting = {call.place for each in fits.values() for call in each}
    results: list[CallResult] = []
    for call in calls:
        at, index = call.place
        reason, detail, arguments = "", "", ()
        own = [goal for goal in tools if goal.tool_name.strip() == call.tool]
        if call.place not in met:
            if not own:
                is_routing = agents.agent_called(call.tool) is not None
                reason = "routing" if is_routing else "irrelevant tool call"
            elif call.place in fitting:
                reason = "repeated call"
            else:
                reason = "incorrect parameter"
                arguments = _nearest(own, call, chain, found)
            detail = why_wrong(reason, call.tool, arguments)
        results.append(
            CallResult(
                message=at, index=index, tool=call.tool, goal=met.get(call.place), reason=reason,
                detail=detail, arguments=arguments,
            )
        )  # fmt: skip
    return tuple(results)


def _nearest(
    goals: Sequence[Goal], call: Call, chain: FuzzyChain, found: Mapping[str, Place]
) -> tuple[ArgumentMatch, ...]:
    """Compare a wrong call with the goal that it misses least, before all one that is not met."""
    compared = [(goal.name in found, _compared(goal, call, chain)) for goal in goals]
    return min(compared, key=lambda each: (each[0], sum(not m.matched for m in each[1])))[1]


def _fate(
    goal: Goal,
    found: Mapping[str, Place],
    call_results: Sequence[CallResult],
    candidates: Mapping[str, Sequence[Place]],
    said: _Said,
) -> GoalResult:
    place = found.get(goal.name)
    reason = ""
    at, likeness = said.likeness.get(goal.name, (0, Likeness(matched=False)))
    if place is None:
        wrong = [
            result
            for result in call_results
            if result.tool == goal.tool_name.strip() and result.reason == "incorrect parameter"
        ]
        words = alike(likeness.link, likeness.similarity)
        nearest = f"the nearest is message {at}, {words}" if words else ""
        reason = why_unmet(goal, wrong, is_taken=bool(candidates[goal.name]), nearest=nearest)
    return GoalResult(
        name=goal.name, type=goal.type, met=place is not None,
        message=None if place is None else place[0], reason=reason,
        link=likeness.link, similarity=likeness.similarity,
    )  # fmt: skip


def _checked(
    check: Check, messages: Sequence[JourneyMessage], judge: Answers | None
) -> CheckResult:
    if judge is None:
        return CheckResult(check=check.text, passed=None, reason="no judge was given to decide it")
    if check.scope == "response":
        context = next((m.text for m in reversed(messages) if m.is_agents and m.type == TEXT), "")
    else:
        context = "\n".join(f"{m.role}: {m.text}" for m in messages if m.text)
    try:
        passed, reason = judge.verdict(ASSERT, check=check.text, context=context, kind=check.kind)
    except JudgeError as error:
        return CheckResult(check=check.text, passed=None, reason=str(error))
    return CheckResult(check=check.text, passed=passed, reason=reason)


def _broken(
    case: Case, found: Mapping[str, Place], shared: frozenset[str]
) -> tuple[tuple[str, str], ...]:
    """Edges whose goals were both met, and not in this order."""
    return tuple(
        (parent, child)
        for parent, child in pairs(case.edges)
        if parent in found
        and child in found
        and not comes_after(found[parent], found[child], both_shared={parent, child} <= shared)
    )


def _success(
    goals: Sequence[GoalResult],
    broken: Sequence[tuple[str, str]],
    checks: Sequence[CheckResult],
    problems: Sequence[str],
) -> bool | None:
    """All goals in order and all statements true; None where a missing verdict may be the cause."""
    if any(check.passed is False for check in checks):
        return False
    if TOO_MANY in problems:
        return None
    if broken:
        return False
    if not all(goal.met for goal in goals):
        return False
    return None if any(check.passed is None for check in checks) else True


def _of_tools(
    tools: Sequence[Goal],
    calls: Sequence[Call],
    results: Sequence[CallResult],
    found: Mapping[str, Place],
    agents: Agents,
) -> dict[str, Measure]:
    correct = sum(goal.name in found for goal in tools)
    counted = [each for each in results if each.reason != "routing"]
    names = {goal.tool_name.strip() for goal in tools}
    has_goals = bool(tools)
    return {
        "total_tool_calls": len(results),
        "expected_tool_calls": len(tools),
        "correct_tool_calls": correct if has_goals else None,
        "relevant_tool_calls": sum(call.tool in names for call in calls),
        "missed_tool_calls": len(names - {call.tool for call in calls}),
        "tool_calls_with_incorrect_parameter": sum(
            each.reason == "incorrect parameter" for each in results
        )
        if has_goals
        else None,
        "tool_call_recall": _share(correct, len(tools)),
        "tool_call_precision": correct / (len(counted) or 1) if has_goals else None,
        "tool_match_success": correct == len(tools),
        "orchestrate_agent_routing_accuracy": routing_f1(
            (call.tool for call in calls), [goal.tool_name for goal in tools], agents
        ),
    }


def _parameters(
    tools: Sequence[Goal],
    calls: Sequence[Call],
    found: Mapping[str, Place],
    results: Sequence[CallResult],
    chain: FuzzyChain,
) -> float | None:
    """Mean over goals; a goal that is not met counts with the best call that met no other."""
    by_place = {call.place: call for call in calls}
    free = [
        by_place[each.message, each.index]
        for each in results
        if each.reason == "incorrect parameter"
    ]
    scores: list[float | None] = []
    for goal in tools:
        if goal.name in found:
            scores.append(_f1(goal, by_place[found[goal.name]], chain))
            continue
        own = [call for call in free if call.tool == goal.tool_name.strip()]
        if not own:
            scores.append(0.0 if goal.args else None)
            continue
        best = max(own, key=lambda call: _f1(goal, call, chain) or 0.0)
        free.remove(best)
        scores.append(_f1(goal, best, chain))
    counted = [score for score in scores if score is not None]
    return sum(counted) / len(counted) if counted else None


def _f1(goal: Goal, call: Call, chain: FuzzyChain) -> float | None:
    return f1_of_arguments(_compared(goal, call, chain), goal.args, call.arguments)


def _of_texts(case: Case, found: Mapping[str, Place], said: _Said) -> dict[str, Measure]:
    count = len(case.of_type(TEXT))
    met = sum(name in found for name in said.places)
    return {
        "keyword_match": said.has_keywords if count else None,
        "semantic_match": said.has_meaning if count else None,
        "text_match": int(met == count) if count else None,
    }


def _of_checks(checks: Sequence[CheckResult], met: int, goals: int) -> dict[str, Measure]:
    """Shares of what is true; null where a statement is undecided, as nobody knows them then."""
    if any(check.passed is None for check in checks):
        return {"assert_llm": None, "journey_completion": None}
    passed = sum(check.passed is True for check in checks)
    return {
        "assert_llm": _share(passed, len(checks)),
        "journey_completion": _share(met + passed, goals + len(checks)),
    }


def _of_steps(messages: Sequence[JourneyMessage]) -> dict[str, Measure]:
    times = [
        message.response_time_s
        for message in messages
        if message.response_time_s is not None and message.type != TOOL_RESPONSE
    ]
    return {
        "total_steps": len(messages),
        "llm_steps": sum(
            message.is_agents and message.type in (TEXT, TOOL_CALL, SEARCH) for message in messages
        ),
        "average_agent_response_time": sum(times) / len(times) if times else None,
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def text_match_word(goals: int, met: int) -> str:
    """The word for how many of the text goals were met."""
    if not goals:
        return "NA"
    if met == goals:
        return "Summary Matched"
    return "Partially Match" if met else "Summary MisMatched"
