"""Control flow that ends a span as a failure would: an exception is raised, and nothing failed.

A graph waits for a person and is resumed, a node hands over to another graph, a tool call is
deferred, the reader of a stream closes it, a client hangs up, a guardrail's tripwire gives its
verdict. The span has no answer then, and no error either. `ModelRetry` and its like are failed
calls: their framework tries again because of them.

Source: `langgraph.errors`, `pydantic_ai.exceptions`, `agents.exceptions` (OpenAI), CrewAI's human
feedback, `strands.interrupt`, LlamaIndex's workflows, Prefect, Starlette, Python's own exceptions,
and the abort errors of JavaScript, the Vercel AI SDK, Next.js and OpenAI's client.
"""

import re
from collections.abc import Iterator
from typing import Final

from scouter.model.span import Span, StatusCode

_PAUSES: Final = frozenset(
    {"GraphInterrupt", "NodeInterrupt", "Interrupt", "InterruptException", "CallDeferred",
     "ApprovalRequired", "HumanFeedbackPending", "Pause"}
)  # fmt: skip
"""What waits, and is run again later."""
_NAMES: Final = _PAUSES | {
    "GraphBubbleUp", "ParentCommand", "GraphDrained", "SkipToolExecution", "SkipModelRequest",
    "GeneratorExit", "StopIteration", "StopAsyncIteration", "CancelledError", "CanceledError",
    "NodeCancelledError", "RunCancelled", "WorkflowCancelledByUser", "KeyboardInterrupt",
    "ClientDisconnect", "AbortError", "ABORT_ERR", "APIUserAbortError", "ResponseAborted",
    "InputGuardrailTripwireTriggered", "OutputGuardrailTripwireTriggered",
    "ToolInputGuardrailTripwireTriggered", "ToolOutputGuardrailTripwireTriggered",
}  # fmt: skip
_TRIPWIRES: Final = frozenset(name for name in _NAMES if name.endswith("TripwireTriggered"))
_TRIPPED: Final = re.compile(r"Guardrail (?:\w+ )?(?:tripwire triggered|triggered tripwire)")
_TYPES: Final = _NAMES | {"Cancelled", "Canceled", "cancelled", "canceled"}
_VAGUE: Final = frozenset({"", "Exception", "BaseException", "Error", "error", "_OTHER", "20"})
"""Types that say nothing, so that the message is looked at; 20 is a DOMException's AbortError."""
_TYPE_KEYS: Final = ("error.type", "exception.type")
_MESSAGE_KEYS: Final = ("exception.message", "error.message", "langfuse.observation.status_message")
_RAISED: Final = r"(?:\w+\.)*(?:{})(?:$|[:(])"
_PAUSE: Final = re.compile(r"[(\[]?Interrupt\(value=|" + _RAISED.format("|".join(sorted(_PAUSES))))
_MESSAGE: Final = re.compile(
    rf"{_PAUSE.pattern}|{_RAISED.format('|'.join(sorted(_NAMES)))}"
    r"|Command\((?:graph|goto|update|resume)="
    rf"|{_TRIPPED.pattern}"
    r"|(?:This|The) operation was aborted|The user aborted a request|Request was aborted"
)
"""Beginnings of a message, or of the last line of a traceback."""
_TRACEBACK: Final = "Traceback (most recent call last)"
_LONGEST: Final = 20_000
"""Characters of a traceback whose end is looked at."""


def has_failed(span: Span) -> bool:
    """Tell whether a span ended in error, and not by control flow."""
    return span.status is StatusCode.ERROR and not is_control_flow(span)


def is_control_flow(span: Span) -> bool:
    """Tell whether what ended a span was control flow, by types of exceptions, else by messages."""
    return _ends(span, _TYPES, _MESSAGE)


def is_pause(span: Span) -> bool:
    """Tell whether a span ended to wait, for a person as a rule, and to be run again."""
    return _ends(span, _PAUSES, _PAUSE)


def is_tripwire(span: Span) -> bool:
    """Tell whether a guardrail's tripwire ended a span."""
    return _ends(span, _TRIPWIRES, _TRIPPED)


def _ends(span: Span, known: frozenset[str], beginning: re.Pattern[str]) -> bool:
    types = [name for each in _texts(span, _TYPE_KEYS) if (name := _bare(each)) not in _VAGUE]
    if types:
        return known.issuperset(types)
    messages = filter(None, (span.status_message, *_texts(span, _MESSAGE_KEYS)))
    matches = [beginning.match(_raised(message)) is not None for message in messages]
    return bool(matches) and all(matches)


def _texts(span: Span, keys: tuple[str, ...]) -> Iterator[str]:
    holders = [span.attributes]
    holders += [event.attributes for event in span.events if event.name == "exception"]
    for holder in holders:
        for key in keys:
            value = holder.get(key)
            if isinstance(value, str):
                yield value


def _bare(name: str) -> str:
    """The name of a class: `<class 'langgraph.errors.GraphInterrupt'>` is `GraphInterrupt`."""
    return name.rpartition(".")[2].strip("<>' ").removeprefix("class '")


def _raised(message: str) -> str:
    """A message, or the line of a traceback that names the exception: frames are indented."""
    said = message.strip()
    if not said.startswith(_TRACEBACK):
        return said
    lines = [line for line in said[-_LONGEST:].splitlines() if line[:1].strip()]
    after = [
        line
        for above, line in zip(["", *lines], lines, strict=False)
        if above.startswith(_TRACEBACK)
    ]
    return after[-1] if after else lines[-1]
