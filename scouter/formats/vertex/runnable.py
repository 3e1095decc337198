"""Agents as an evaluation calls them: functions, and objects with `query(input=…)`."""

import asyncio
import contextvars
import inspect
import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.formats.vertex.dataset import Row
from scouter.model.json_value import to_json_value
from scouter.model.text_json import parse_if_json

Call: TypeAlias = Callable[[JsonValue], object]

GIVEN: Final = ("response", "latency_in_seconds", "failure", "predicted_trajectory")
"""Columns that every call of an agent fills."""
_LATE: Final = "no answer within timeout_s={:g}"
FAULT: Final = "failure_explanation"
"""Column with the agent's error; there where an agent raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The policy for an agent that raises or does not answer.

    Args:
        retries: Most times that a failed call is made again.
        timeout_s: Seconds for each call; None for no limit. A call that takes longer has failed. A
            coroutine is cancelled; a plain function goes on in its thread, and nobody waits for it.

    Raises:
        ConfigError: One of them is no such number.
    """

    retries: int = 0
    timeout_s: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.retries, bool) or self.retries < 0:
            raise ConfigError(f"retries: expected an integer from 0, got {self.retries!r}")
        if self.timeout_s is not None and not 0 < self.timeout_s < math.inf:
            raise ConfigError(f"timeout_s: expected seconds above 0, got {self.timeout_s!r}")


@dataclass(frozen=True, slots=True)
class Called:
    """Answer of one call of an agent, its seconds, and its fault where it failed."""

    answer: Row
    latency_s: float | None
    fault: str = ""


def run_agent(
    runnable: object,
    prompts: Sequence[JsonValue],
    concurrency: int,
    patience: Patience | None = None,
) -> list[Row]:
    """Call an agent for each prompt.

    Args:
        runnable: A function from prompt to answer, plain or async, or an object with
            `query(input=…)`. The answer is a text, or an object with `response` and
            `predicted_trajectory`, or as LangChain gives it with `output` and
            `intermediate_steps`; other keys are kept.
        prompts: In the dataset's order, which the answers keep.
        concurrency: Calls at a time, each in a thread of its own.
        patience: Retries and time limit of the calls.

    Returns:
        The columns of `GIVEN`, one object per prompt. Where the last call failed, `failure` is 1,
        the others are None, and `FAULT` has the reason; the latency is that of the call that
        answered.

    Raises:
        ConfigError: It cannot be called so.
    """
    call, patience = caller_of(runnable), patience or Patience()
    with ThreadPoolExecutor(concurrency, "scouter-agent") as pool:
        started = [
            pool.submit(contextvars.copy_context().run, _called, call, prompt, patience)
            for prompt in prompts
        ]
        try:
            called = [each.result() for each in started]
        except BaseException:  # Ctrl-C: those that have not begun are not called any more
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return answers_of(called)


def answers_of(called: Sequence[Called]) -> list[Row]:
    """Write down what calls gave, as the columns of `GIVEN`, and `FAULT` where one failed."""
    has_faults = any(each.fault for each in called)
    return [_row(each, has_faults) for each in called]


def _row(called: Called, has_faults: bool) -> Row:
    row: Row = {
        "response": called.answer.pop("response", None),
        "latency_in_seconds": called.latency_s,
        "failure": int(bool(called.fault)),
        "predicted_trajectory": called.answer.pop("predicted_trajectory", None),
    }
    if has_faults:
        row[FAULT] = called.fault or None
    return {**called.answer, **row}


def caller_of(runnable: object) -> Call:
    """Give the function that answers a prompt.

    Raises:
        ConfigError: There is none.
    """
    query = getattr(runnable, "query", None)
    is_class_of_agents = isinstance(runnable, type) and query is not None
    if callable(runnable) and not is_class_of_agents:
        return cast("Call", runnable)
    if callable(query) and not is_class_of_agents:
        return lambda prompt: query(input=prompt)
    raise ConfigError(
        f"runnable: got {runnable!r}; expected a function of the prompt, or an object with "
        "query(input=…)"
    )


def _called(call: Call, prompt: JsonValue, patience: Patience) -> Called:
    """Call until there is an answer, or as often as it is called at most."""
    attempts = 1 + patience.retries
    found = Called({}, None)
    for _ in range(attempts):
        found = _within(call, prompt, patience.timeout_s)
        if not found.fault:
            return found
    times = f" (called {attempts} times)" if attempts > 1 else ""
    return replace(found, fault=f"{found.fault}{times}")


def _within(call: Call, prompt: JsonValue, timeout_s: float | None) -> Called:
    """Call in a thread that nobody waits for longer than that."""
    if timeout_s is None:
        return _call(call, prompt, None)
    done: SimpleQueue[Called] = SimpleQueue()
    context = contextvars.copy_context()

    def work() -> None:
        done.put(context.run(_call, call, prompt, timeout_s))

    threading.Thread(target=work, name="scouter-agent-call", daemon=True).start()
    try:
        return done.get(timeout=timeout_s)
    except Empty:
        return Called({}, None, f"TimeoutError: {_LATE.format(timeout_s)}")


def _call(call: Call, prompt: JsonValue, timeout_s: float | None) -> Called:
    start = time.perf_counter()
    try:
        answer = call(prompt)
        if inspect.isawaitable(answer):
            answer = asyncio.run(_awaited(answer, timeout_s))
        latency_s = time.perf_counter() - start
        return Called(read_answer(answer), latency_s)
    except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001 — of one row
        return Called({}, None, f"{type(error).__name__}: {error}")


async def _awaited(answer: object, timeout_s: float | None) -> object:
    limit = asyncio.timeout(timeout_s)
    try:
        async with limit:
            return await cast("asyncio.Future[object]", answer)
    except TimeoutError as error:
        if not limit.expired():  # the agent's own
            raise
        raise TimeoutError(_LATE.format(timeout_s)) from error


def read_answer(answer: object) -> Row:
    """Read what an agent gave back.

    Raises:
        DataError: Neither a text nor an object, or with steps of another form.
    """
    if isinstance(answer, str):
        return {"response": answer}
    if not isinstance(answer, Mapping):
        raise DataError(
            f"the agent gave {type(answer).__name__}; expected a text, or an object with response "
            "and predicted_trajectory"
        )
    fields = dict(cast("Mapping[str, object]", answer))
    if "intermediate_steps" in fields:
        steps = cast("Iterable[object]", fields.pop("intermediate_steps") or ())
        fields["predicted_trajectory"] = [_step(each, at) for at, each in enumerate(steps)]
    if "output" in fields:
        fields.setdefault("response", fields.pop("output"))
    row = cast("Row", to_json_value(fields))
    row.setdefault("response", "")
    row["predicted_trajectory"] = parse_if_json(row.get("predicted_trajectory"))
    return row


def _step(step: object, at: int) -> dict[str, object]:
    """A step of LangChain's: an action and what came of it."""
    action = step
    if isinstance(step, list | tuple) and step:
        action = cast("Sequence[object]", step)[0]
    if isinstance(action, Mapping):
        fields = cast("Mapping[str, object]", action)
        inner = fields.get("kwargs", fields)
        fields = cast("Mapping[str, object]", inner) if isinstance(inner, Mapping) else fields
        name, given = fields.get("tool"), fields.get("tool_input")
    else:
        name, given = getattr(action, "tool", None), getattr(action, "tool_input", None)
    if not isinstance(name, str):
        raise DataError(f"intermediate_steps[{at}]: no 'tool' in its action")
    return {"tool_name": name, "tool_input": given}
