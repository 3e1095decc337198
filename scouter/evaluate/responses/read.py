"""The reading of an agent's work for agent assertions."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.operators.equality import deep_equal
from scouter.evaluate.operators.show import KEYS_SHOWN, kind_of, show, show_name
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.responses.citing import Answer
from scouter.evaluate.responses.parse import find_response, formats_of
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import (
    AgentAssertion,
    AgentAssertionTask,
    EmptyResultCountAssertion,
    GuardrailActionAssertion,
    GuardrailCountAssertion,
    GuardrailVerdictAssertion,
    RepeatedToolCallCountAssertion,
    ResponseCitesResultAssertion,
    ResponseFieldAssertion,
    ToolArgumentAssertion,
    ToolCallCountAssertion,
    ToolCalledAssertion,
    ToolCalledWithArgsAssertion,
    ToolCallSequenceAssertion,
    ToolErrorAssertion,
    ToolErrorCountAssertion,
    ToolNotCalledAssertion,
    ToolResultAssertion,
    UnrecoveredToolErrorCountAssertion,
)
from scouter.model.agent_work import AgentWork, CallsToldBy, GuardrailRun, ToolCall, why_unreported
from scouter.model.genai.names import bare_name, is_called
from scouter.model.genai.wrappers import has_hidden, is_broken_json, is_hidden

_STRICTNESS: Final = {
    "": -1, "allow": 0, "warn": 2, "modify": 3, "escalate": 4, "deny": 5, "block": 5,
}  # fmt: skip
"""Strictness of the conventions' verdicts and actions; any other word ranks just above `allow`."""
_OWN: Final = 1
_STRICTEST: Final = 5


def strictest_verdict(runs: Sequence[GuardrailRun], name: str | None) -> str:
    """Find the strictest verdict of a guardrail, or of all.

    Raises:
        TaskFault: None ran, or one does not tell its verdict, which might be a stricter one.
    """
    found = _of(runs, name)
    strictest = _strictest(found).verdict
    if _rank(strictest) < _STRICTEST and (silent := sum(not run.verdict for run in found)):
        raise _unreported(silent, len(found), "verdict")
    return strictest


def action_taken(runs: Sequence[GuardrailRun], name: str | None) -> str:
    """Find what was done upon the strictest verdict.

    Raises:
        TaskFault: None ran, or the action is not reported.
    """
    found = _of(runs, name)
    action = _strictest(found).action
    if not action:
        raise _unreported(sum(not run.action for run in found), len(found), "action")
    return action


def count_runs(
    runs: Sequence[GuardrailRun], name: str | None, verdict: str | None, action: str | None
) -> int:
    """Count the checks that had this verdict and this action; None stands for any.

    Raises:
        TaskFault: A verdict or an action is requested, and none ran, or one that might count does
            not tell.
    """
    if verdict is None and action is None:
        return sum(name is None or run.name == name for run in runs)
    found = _of(runs, name)
    for wanted, field in ((verdict, "verdict"), (action, "action")):
        if wanted is not None:
            silent = [run for run in found if not getattr(run, field)]
            if any(_may_be(run, verdict, action) for run in silent):
                raise _unreported(len(silent), len(found), field)
    return sum(_may_be(run, verdict, action) for run in found)


def _may_be(run: GuardrailRun, verdict: str | None, action: str | None) -> bool:
    return all(
        wanted is None or reported in ("", wanted)
        for wanted, reported in ((verdict, run.verdict), (action, run.action))
    )


def _strictest(runs: Sequence[GuardrailRun]) -> GuardrailRun:
    """The first one with the strictest verdict; of those that tell none, the strictest action."""
    return max(runs, key=lambda run: (_rank(run.verdict), 0 if run.verdict else _rank(run.action)))


def _rank(word: str) -> int:
    return _STRICTNESS.get(word.lower(), _OWN)


def _of(runs: Sequence[GuardrailRun], name: str | None) -> list[GuardrailRun]:
    found = [run for run in runs if name is None or run.name == name]
    if not found:
        names = list(dict.fromkeys(run.name for run in runs))
        shown = ", ".join(map(show_name, islice(names, KEYS_SHOWN))) or "none"
        which = "no guardrail" if name is None else f"no guardrail {name!r}"
        raise TaskFault(
            Reason.MISSING_PATH, f"{which} has a span in the trace; those that have are {shown}"
        )
    return found


def _unreported(silent: int, count: int, field: str) -> TaskFault:
    return TaskFault(
        Reason.MISSING_PATH, f"{silent} of {count} checks by guardrails do not tell their {field}"
    )


Reader: TypeAlias = Callable[[JsonValue, "SpanTree | None", JsonValue], JsonValue]
"""Function from the task's scope, the record's spans and its own context to the value."""

_GUARDRAILS: Final = (
    GuardrailVerdictAssertion, GuardrailActionAssertion, GuardrailCountAssertion,
)  # fmt: skip
_ANSWERS: Final = frozenset({"ResponseContent", "ResponseIsBlank"})
_FIELDS: Final = {
    "ResponseContent": "content",
    "ResponseModel": "model",
    "ResponseFinishReason": "finish_reason",
    "ResponseInputTokens": "input_tokens",
    "ResponseOutputTokens": "output_tokens",
    "ResponseTotalTokens": "total_tokens",
}


def compile_reader(task: AgentAssertionTask) -> Reader:
    """Prepare reading for one task.

    Raises:
        ConfigError: Unknown provider, a bad path, `response_field` with spans as the source, which
            have no response as the provider sent it, or a question about guardrails without them,
            which no response tells of.
    """
    formats = formats_of(task.provider)
    assertion = task.assertion
    path = Path(task.context_path)
    if isinstance(assertion, ResponseFieldAssertion):
        if task.source == "spans":
            raise ConfigError("response_field reads the record's context; it has no source='spans'")
        get = Path(assertion.path).get
        return lambda _, __, base: get(find_response(path.get(base), formats)[0])
    if isinstance(assertion, _GUARDRAILS) and task.source != "spans":
        raise ConfigError("guardrails are read from spans; say source='spans'")
    measure, work = compile_question(assertion), compile_work(task)
    return lambda _, spans, base: measure(work(spans, base))


def compile_work(task: AgentAssertionTask) -> Callable[["SpanTree | None", JsonValue], AgentWork]:
    """Prepare to read the work that a task asks about.

    Returns:
        Function from the record's spans and the task's own context.

    Raises:
        ConfigError: As of `compile_reader`.
    """
    if task.source == "spans":
        return lambda spans, _: work_of_spans(spans)
    path, formats = Path(task.context_path), formats_of(task.provider)
    return lambda _, base: find_response(path.get(base), formats)[1]


def why_open(assertion: AgentAssertion, by: CallsToldBy | None) -> Callable[[AgentWork], str]:
    """Prepare to say why an assertion's value may be another one; empty where it is known.

    Args:
        assertion: Of an agent's work.
        by: Source that a person names for the agent's calls; see `why_unreported`.
    """
    if isinstance(assertion, ToolErrorCountAssertion | UnrecoveredToolErrorCountAssertion):
        name = assertion.name
        return lambda work: why_unreported(work, by) or unreported_outcomes(work, name)
    if isinstance(assertion, RepeatedToolCallCountAssertion):
        name = assertion.name
        return lambda work: why_unreported(work, by) or _unreported_arguments(work, name)
    if assertion.kind == "ResponseContent":
        return lambda work: work.unknown_content or work.missing.get("content", "")
    if field := _FIELDS.get(assertion.kind):
        return lambda work: work.missing.get(field, "")
    if assertion.kind in _ANSWERS:
        return lambda work: work.unknown_content
    return lambda work: why_unreported(work, by)


def work_of_spans(spans: SpanTree | None) -> AgentWork:
    """Read an agent's work from its spans.

    Raises:
        TaskFault: There are no spans, or none that tells of the work.
    """
    if spans is not None and spans.unread:
        raise TaskFault(Reason.LIMIT, spans.unread)
    if not spans:
        raise TaskFault(Reason.NO_SPANS, "the record's trace has no spans here")
    if not spans.has_agent_spans:
        raise TaskFault(
            Reason.NO_SPANS,
            f"none of the {len(spans)} spans of the trace has GenAI attributes "
            "(gen_ai.operation.name is chat, execute_tool and so on)",
        )
    return spans.agent_work


def calls_of_spans(spans: SpanTree | None) -> tuple[ToolCall, ...]:
    """Read an agent's calls of tools from its spans.

    Raises:
        TaskFault: As of `work_of_spans`, or a call does not tell its tool.
    """
    work = work_of_spans(spans)
    _names(work)
    return work.tool_calls


def tells_arguments(call: ToolCall) -> bool:
    """Tell whether all arguments of a call are known: none is masked, left out or cut."""
    given = call.arguments
    return not (given is None or has_hidden(given) or is_broken_json(given))


def unreported_outcomes(work: AgentWork, name: str | None) -> str:
    """Say of how many calls, of one tool or of all, no outcome is reported; empty for none."""
    calls = _named(work, name)
    unknown = sum(not (call.is_executed or call.has_result) for call in calls)
    return f"the outcome of {unknown} of {len(calls)} calls is not reported" if unknown else ""


def compile_question(assertion: AgentAssertion) -> Callable[[AgentWork], JsonValue]:
    """Prepare what is checked of an agent's work; every kind but `response_field`."""
    match assertion:
        case ToolCalledAssertion(name=name):
            return lambda work: _calls_of(work, name) > 0
        case ToolNotCalledAssertion(name=name):
            return lambda work: _calls_of(work, name) == 0
        case ToolCalledWithArgsAssertion(name=name, arguments=arguments):
            return lambda work: _calls_of(work, name) > 0 and _has_arguments(work, name, arguments)
        case ToolCallSequenceAssertion(names=names):
            return lambda work: is_call_sequence(names, _names(work))
        case ToolCallCountAssertion(name=name):
            return lambda work: len(work.tool_calls) if name is None else _calls_of(work, name)
        case RepeatedToolCallCountAssertion(name=name):
            return lambda work: len(_repeats(work, name))
        case ToolArgumentAssertion(name=name, argument_key=key):
            return lambda work: _argument(work, name, key)
        case ToolResultAssertion(name=name):
            return lambda work: _result(work, name)
        case ResponseCitesResultAssertion(name=name):
            return lambda work: _cites(work, name)
        case ToolErrorAssertion(name=name):
            return lambda work: _error(work, name)
        case _:
            found = _of_outcomes(assertion) or _of_guardrails(assertion)
            return found or _answer(assertion.kind)


def _of_outcomes(assertion: AgentAssertion) -> Callable[[AgentWork], JsonValue] | None:
    match assertion:
        case ToolErrorCountAssertion(name=name):
            return lambda work: sum(bool(call.error) for call in _named(work, name))
        case UnrecoveredToolErrorCountAssertion(name=name):
            return lambda work: _unrecovered(work, name)
        case EmptyResultCountAssertion(name=name):
            return lambda work: _empty_results(work, name)
        case _:
            return None


def _repeats(work: AgentWork, name: str | None) -> list[ToolCall]:
    """Find the calls that were made before; of those that do not tell their arguments none."""
    _names(work)
    seen: dict[str, list[JsonValue]] = {}
    found: list[ToolCall] = []
    for call in _named(work, name):
        if not tells_arguments(call):
            continue
        before = seen.setdefault(bare_name(call.name), [])
        if any(deep_equal(call.arguments, each) for each in before):
            found.append(call)
        else:
            before.append(call.arguments)
    return found


def _unrecovered(work: AgentWork, name: str | None) -> int:
    """Count the failed calls that no later call of the tool with a common argument made good."""
    calls = _named(work, name)
    return sum(
        bool(call.error) and not any(_makes_good(call, later) for later in calls[at + 1 :])
        for at, call in enumerate(calls)
    )


def _makes_good(failed: ToolCall, later: ToolCall) -> bool:
    if later.error or bare_name(later.name) != bare_name(failed.name):
        return False
    one, other = failed.arguments, later.arguments
    if not isinstance(one, dict) or not isinstance(other, dict) or not one:
        return True
    return any(key in other and deep_equal(value, other[key]) for key, value in one.items())


def _empty_results(work: AgentWork, name: str | None) -> int:
    calls = [call for call in _named(work, name) if not call.error]
    unknown = sum(not call.has_result or has_hidden(call.result) for call in calls)
    if unknown:
        raise TaskFault(
            Reason.NOT_TOLD, f"the results of {unknown} of {len(calls)} calls are not reported"
        )
    return sum(
        call.result in (None, [], {}) or (isinstance(call.result, str) and not call.result.strip())
        for call in calls
    )


def _unreported_arguments(work: AgentWork, name: str | None) -> str:
    """Say which tool was called more than once with arguments that are not reported."""
    calls = Counter(bare_name(call.name) for call in _named(work, name))
    for call in _named(work, name):
        if not tells_arguments(call) and calls[bare_name(call.name)] > 1:
            return f"the arguments of a call of the tool {show_name(call.name)} are not reported"
    return ""


def _has_arguments(work: AgentWork, name: str, wanted: JsonValue) -> bool:
    """Tell whether one call has some arguments; of a call that tells none nobody knows."""
    calls = list(_named(work, name))
    if any(is_part(wanted, call.arguments) for call in calls):
        return True
    if wanted and any(_may_have(wanted, call.arguments) for call in calls):
        raise TaskFault(
            Reason.NOT_TOLD,
            f"the arguments of a call of the tool {show_name(name)} are not reported; let the "
            "agent's instrumentation capture content",
        )
    return False


def _of_guardrails(assertion: AgentAssertion) -> Callable[[AgentWork], JsonValue] | None:
    match assertion:
        case GuardrailVerdictAssertion(name=name):
            return lambda work: strictest_verdict(work.guardrails, name)
        case GuardrailActionAssertion(name=name):
            return lambda work: action_taken(work.guardrails, name)
        case GuardrailCountAssertion(name=name, verdict=verdict, action=action):
            return lambda work: count_runs(work.guardrails, name, verdict, action)
        case _:
            return None


def _answer(kind: str) -> Callable[[AgentWork], JsonValue]:
    if kind == "ResponseContent":
        return _content
    if kind == "ResponseIsBlank":
        return lambda work: not (work.asks_for_tool or str(_content(work) or "").strip())
    name = _FIELDS[kind]

    def read(work: AgentWork) -> JsonValue:
        value: JsonValue = getattr(work, name)
        if value is None:
            raise TaskFault(
                Reason.MISSING_PATH, f"the response does not tell its {name.replace('_', ' ')}"
            )
        return value

    return read


def _content(work: AgentWork) -> JsonValue:
    if work.unknown_content:
        raise TaskFault(Reason.NOT_TOLD, f"the answer is not reported: {work.unknown_content}")
    return work.content


def _cites(work: AgentWork, name: str | None) -> bool:
    """Tell whether the answer has a value of a result; an unreported result leaves it open."""
    answer = Answer.of(str(_content(work) or ""))
    calls = _named(work, name)
    known = [call for call in calls if call.has_result and not has_hidden(call.result)]
    if any(answer.cites(call.result) for call in known):
        return True
    unknown = [call for call in calls if not (call.error or call.has_result)]
    unknown += [call for call in calls if call.has_result and has_hidden(call.result)]
    if unknown:
        raise TaskFault(
            Reason.NOT_TOLD,
            f"the results of {len(unknown)} of {len(calls)} calls are not reported; let the "
            "agent's instrumentation capture content",
        )
    return False


def _may_have(wanted: JsonValue, arguments: JsonValue) -> bool:
    """Tell whether arguments of which a part is not known may have those that are wanted."""
    if arguments is None or is_hidden(arguments) or is_broken_json(arguments):
        return True
    if isinstance(wanted, dict):
        return isinstance(arguments, dict) and all(
            key in arguments and _may_have(value, arguments[key]) for key, value in wanted.items()
        )
    return deep_equal(wanted, arguments)


def is_part(part: JsonValue, whole: JsonValue) -> bool:
    """Tell whether objects of `part` have, at every level, equal fields in `whole`."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and is_part(value, whole[key]) for key, value in part.items()
        )
    return deep_equal(part, whole)


def is_subsequence(wanted: Sequence[str], found: Sequence[str]) -> bool:
    """Tell whether all wanted names are found in their order, others between them allowed."""
    rest = iter(found)
    return all(name in rest for name in wanted)


def is_call_sequence(wanted: Sequence[str], found: list[str]) -> bool:
    """Tell whether all tools were called in their order, other calls between them allowed."""
    rest = iter(found)
    return all(any(is_called(name, each) for name in rest) for each in wanted)


def _named(work: AgentWork, name: str | None) -> list[ToolCall]:
    """The calls of one tool, or of all; looks at all names, of which none may be missing."""
    if name is None:
        return list(work.tool_calls)
    calls = zip(work.tool_calls, _names(work), strict=True)
    return [call for call, called in calls if is_called(called, name)]


def _names(work: AgentWork) -> list[str]:
    names = [call.name for call in work.tool_calls]
    if "" in names:
        raise TaskFault(
            Reason.PARSE,
            f"call {names.index('') + 1} of {len(names)} of a tool does not tell the tool's name, "
            "so nothing can be said of what was called",
        )
    return names


def _calls_of(work: AgentWork, name: str) -> int:
    return sum(is_called(called, name) for called in _names(work))


def _calls(work: AgentWork, name: str) -> list[ToolCall]:
    calls = [call for call in work.tool_calls if is_called(call.name, name)]
    if not calls:
        names = list(dict.fromkeys(call.name for call in work.tool_calls))
        shown = ", ".join(map(show_name, names[:KEYS_SHOWN])) or "none"
        raise TaskFault(
            Reason.MISSING_PATH, f"the tool {name!r} was not called; called were {shown}"
        )
    return calls


def _argument(work: AgentWork, name: str, key: str) -> JsonValue:
    arguments = _calls(work, name)[0].arguments
    if isinstance(arguments, dict) and key in arguments:
        if has_hidden(arguments[key]):
            raise TaskFault(Reason.NOT_TOLD, f"the argument {key!r} of {name!r} was masked")
        return arguments[key]
    if isinstance(arguments, dict):
        shown = "its arguments are " + (
            ", ".join(map(show_name, islice(arguments, KEYS_SHOWN))) or "none"
        )
    elif arguments is None:
        shown = "its arguments are not known"
    else:
        shown = f"its arguments are no JSON object but {kind_of(arguments)}: {show(arguments)}"
    raise TaskFault(
        Reason.MISSING_PATH, f"the first call of {name!r} has no argument {key!r}; {shown}"
    )


def _result(work: AgentWork, name: str) -> JsonValue:
    calls = _calls(work, name)
    for call in calls:
        if call.has_result:
            return call.result
    raise TaskFault(
        Reason.MISSING_PATH, f"no result is known of {len(calls)} calls of the tool {name!r}"
    )


def _error(work: AgentWork, name: str) -> JsonValue:
    for call in _calls(work, name):
        if call.error:
            return call.error
    if unknown := unreported_outcomes(work, name):
        raise TaskFault(
            Reason.MISSING_PATH, f"no call of {name!r} is known to have failed; {unknown}"
        )
    return None
