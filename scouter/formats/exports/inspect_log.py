"""Inspect's logs, `.eval` and JSON: each sample of each epoch is a trace, its scores are scores.

Source: inspect_ai 0.3, `EvalLog`, `EvalSample` and its events, `log/_recorders/eval.py`,
    `value_to_float` for what letters stand for.
"""

import json
import re
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError, FileFormatError
from scouter.evaluate.files.read import MAX_BYTES
from scouter.formats.exports.agent_spans import AgentSpans, call_part, message, result_part
from scouter.formats.exports.rows import read_values
from scouter.formats.exports.spans import (
    Object,
    Tell,
    ns_of,
    number_of,
    resource_of,
    score_of,
)
from scouter.model.genai.messages import field, items, text
from scouter.model.json_value import plain_texts, to_json_value
from scouter.model.span import Span, SpanEvent

LOOKS_FOR: Final = "Inspect logs (.eval, or JSON that begins with version and status)"
LETTERS: Final = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's correct, partially correct, incorrect and no answer."""

_ZIP: Final = b"PK\x03\x04"
_JSON: Final = re.compile(rb'\s*\{\s*"version":\s*\d+,\s*"status":')
_HEAD_BYTES: Final = 200
_HEADERS: Final = ("header.json", "_journal/start.json")
_ATTACHED: Final = "attachment://"
_ASKING: Final = frozenset({"user", "system"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One sample of a log, with what the log says of the whole."""

    value: Object
    log: Object
    """Its `eval`."""
    path: str

    @classmethod
    def of(cls, value: JsonValue, log: JsonValue, path: Path) -> "Sample":
        """Take what was read; DataError: it is no object, or has no id."""
        if not isinstance(value, dict) or not isinstance(log, dict) or "id" not in value:
            raise DataError("expected an object with id, and eval with task")
        return cls(value=value, log=log, path=str(path))


def is_log(path: Path) -> bool:
    """Tell whether a file is a log of Inspect, by its first bytes."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return head.startswith(_ZIP) or _JSON.match(head) is not None


def samples_of(path: Path, tell: Tell) -> Iterator[Sample]:
    """Read the samples of a log, one at a time.

    Args:
        path: A file that `is_log` knows.
        tell: Takes samples that cannot be read.

    Raises:
        ConfigError: Its packing needs a package that is not installed.
    """
    with path.open("rb") as file:
        is_zip = file.read(len(_ZIP)) == _ZIP
    if not is_zip:
        yield from _of_json(path, tell)
        return
    module = _zipfile()
    try:
        with module.ZipFile(path) as file:
            names: list[str] = file.namelist()
            header = next((name for name in _HEADERS if name in names), None)
            if header is None:
                first = ", ".join(names[:5])
                raise DataError(
                    f"it holds {first}; expected a log of Inspect, with {_HEADERS[0]}; unzip others"
                )
            log = field(_entry(file, header), "eval")
            if not any(name.startswith("samples/") for name in names):
                raise DataError("the log has no samples")
            for name in names:
                if name.startswith("samples/") and name.endswith(".json"):
                    try:
                        yield Sample.of(_entry(file, name), log, path)
                    except DataError as error:
                        tell(FileFormatError(str(path), f"{name}: {error}"))
    except (DataError, OSError, module.BadZipFile) as error:
        tell(FileFormatError(str(path), str(error)))


def _zipfile() -> Any:  # noqa: ANN401 - either of two modules
    """The module that reads zip files; Python's own unpacks zstd from 3.14 on."""
    try:
        from backports.zstd import zipfile as module
    except ImportError:
        return zipfile
    return module


def _entry(file: Any, name: str) -> JsonValue:  # noqa: ANN401 - of either module
    if file.getinfo(name).file_size > MAX_BYTES:
        raise DataError(f"more than {MAX_BYTES} bytes")
    try:
        data: bytes = file.read(name)
    except NotImplementedError as error:
        raise ConfigError(f"{error}: pip install backports.zstd") from error
    except Exception as error:  # each way of packing has errors of its own
        raise DataError(f"broken: {error}") from error
    return _loaded(data)


def _of_json(path: Path, tell: Tell) -> Iterator[Sample]:
    for _, whole in read_values(path, tell):
        fields = cast("dict[str, object]", whole) if isinstance(whole, dict) else {}
        log, samples = plain_texts(cast("JsonValue", fields.get("eval"))), fields.get("samples")
        if not isinstance(samples, list) or not samples:
            tell(FileFormatError(str(path), "the log has no samples"))
            continue
        for at, each in enumerate(cast("list[object]", samples)):
            try:
                yield Sample.of(to_json_value(each), log, path)
            except DataError as error:
                tell(FileFormatError(str(path), str(error), field=f"samples[{at}]"))


def _loaded(data: bytes) -> JsonValue:
    try:
        return to_json_value(json.loads(data))
    except (ValueError, RecursionError) as error:
        raise DataError(f"not JSON: {error}") from error


def sample_traces(samples: Iterable[Sample], tell: Tell) -> Iterator[list[Span]]:
    """Make a trace of each sample.

    Calls of models below a scorer are those of an evaluator, and no part of the agent's work.

    Args:
        samples: Of any number of logs.
        tell: Takes samples that cannot be used.
    """
    for sample in samples:
        try:
            yield _Sample(sample).spans()
        except DataError as error:
            which = f"the sample {sample.value.get('id')}"
            tell(FileFormatError(sample.path, f"{which}: {error}"))


def scores_of(value: Object) -> dict[str, tuple[JsonValue, JsonValue]]:
    """Give the value and the explanation of each score of a sample; of an object each part."""
    found: dict[str, tuple[JsonValue, JsonValue]] = {}
    reported = value.get("scores")
    for name, score in reported.items() if isinstance(reported, dict) else ():
        given, why = field(score, "value"), field(score, "explanation")
        if isinstance(given, dict):
            found |= {f"{name}.{key}": (each, why) for key, each in given.items()}
        else:
            found[name] = given, why
    return found


class _Sample:
    """Makes the spans of one sample."""

    def __init__(self, sample: Sample) -> None:
        value, log = sample.value, sample.log
        attached = value.get("attachments")
        read = _attached(value, attached) if isinstance(attached, dict) and attached else value
        self._value = read if isinstance(read, dict) else value
        self._log = log
        # Logs hold messages that several calls read once, and which of them each read.
        pool = field(self._value.get("events_data"), "messages")
        self._pool = items(pool) or items(self._value.get("message_pool"))
        name = text(value.get("uuid")) or "\n".join(
            str(each)
            for each in (log.get("eval_id") or log.get("run_id"), value["id"], value.get("epoch"))
        )
        commit = text(field(log.get("revision"), "commit"))
        self._made = AgentSpans(name, resource_of(text(log.get("task")), commit))
        self._steps: list[str] = []
        self._started: dict[str, str] = {}
        self._tools: dict[tuple[str, str], str] = {}
        self._questions: JsonValue = None

    def spans(self) -> list[Span]:
        made, value = self._made, self._value
        # A tool is written down when it ends, behind all that happened inside of it.
        events = [each for each in items(value.get("events")) if isinstance(each, dict)]
        events.sort(key=lambda each: text(each.get("timestamp")))
        first = next((each.get("timestamp") for each in events if each.get("timestamp")), None)
        at_ns = ns_of(value.get("started_at") or first or self._log.get("created"), "started_at")
        given, failed = value.get("input"), _fault(value)
        given = items(given) or [{"role": "user", "content": given}]
        # What a solver without a model answered, and what a tool submitted, is nowhere else.
        answer = "" if failed else text(field(value.get("output"), "completion"))
        root = made.act(
            "invoke_agent",
            text(self._log.get("task")),
            None,
            (at_ns, at_ns),
            {
                "gen_ai.input.messages": [each for each in map(_message, given) if each],
                "gen_ai.output.messages": [message("assistant", answer)] if answer else None,
                "inspect.sample": value.get("id"),
                "inspect.epoch": value.get("epoch"),
                "inspect.run": self._log.get("run_id"),
                "inspect.model": self._log.get("model"),
            },
        )
        self._steps.append(root)
        for event in events:
            self._event(event, at_ns)
        done = value.get("completed_at")
        made.close(root, ns_of(done, "completed_at") if done else 0)
        end_ns = made.spans[0].end_ns
        made.close(root, events=_events(value, end_ns), error=failed)
        return made.spans

    def _event(self, event: Object, at_ns: int) -> None:
        kind = event.get("event")
        start = event.get("timestamp")
        end = event.get("completed") or start
        times = (
            ns_of(start, "timestamp") if start else at_ns,
            ns_of(end, "completed") if end else at_ns,
        )
        parent = self._started.get(text(event.get("span_id")), self._steps[-1])
        if kind == "model" and not event.get("pending"):
            self._model(event, parent, times)
        elif kind == "tool" and not event.get("pending"):
            error = field(event.get("error"), "message") or field(event.get("error"), "type")
            error = error or ("the tool failed" if event.get("failed") is True else None)
            call = text(event.get("function")), event.get("id"), event.get("arguments")
            tool = self._made.tool(parent, times, call, event.get("result"), text(error))
            self._tools[parent, text(event.get("function"))] = tool
        elif kind == "span_begin" or (kind == "step" and event.get("action") == "begin"):
            above = self._started.get(text(event.get("parent_id")), parent)
            span = self._part(event, above, times)
            if kind == "step":
                self._steps.append(span)
            else:
                self._started[text(event.get("id"))] = span
        elif kind == "span_end" and (span := self._started.get(text(event.get("id")))):
            self._made.close(span, times[1])
        elif kind == "step" and len(self._steps) > 1:
            self._made.close(self._steps.pop(), times[1])

    def _part(self, event: Object, parent: str, times: tuple[int, int]) -> str:
        name, kind = text(event.get("name")), text(event.get("type"))
        if kind == "agent":
            return self._made.act("invoke_agent", name, parent, times, {})
        if kind == "tool":
            parent = self._tools.get((parent, name), parent)
        mark: Object = {"openinference.span.kind": "EVALUATOR"} if "scorer" in kind else {}
        return self._made.add(name or kind, parent, times, {"inspect.type": kind, **mark})

    def _model(self, event: Object, parent: str, times: tuple[int, int]) -> None:
        given = [
            each
            for ref in items(event.get("input_refs"))
            for each in self._pool[_place(ref, 0) : _place(ref, 1)]
        ] or items(event.get("input"))
        output = event.get("output")
        choice = next(iter(items(field(output, "choices"))), None)
        answer = _message(field(choice, "message"))
        if answer is not None:
            answer["finish_reason"] = field(choice, "stop_reason")
        questions = [each for each in given if field(each, "role") in _ASKING]
        said: list[JsonValue] = [each for each in map(_message, given) if each is not None]
        self._made.act(
            "chat",
            text(event.get("model")),
            parent,
            times,
            {
                "gen_ai.input.messages": None if questions == self._questions else said,
                "gen_ai.output.messages": None if answer is None else [answer],
                "gen_ai.response.model": field(output, "model"),
                "gen_ai.tool.definitions": event.get("tools") or None,
                **_usage(field(output, "usage")),
            },
            text(event.get("error")) or text(field(output, "error")),
        )
        self._questions = list(questions)


def _place(ref: JsonValue, at: int) -> int:
    pair = items(ref)
    number = pair[at] if len(pair) == 2 else 0
    return number if isinstance(number, int) else 0


def _attached(value: JsonValue, attached: Object) -> JsonValue:
    """Put texts that the log holds apart back to where they were."""
    if isinstance(value, str) and value.startswith(_ATTACHED):
        return attached.get(value.removeprefix(_ATTACHED), value)
    if isinstance(value, list):
        return [_attached(each, attached) for each in value]
    if isinstance(value, dict):
        return {key: _attached(each, attached) for key, each in value.items()}
    return value


def _message(value: JsonValue) -> Object | None:
    """Write one of Inspect's messages as OpenTelemetry's conventions have it."""
    role, content = text(field(value, "role")), field(value, "content")
    if not role:
        return None
    parts = [part for part in items(content) if isinstance(part, dict)]
    said = text(content) or "".join(text(each.get("text")) for each in parts)
    others: list[Object] = [
        {"type": "reasoning", "content": each.get("reasoning")}
        if each.get("type") == "reasoning"
        else {"type": "uri", "modality": each.get("type")}
        for each in parts
        if each.get("type") != "text"
    ]
    if role == "tool":
        return message("tool", "", result_part(field(value, "tool_call_id"), said))
    calls = [
        call_part(field(call, "id"), field(call, "function"), field(call, "arguments"))
        for call in items(field(value, "tool_calls"))
    ]
    return message(role, said, *others, *calls)


def _usage(usage: JsonValue) -> Object:
    """Tokens; Inspect counts what a cache had beside the input."""
    read, written = (field(usage, f"input_tokens_cache_{each}") for each in ("read", "write"))
    given = [number_of(each) for each in (field(usage, "input_tokens"), read, written)]
    whole = int(sum(each or 0.0 for each in given))
    return {
        "gen_ai.usage.input_tokens": None if given[0] is None else whole,
        "gen_ai.usage.output_tokens": field(usage, "output_tokens"),
        "gen_ai.usage.cache_read.input_tokens": read,
        "gen_ai.usage.cache_creation.input_tokens": written,
        "gen_ai.usage.reasoning.output_tokens": field(usage, "reasoning_tokens"),
    }


def _fault(value: Object) -> str:
    """Error or limit that ended a sample before its end; empty without one."""
    limit = value.get("limit")
    reached = text(field(limit, "reason")) or f"limit: {text(field(limit, 'type'))}"
    return text(field(value.get("error"), "message")) or (reached if limit else "")


def _events(value: Object, at_ns: int) -> Iterator[SpanEvent]:
    for name, (given, why) in scores_of(value).items():
        letter = LETTERS.get(given) if isinstance(given, str) else None
        if isinstance(given, list):
            given = json.dumps(given)
        yield score_of(
            name,
            at_ns,
            given if letter is None else letter,
            label=None if letter is None else given,
            explanation=why,
            error="no_score" if given is None else "",
        )
