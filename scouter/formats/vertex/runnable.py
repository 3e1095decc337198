"""Agents as an evaluation calls them: functions, and objects with `query(input=…)`."""

import asyncio
import contextvars
import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, cast

from pydantic import JsonValue

from scouter.errors import ConfigError, DataError
from scouter.formats.vertex.dataset import Row
from scouter.model.json_value import to_json_value
from scouter.model.text_json import parse_if_json

GIVEN: Final = ("response", "latency_in_seconds", "failure", "predicted_trajectory")
"""Columns that every call of an agent fills."""
FAULT: Final = "failure_explanation"
"""Column with the agent's error; there where an agent raised."""


@dataclass(frozen=True, slots=True)
class _Called:
    """What one call of an agent came to."""

    answer: Row
    latency_s: float | None
    fault: str = ""


def run_agent(runnable: object, prompts: Sequence[JsonValue], concurrency: int) -> list[Row]:
    """Call an agent for each prompt.

    Args:
        runnable: A function from prompt to answer, plain or async, or an object with
            `query(input=…)`. The answer is a text, or an object with `response` and
            `predicted_trajectory`, or as LangChain gives it with `output` and
            `intermediate_steps`; other keys are kept.
        prompts: In the dataset's order, which the answers keep.
        concurrency: Calls at a time, each in a thread of its own.

    Returns:
        The columns of `GIVEN`, one object per prompt. Where the agent raised, `failure` is 1, the
        others are None, and `FAULT` says why.

    Raises:
        ConfigError: It cannot be called so.
    """
    call = _caller(runnable)
    with ThreadPoolExecutor(concurrency, "scouter-agent") as pool:
        started = [
            pool.submit(contextvars.copy_context().run, _call, call, prompt) for prompt in prompts
        ]
        try:
            called = [each.result() for each in started]
        except BaseException:  # Ctrl-C: those that have not begun are not called any more
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    has_faults = any(each.fault for each in called)
    return [_row(each, has_faults) for each in called]


def _row(called: _Called, has_faults: bool) -> Row:
    row: Row = {
        "response": called.answer.pop("response", None),
        "latency_in_seconds": called.latency_s,
        "failure": int(bool(called.fault)),
        "predicted_trajectory": called.answer.pop("predicted_trajectory", None),
    }
    if has_faults:
        row[FAULT] = called.fault or None
    return {**called.answer, **row}


def _caller(runnable: object) -> Callable[[JsonValue], object]:
    query = getattr(runnable, "query", None)
    is_class_of_agents = isinstance(runnable, type) and query is not None
    if callable(runnable) and not is_class_of_agents:
        return cast("Callable[[JsonValue], object]", runnable)
    if callable(query) and not is_class_of_agents:
        return lambda prompt: query(input=prompt)
    raise ConfigError(
        f"runnable: got {runnable!r}; expected a function of the prompt, or an object with "
        "query(input=…)"
    )


def _call(call: Callable[[JsonValue], object], prompt: JsonValue) -> _Called:
    start = time.perf_counter()
    try:
        answer = call(prompt)
        if inspect.isawaitable(answer):
            answer = asyncio.run(_awaited(answer))
        latency_s = time.perf_counter() - start
        return _Called(read_answer(answer), latency_s)
    except (Exception, SystemExit) as error:  # noqa: BLE001 — an agent's failure is one row's
        return _Called({}, None, f"{type(error).__name__}: {error}")


async def _awaited(answer: object) -> object:
    return await cast("asyncio.Future[object]", answer)


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
