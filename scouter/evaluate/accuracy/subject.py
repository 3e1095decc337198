"""The agent that an evaluator runs: a function, or an object with `do_async`."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, NoReturn, TypeAlias, cast

Compat: TypeAlias = Literal["sound", "upsonic-0.77"]
"""`sound` is right and documented; `upsonic-0.77` gives what Upsonic 0.77 gives."""

COMPATS: Final = ("sound", "upsonic-0.77")


def check_compat(compat: str) -> None:
    """Refuse a profile that there is not."""
    if compat not in COMPATS:
        raise ValueError(f"compat {compat!r}: expected one of {', '.join(COMPATS)}")


def refuse(kind: type[Exception], compat: Compat, ours: str, theirs: str) -> NoReturn:
    """Raise an error about an argument, in our words or in Upsonic's."""
    raise kind(ours if compat == "sound" else theirs)


def check_agent(agent: object, compat: Compat) -> None:
    """Refuse what cannot be asked."""
    if not (callable(agent) or hasattr(agent, "do_async")):
        refuse(
            TypeError,
            compat,
            "agent_under_test: expected a function from the query to the answer, or an object "
            f"with `do_async(task)`, got a {type(agent).__name__}",
            "The `agent_under_test` must be an instance of `Agent`, `Graph`, or `Team`.",
        )


def check_count(name: str, value: object, least: int, compat: Compat) -> None:
    """Refuse a number of runs that is none."""
    if isinstance(value, int) and value >= least:
        return
    words = "a positive integer" if least else "a non-negative integer"
    kind = ValueError
    theirs = f"`{name}` must be {words}."
    refuse(kind, compat, f"{name}: expected an integer from {least}, got {value!r}", theirs)


async def ask_agent(agent: Any, task: object) -> object:  # noqa: ANN401 - whatever can be asked
    """Ask an agent once; a plain function runs in a thread, with this context."""
    answer, _ = await time_agent(agent, task)
    return answer


async def time_agent(agent: Any, task: object) -> tuple[object, float]:  # noqa: ANN401 - the same
    """Ask an agent once, and take the time.

    Returns:
        The answer and the seconds it took; the way into a thread and back is not among them.
    """
    call: Callable[[object], object] = getattr(agent, "do_async", None) or agent
    own = getattr(call, "__call__", None)  # noqa: B004 - to look at, not to call
    if inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(own):
        answer, seconds = _clocked(call, task)
    else:
        answer, seconds = await asyncio.to_thread(_clocked, call, task)
    started = time.perf_counter()
    while isinstance(answer, Awaitable):
        answer = await cast("Awaitable[object]", answer)
    return answer, seconds + time.perf_counter() - started


def _clocked(call: Callable[[object], object], task: object) -> tuple[object, float]:
    started = time.perf_counter()
    answer = call(task)
    return answer, time.perf_counter() - started
