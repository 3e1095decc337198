"""ATIF trajectories, and the trials of Harbor that they come from.

Source: Agent Trajectory Interchange Format 1.0 to 1.8 (Harbor's RFC 0001); Harbor's `TrialResult`,
    and its `models/trial/error_policy.py` for the rewards that count.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from scouter.errors import DataError, FileFormatError
from scouter.evaluate.files.read import read_text
from scouter.formats.exports.agent_spans import AgentSpans, call_part, message, result_part
from scouter.formats.exports.spans import (
    Object,
    Row,
    Tell,
    ns_of,
    number_of,
    resource_of,
    score_of,
    with_lost,
)
from scouter.model.genai.messages import field, items, text
from scouter.model.json_value import to_json_value
from scouter.model.span import Span, SpanEvent

LOOKS_FOR: Final = 'ATIF trajectories (schema_version: "ATIF-…", agent, steps)'

_SOURCES: Final = ("agent", "user", "system")
RESULT: Final = "result.json"
_OF_AGENT: Final = frozenset(
    {"", "AgentTimeoutError", "ContextWindowExceededError", "OutputTokenExceededError",
     "ContextLengthExceededError", "OutputLengthExceededError", "AgentSafetyRefusalError",
     "ContentPolicyViolationError"}
)  # fmt: skip
"""Exceptions with which a reward is one: none, and those by which the agent ended itself."""
_OF_VERIFIER: Final = frozenset(
    {"", "VerifierTimeoutError", "RewardFileNotFoundError", "RewardFileEmptyError",
     "VerifierOutputParseError"}
)  # fmt: skip


def is_row(value: Mapping[str, object]) -> bool:
    """Tell whether an object is a trajectory."""
    return str(value.get("schema_version")).startswith("ATIF-") and "steps" in value


def traces(rows: Iterable[Row], tell: Tell) -> Iterator[list[Span]]:
    """Make a trace of each trajectory.

    Args:
        rows: Those that `is_row` knows.
        tell: Takes trajectories that cannot be used.
    """
    for row in rows:
        try:
            at_ns = int(Path(row.path).stat().st_mtime_ns)
            yield trajectory_spans(row.value, _name(row.value), at_ns)
        except (DataError, OSError) as error:
            tell(row.fault(error))


def _name(value: Object) -> str:
    """What tells a trajectory from others: its own id, else all that is in it."""
    if named := text(value.get("trajectory_id")):
        return f"{text(value.get('session_id'))}\n{named}"
    content = json.dumps(value, sort_keys=True).encode()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def trajectory_spans(
    value: Object,
    name: str,
    at_ns: int,
    *,
    more: Object | None = None,
    scores: Sequence[SpanEvent] = (),
    error: str = "",
) -> list[Span]:
    """Make the spans of one trajectory.

    A step of the agent is a call of its model, from the time of the step before to its own, and
    calls of tools at its own time: nothing says how long these took. An observation that names no
    call is none's result, and an attribute of the step.

    Args:
        value: The trajectory.
        name: Becomes the trace id.
        at_ns: Time of steps that have none, nanoseconds since the epoch.
        more: Attributes of the root.
        scores: Scores of the whole.
        error: Reason for which the agent did not come to its end.

    Raises:
        DataError: It has no steps, or a time is none; names the field.
    """
    agent = field(value, "agent")
    resource = resource_of(text(field(agent, "name")), text(field(agent, "version")))
    made = AgentSpans(name, resource)
    root = _Trajectory(made, value, at_ns, None, more or {}).root
    made.close(root, events=scores, error=error)
    return made.spans


class _Trajectory:
    """Adds the spans of a trajectory, and of those of its sub-agents."""

    def __init__(
        self, made: AgentSpans, value: Object, at_ns: int, parent: str | None, more: Object
    ) -> None:
        steps = _steps(value)
        self._made, agent = made, field(value, "agent")
        self._model = text(field(agent, "model_name"))
        inner = items(value.get("subagent_trajectories"))
        self._inner = [each for each in inner if isinstance(each, dict)]
        self._history: list[JsonValue] = []
        self._has_question = False
        times = [_time(step) for step in steps]
        self._at_ns = next((time for time in times if time), at_ns)
        is_counted = any(field(step, "metrics") for step in steps)
        self.root = made.act(
            "invoke_agent",
            text(field(agent, "name")),
            parent,
            (self._at_ns, self._at_ns),
            {
                "gen_ai.agent.version": field(agent, "version"),
                "gen_ai.conversation.id": value.get("session_id") if parent is None else None,
                "gen_ai.tool.definitions": field(agent, "tool_definitions"),
                **({} if is_counted else _usage(field(value, "final_metrics"), "total_")),
                **more,
            },
        )
        for step, time in zip(steps, times, strict=True):
            self._step(step, max(self._at_ns, time))
        while self._inner:  # nobody refers to these
            self._sub_agent(self._inner[0], self.root)
        made.close(self.root)

    def _step(self, step: Object, at_ns: int) -> None:
        said, parts = _content(step.get("message"))
        if (role := text(step["source"])) != "agent":
            self._history.append(message(role, said, *parts))
            self._has_question, self._at_ns = True, at_ns
            return
        calls = [call for call in items(step.get("tool_calls")) if isinstance(call, dict)]
        results, rest = _results(step)
        if thought := step.get("reasoning_content"):
            parts.insert(0, {"type": "reasoning", "content": thought})
        requests = [
            call_part(each.get("tool_call_id"), each.get("function_name"), each.get("arguments"))
            for each in calls
        ]
        answer = message("assistant", said, *parts, *requests)
        if not step.get("is_copied_context"):
            self._act(step, at_ns, answer, calls, results, rest)
        self._history.append(answer)
        self._history += [
            message("tool", "", result_part(call_id, result)) for call_id, result in results.items()
        ]
        self._at_ns = at_ns

    def _act(
        self,
        step: Object,
        at_ns: int,
        answer: Object,
        calls: Sequence[Object],
        results: Mapping[str, JsonValue],
        rest: str,
    ) -> None:
        made = self._made
        if step.get("llm_call_count") != 0:
            reported: Object = {
                "gen_ai.input.messages": list(self._history) if self._has_question else None,
                "gen_ai.output.messages": [answer],
                "atif.observation": rest,
                **_usage(step.get("metrics"), ""),
            }
            model = text(step.get("model_name")) or self._model
            made.act("chat", model, self.root, (self._at_ns, at_ns), reported)
            self._has_question = False
        for call in calls:
            call_id = text(call.get("tool_call_id"))
            named = text(call.get("function_name")), call_id, call.get("arguments")
            tool = made.tool(self.root, (at_ns, at_ns), named, results.get(call_id))
            named = set(_refs(step, call_id))
            for inner in [each for each in self._inner if text(each.get("trajectory_id")) in named]:
                self._sub_agent(inner, tool)
                made.close(tool)

    def _sub_agent(self, value: Object, parent: str) -> None:
        self._inner = [each for each in self._inner if each is not value]
        _Trajectory(self._made, value, self._at_ns, parent, {})


def _time(step: Object) -> int:
    given = step.get("timestamp")
    return ns_of(given, "timestamp") if given else 0


def _content(value: JsonValue) -> tuple[str, list[Object]]:
    """Give the text of a message, and its parts that are none."""
    if not isinstance(value, list):
        return text(value), []
    parts = [part for part in value if isinstance(part, dict)]
    said = "\n".join(text(part.get("text")) for part in parts if part.get("type") == "text")
    others: list[Object] = [
        {"type": "uri", "modality": "image", "uri": field(part.get("source"), "path")}
        for part in parts
        if part.get("type") != "text"
    ]
    return said, others


def _steps(value: Object) -> list[Object]:
    """Give the steps of a trajectory.

    Raises:
        DataError: There is none, or one is no step.
    """
    steps = [step for step in items(value.get("steps")) if isinstance(step, dict)]
    if not steps or len(steps) < len(items(value["steps"])):
        raise DataError("steps: expected a list of objects")
    for at, step in enumerate(steps):
        if step.get("source") not in _SOURCES:
            raise DataError(f"steps[{at}].source: expected one of {', '.join(_SOURCES)}")
    return steps


def _results(step: Object) -> tuple[dict[str, JsonValue], str]:
    """Give the results of calls by id, and the text of what is the result of none."""
    found: dict[str, JsonValue] = {}
    rest: list[str] = []
    for each in items(field(step.get("observation"), "results")):
        said, others = _content(field(each, "content"))
        call_id = field(each, "source_call_id")
        if isinstance(call_id, str):
            before = text(found.get(call_id))
            found[call_id] = f"{before}\n{said}" if before else said
            if others:
                found[call_id] = field(each, "content")
        elif said:
            rest.append(said)
    return found, "\n".join(rest)


def _refs(step: Object, call_id: str) -> Iterator[str]:
    """Give the ids of the sub-agents' trajectories that the result of a call refers to.

    Sessions are those of a whole run, and name none of its trajectories.
    """
    for each in items(field(step.get("observation"), "results")):
        refs = field(each, "subagent_trajectory_ref")
        if field(each, "source_call_id") == call_id:
            for ref in [refs] if isinstance(refs, dict) else items(refs):
                if name := text(field(ref, "trajectory_id")):
                    yield name


def _usage(metrics: JsonValue, prefix: str) -> Object:
    """Tokens; those of the prompt have the cached ones in them."""
    return {
        "gen_ai.usage.input_tokens": field(metrics, f"{prefix}prompt_tokens"),
        "gen_ai.usage.output_tokens": field(metrics, f"{prefix}completion_tokens"),
        "gen_ai.usage.cache_read.input_tokens": field(metrics, f"{prefix}cached_tokens"),
    }


# --- Harbor -------------------------------------------------------------------------------------


def has_trials(folder: Path) -> bool:
    """Tell whether there is a trial in a folder."""
    return any(map(_is_trial, folder.rglob(RESULT)))


def _is_trial(file: Path) -> bool:
    try:
        trial = json.loads(read_text(file))
    except (FileFormatError, ValueError, RecursionError):
        return False
    return isinstance(trial, dict) and "trial_name" in trial


def trial_traces(folder: Path, tell: Tell) -> Iterator[list[Span]]:
    """Make a trace of each trajectory of the trials in a folder, with their rewards as scores.

    Args:
        folder: Folder of a trial, of a job, or of several.
        tell: Takes trials that cannot be read, those without a trajectory, and a folder without
            any.
    """
    found = 0
    for file in sorted(folder.rglob(RESULT)):
        try:
            trial = to_json_value(json.loads(read_text(file)))
        except (FileFormatError, ValueError, RecursionError) as error:
            tell(FileFormatError(str(file), f"not JSON: {error}"))
            continue
        if isinstance(trial, dict) and "trial_name" in trial:
            found += 1
            yield from _of_trial(file, trial, tell)
    if not found:
        expected = f"the folder of a Harbor trial or job: a {RESULT} with trial_name"
        tell(FileFormatError(str(folder), "the folder holds no trial", expected=expected))


def _of_trial(file: Path, trial: Object, tell: Tell) -> Iterator[list[Span]]:
    """Make the traces of a trial; of one in several steps, of each step."""
    named = text(trial.get("id")) or text(trial["trial_name"])
    parts = [(named, file.parent, trial)]
    for step in items(trial.get("step_results")):
        if isinstance(step, dict):
            name = text(step.get("step_name"))
            parts.append((f"{named}\n{name}", file.parent / "steps" / name, trial | step))
    found = [
        (name if at == 0 else f"{name}\n{path.name}", path, result if at == 0 else None)
        for name, folder, result in parts
        for at, path in enumerate(_of_agent(folder / "agent"))
    ]
    if not found:
        agent = text(field(trial.get("agent_info"), "name"))
        tell(FileFormatError(str(file), f"no agent/trajectory.json; the agent {agent} wrote none"))
    read: set[Path] = set()
    for name, path, result in found:
        if path in read:
            continue
        try:
            value, problem = _continued(path, read)
            spans = trajectory_spans(
                value,
                name,
                ns_of(trial.get("started_at") or trial.get("finished_at"), "started_at"),
                more={"harbor.task": trial.get("task_name"), "harbor.trial": trial["trial_name"]},
                scores=() if result is None else _rewards(result),
                error="" if result is None else _fault(result),
            )
        except (FileFormatError, ValueError, RecursionError) as error:
            tell(FileFormatError(str(path), str(error)))
        else:
            if problem:
                tell(FileFormatError(str(path), problem))
            yield with_lost(spans, bool(problem))


def _of_agent(folder: Path) -> list[Path]:
    """Give the files of trajectories, the agent's own first; others may continue that one."""
    return sorted(
        folder.glob("trajectory*.json"), key=lambda path: (path.name != "trajectory.json", path)
    )


def _continued(path: Path, read: set[Path]) -> tuple[Object, str]:
    """Read a trajectory, with the steps of those that continue it, and why not with all.

    Args:
        path: Its file.
        read: Files that are a part of any; gets those that are tried.
    """
    read.add(path)
    value = _trajectory(path)
    steps: list[JsonValue] = [*_steps(value)]
    while name := text(value.get("continued_trajectory_ref")):
        path = path.parent / Path(name).name
        try:
            if path in read:
                raise DataError("it was read before")
            read.add(path)
            following = _trajectory(path)
            steps += _steps(following)
        except (FileFormatError, ValueError, RecursionError) as error:
            return {**value, "steps": steps}, f"continued_trajectory_ref: {name}: {error}"
        value = following
    return {**value, "steps": steps}, ""


def _trajectory(path: Path) -> Object:
    value = to_json_value(json.loads(read_text(path)))
    if not isinstance(value, dict) or not is_row(value):
        raise DataError(f"expected {LOOKS_FOR}")
    return value


def _fault(trial: Object) -> str:
    """What ended the agent; empty where it ended by itself, whatever the verifier did then."""
    reported = trial.get("exception_info")
    kind = text(field(reported, "exception_type"))
    return (
        f"{kind}: {text(field(reported, 'exception_message'))}" if kind not in _OF_VERIFIER else ""
    )


def _rewards(trial: Object) -> list[SpanEvent]:
    """Give the rewards; where anything but the agent ended the trial, they measure nothing."""
    reported, result = trial.get("exception_info"), trial.get("verifier_result")
    at_ns = ns_of(trial.get("finished_at") or trial.get("started_at"), "finished_at")
    rewards, kind = field(result, "rewards"), text(field(reported, "exception_type"))
    known = {
        name: each
        for name, each in (rewards.items() if isinstance(rewards, dict) else ())
        if number_of(each) is not None
    }
    if not known or kind not in _OF_AGENT:
        said = field(reported, "exception_message")
        return [score_of("reward", at_ns, None, explanation=said, error=kind or "no_reward")]
    return [score_of(name, at_ns, each) for name, each in known.items()]
