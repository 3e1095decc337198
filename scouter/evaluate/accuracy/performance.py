"""Time and memory that an agent takes."""

import copy
import tracemalloc
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from statistics import fmean, median, stdev
from typing import Final, TypeAlias, TypeVar, cast

from scouter.evaluate.accuracy.models import (
    Compat,
    PerformanceEvaluationResult,
    PerformanceRunResult,
    check_agent,
    check_compat,
    check_count,
    refuse,
    time_agent,
)

T = TypeVar("T")
_Found: TypeAlias = "T | Exception"
_NO_TASK: Final = "The `task` must be an instance of `Task` or a list of `Task` objects."


class PerformanceEvaluator:
    """Runs an agent several times, and measures time and memory.

    Time and memory are measured in runs of their own, as tracing memory slows an agent down: an
    evaluation runs the agent `warmup_runs + 2 * num_iterations` times, each time with a copy of
    the task. Memory is that of Python objects (`tracemalloc`) of the whole process. A session of
    `tracemalloc` that runs already goes on; only its peak begins anew.

    Args:
        agent_under_test: A plain or async function of the task, or an object with
            `do_async(task)`.
        task: The question to the agent; a list is sent item by item, as one run.
        num_iterations: Measured runs of either kind, at least 1.
        warmup_runs: Runs before them that are not measured, at least 0.
        compat: `sound`, or `upsonic-0.77`: time and memory are measured in the same runs, of a
            list the first item alone is sent, and the first run that raises ends the evaluation.

    Raises:
        TypeError: The agent cannot be called.
        ValueError: A number of runs is too small, or there is no task.
    """

    def __init__(
        self,
        agent_under_test: object,
        task: object,
        num_iterations: int = 10,
        warmup_runs: int = 2,
        *,
        compat: Compat = "sound",
    ) -> None:
        check_compat(compat)
        check_agent(agent_under_test, compat)
        self._agent, self._compat = agent_under_test, compat
        tasks = cast("list[object]", task) if isinstance(task, list) else [task]
        self._tasks = tasks[:1] if compat != "sound" and tasks else tasks
        if compat != "sound" and any(isinstance(each, str | int | dict) for each in tasks):
            refuse(TypeError, compat, "", _NO_TASK)
        if compat == "sound" and not tasks:
            raise ValueError("task: expected something to ask, got an empty list")
        check_count("num_iterations", num_iterations, 1, compat)
        check_count("warmup_runs", warmup_runs, 0, compat)
        self._iterations, self._warmups = num_iterations, warmup_runs

    async def run(self, print_results: bool = True) -> PerformanceEvaluationResult:
        """Run the agent and measure.

        Args:
            print_results: Whether a table goes to standard output.

        Returns:
            The runs that did not fail, and the reasons of the others. A run that fails does not
            make another one fail.

        Raises:
            Exception: The error of the first run, where all runs failed; in `upsonic-0.77` the
                error of any run.

        Cost: `warmup_runs + 2 * num_iterations` runs of the agent, one after the other.
        """
        for _ in range(self._warmups):
            found = await self._try(self._time)
            if isinstance(found, Exception) and self._compat != "sound":
                raise found
        runs, failures = await (self._apart() if self._compat == "sound" else self._together())
        if failures and not runs:
            raise failures[0][1]
        result = PerformanceEvaluationResult(
            all_runs=runs,
            num_iterations=self._iterations,
            warmup_runs=self._warmups,
            latency_stats=statistics_of([each.latency_seconds for each in runs]),
            memory_increase_stats=statistics_of([each.memory_increase_bytes for each in runs]),
            memory_peak_stats=statistics_of([each.memory_peak_bytes for each in runs]),
            errors=[f"{where}: {type(error).__name__}: {error}" for where, error in failures],
        )
        if print_results:
            from scouter.evaluate.accuracy.shown import print_performance  # rich loads on demand

            print_performance(result)
        return result

    async def _apart(self) -> "_Runs":
        """Measure time in some runs, and memory in as many others."""
        times = [await self._try(self._time) for _ in range(self._iterations)]
        with _tracing():
            memory = [await self._try(self._memory) for _ in range(self._iterations)]
        runs: list[PerformanceRunResult] = []
        failures: list[tuple[str, Exception]] = []
        for at, (seconds, taken) in enumerate(zip(times, memory, strict=True), start=1):
            if isinstance(seconds, Exception):
                failures.append((f"timed run {at}", seconds))
            if isinstance(taken, Exception):
                failures.append((f"traced run {at}", taken))
            if not (isinstance(seconds, Exception) or isinstance(taken, Exception)):
                runs.append(_run(seconds, taken))
        return runs, failures

    async def _together(self) -> "_Runs":
        """Measure time and memory in the same runs; the first failure is raised."""
        runs: list[PerformanceRunResult] = []
        with _tracing():
            for _ in range(self._iterations):
                tracemalloc.reset_peak()
                before, _peak = tracemalloc.get_traced_memory()
                seconds = await self._time()
                runs.append(_run(seconds, _since(before)))
        return runs, []

    async def _try(self, measure: Callable[[], Coroutine[object, object, T]]) -> "T | Exception":
        try:
            return await measure()
        except Exception as error:  # noqa: BLE001 - one run's failure is one run's result
            return error

    async def _time(self) -> float:
        tasks = [copy.deepcopy(task) for task in self._tasks]
        if not tasks:
            raise IndexError("list index out of range")
        seconds = 0.0
        for task in tasks:
            _, taken = await time_agent(self._agent, task)
            seconds += taken
        return seconds

    async def _memory(self) -> "_Bytes":
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        await self._time()
        return _since(before)


_Bytes: TypeAlias = tuple[int, int]
_Runs: TypeAlias = tuple[list[PerformanceRunResult], list[tuple[str, Exception]]]


def _since(before: int) -> _Bytes:
    now, peak = tracemalloc.get_traced_memory()
    return now - before, peak - before


def _run(seconds: float, taken: _Bytes) -> PerformanceRunResult:
    return PerformanceRunResult(
        latency_seconds=seconds, memory_increase_bytes=taken[0], memory_peak_bytes=taken[1]
    )


@contextmanager
def _tracing() -> Generator[None]:
    """Trace memory for a while; a session that somebody else began goes on."""
    if tracemalloc.is_tracing():
        yield
        return
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def statistics_of(values: Sequence[float]) -> dict[str, float]:
    """Sum measurements up.

    Returns:
        `average`, `median`, `min`, `max` and `std_dev` (of a sample, n-1; 0 for one value), in
        the unit of the values; empty for none.
    """
    if not values:
        return {}
    return {
        "average": fmean(values),
        "median": median(values),
        "min": min(values),
        "max": max(values),
        "std_dev": stdev(values) if len(values) > 1 else 0.0,
    }
