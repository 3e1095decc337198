"""Owners of an agent's records and spans: beside its own thread, behind its answer, at once."""

import asyncio
import contextvars
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.pool import ThreadPool
from typing import Any

import pytest

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.scenario import EvalScenario
from scouter.model.record import EvalRecord
from scouter.replay.orchestrator import EvalOrchestrator
from tests.scouter.replay.bench import Bench, equals, spans_named

SOON_S = 120
LONG_S = 3600.0
"""Longer than any test may take."""
NAMES = ("one", "two", "three")
Agent = Callable[[str], Any]
Work = Callable[[str], None]
Keep = ExitStack


def by_runner(work: Work, keep: Keep) -> Agent:
    """One event loop for all scenarios, in the context of the first."""
    runner = keep.enter_context(asyncio.Runner())

    async def do(message: str) -> None:
        await asyncio.sleep(0)
        work(message)

    return lambda message: runner.run(do(message))


def by_loop(work: Work, keep: Keep) -> Agent:
    """The same by the older functions."""
    loop = asyncio.new_event_loop()
    keep.callback(loop.close)
    first = contextvars.copy_context

    contexts: list[contextvars.Context] = []

    async def do(message: str) -> None:
        work(message)

    def agent(message: str) -> None:
        if not contexts:
            contexts.append(first())
        loop.run_until_complete(contexts[0].run(loop.create_task, do(message)))

    return agent


def _thread(target: Callable[[], object]) -> None:
    """Start a thread in the context of the scenario that runs."""
    threading.Thread(target=contextvars.copy_context().run, args=(target,), daemon=True).start()


def by_thread(work: Work, keep: Keep, given: Any = None, *, in_context: bool = True) -> Agent:
    """A thread that the first scenario starts and that serves them all."""
    jobs: queue.Queue[Any] = queue.Queue() if given is None else given
    keep.callback(jobs.put, None)
    started: list[bool] = []

    def serve() -> None:
        while (job := jobs.get()) is not None:
            message, done = job
            work(message)
            done.set()

    def agent(message: str) -> None:
        if not started:
            started.append(True)
            if in_context:
                _thread(serve)
            else:
                threading.Thread(target=serve, daemon=True).start()
        done = threading.Event()
        jobs.put((message, done))
        assert done.wait(SOON_S)

    return agent


def by_simple_queue(work: Work, keep: Keep) -> Agent:
    return by_thread(work, keep, queue.SimpleQueue())


def by_bare_thread(work: Work, keep: Keep) -> Agent:
    return by_thread(work, keep, in_context=False)


def by_event(work: Work, keep: Keep) -> Agent:
    """A thread that waits for an event without limit."""
    wake, jobs = threading.Event(), list[tuple[str, threading.Event]]()
    keep.callback(wake.set)

    def serve() -> None:
        while wake.wait():
            wake.clear()
            if not jobs:
                return
            message, done = jobs.pop()
            work(message)
            done.set()

    def agent(message: str) -> None:
        if message == NAMES[0]:
            _thread(serve)
        done = threading.Event()
        jobs.append((message, done))
        wake.set()
        assert done.wait(SOON_S)

    return agent


def by_loop_thread(work: Work, keep: Keep) -> Agent:
    """An event loop in a thread, with a task that takes jobs in the first scenario's context."""
    loop, ended = asyncio.new_event_loop(), threading.Event()
    jobs: asyncio.Queue[tuple[str, threading.Event] | None] = asyncio.Queue()
    keep.callback(loop.close)
    keep.callback(ended.wait, SOON_S)
    keep.callback(lambda: loop.call_soon_threadsafe(jobs.put_nowait, None))

    def run() -> None:
        loop.run_until_complete(serve())
        ended.set()

    async def serve() -> None:
        while (job := await jobs.get()) is not None:
            work(job[0])
            job[1].set()

    def agent(message: str) -> None:
        if message == NAMES[0]:
            _thread(run)
        done = threading.Event()
        loop.call_soon_threadsafe(jobs.put_nowait, (message, done))
        assert done.wait(SOON_S)

    return agent


def by_pool(work: Work, keep: Keep) -> Agent:
    pool = keep.enter_context(ThreadPoolExecutor(2))
    return lambda message: pool.submit(work, message).result(SOON_S)


def by_old_pool(work: Work, keep: Keep) -> Agent:
    pool = keep.enter_context(ThreadPool(2))
    return lambda message: pool.apply(work, (message,))


KEPT = [
    by_runner, by_loop, by_thread, by_bare_thread, by_simple_queue, by_event, by_loop_thread,
    by_pool, by_old_pool,
]  # fmt: skip


@pytest.fixture
def keep() -> Iterator[Keep]:
    with ExitStack() as stack:
        yield stack


def owners(results: ScenarioEvalResults) -> dict[str, list[str]]:
    """Per scenario, the messages of the records that it got, with those of its spans."""
    found: dict[str, list[str]] = {name: [] for name in results.scenario_ids}
    rows = results.dataset_results.get("agent")
    for row in () if rows is None else rows.aligned_results:
        assert row.scenario_id is not None
        found[row.scenario_id].append(str(row.record.record_id))
    return found


def scenarios(names: tuple[str, ...] = NAMES) -> list[EvalScenario]:
    """Each expects one span of its own."""
    return [EvalScenario(name, [spans_named("step", 1)], id=name) for name in names]


def maker(bench: Bench) -> Work:
    """Makes a span and a record that is called like the message."""

    def work(message: str) -> None:
        with bench.tracer.start_as_current_span("step") as span:
            span.add_queue_item("agent", EvalRecord(context={"m": message}, id=message))

    return work


@pytest.mark.parametrize("options", [{}, {"timeout_s": 30.0}], ids=["in turn", "in a loop"])
@pytest.mark.parametrize("make", KEPT, ids=lambda make: make.__name__)
def test_what_is_captured_is_the_running_scenarios(
    bench: Bench, keep: Keep, make: Callable[[Work, Keep], Agent], options: dict[str, Any]
) -> None:
    """The context makes no difference; it is that of the first scenario or of none.

    A run that waited for threads without work would meet the time limit of the test.
    """
    agent = make(maker(bench), keep)
    results = bench.orchestrator(*scenarios(), agent_fn=agent).run(grace_s=LONG_S, **options)
    assert owners(results) == {name: [name] for name in NAMES}
    assert results.metrics.overall_pass_rate == 1.0
    assert results.lost == ()


@pytest.mark.parametrize("make", KEPT, ids=lambda make: make.__name__)
def test_what_a_hook_has_started_is_the_agents(
    bench: Bench, keep: Keep, make: Callable[[Work, Keep], Agent]
) -> None:
    """A loop or thread that began in a hook's scope serves the agent."""
    agent = make(maker(bench), keep)

    class Started(EvalOrchestrator):
        def on_scenario_start(self, scenario: EvalScenario) -> None:
            if scenario.id == NAMES[0]:
                agent(NAMES[0])

        def execute_agent(self, scenario: EvalScenario) -> str:
            if scenario.id != NAMES[0]:
                agent(scenario.id)
            return scenario.id

    orchestrator = Started(bench.queue, bench.orchestrator(*scenarios()).scenarios)
    found = owners(orchestrator.run(grace_s=8))
    assert {name: found[name] for name in NAMES[1:]} == {name: [name] for name in NAMES[1:]}


def _later(do: Callable[[], object], after_s: float) -> None:
    time.sleep(after_s)
    do()


def in_thread(do: Callable[[], object], after_s: float) -> None:
    threading.Thread(target=_later, args=(do, after_s), daemon=True).start()


def in_scoped_thread(do: Callable[[], object], after_s: float) -> None:
    _thread(lambda: _later(do, after_s))


def by_timer(do: Callable[[], object], after_s: float) -> None:
    timer = threading.Timer(after_s, do)
    timer.daemon = True
    timer.start()


POOL = ThreadPoolExecutor(8, thread_name_prefix="shared")


def in_shared_pool(do: Callable[[], object], after_s: float) -> None:
    POOL.submit(_later, do, after_s)


@pytest.mark.parametrize("options", [{}, {"timeout_s": 30.0}], ids=["in turn", "in a loop"])
@pytest.mark.parametrize(
    "start", [in_thread, in_scoped_thread, by_timer, in_shared_pool], ids=lambda f: f.__name__
)
def test_what_comes_soon_after_the_answer_is_waited_for(
    bench: Bench,
    start: Callable[[Callable[[], object], float], None],
    options: dict[str, Any],
) -> None:
    """50 ms later: every scenario gets its own, the last one too."""
    work = maker(bench)

    def agent(message: str) -> str:
        start(lambda: work(message), 0.05)
        return message

    results = bench.orchestrator(*scenarios(), agent_fn=agent).run(grace_s=8, **options)
    assert owners(results) == {name: [name] for name in NAMES}
    assert results.metrics.overall_pass_rate == 1.0
    assert results.lost == ()


@pytest.mark.parametrize("options", [{}, {"concurrency": 3}], ids=["in turn", "at once"])
def test_a_task_in_the_background_is_waited_for(bench: Bench, options: dict[str, Any]) -> None:
    work, tasks = maker(bench), set[asyncio.Task[None]]()

    async def later(message: str) -> None:
        await asyncio.sleep(0.05)
        work(message)

    async def agent(message: str) -> str:
        tasks.add(asyncio.get_running_loop().create_task(later(message)))
        await asyncio.sleep(0)
        return message

    results = bench.orchestrator(*scenarios(), agent_fn=agent).run(grace_s=8, **options)
    assert owners(results) == {name: [name] for name in NAMES}
    assert results.lost == ()


@pytest.mark.parametrize("options", [{}, {"concurrency": 3}], ids=["in turn", "at once"])
def test_a_span_that_is_open_is_waited_for(bench: Bench, options: dict[str, Any]) -> None:
    """It ends in a pool that was there before."""

    def agent(message: str) -> str:
        span = bench.tracer.start_span("step")
        POOL.submit(_later, span.end, 0.05)
        return message

    results = bench.orchestrator(*scenarios(), agent_fn=agent).run(grace_s=8, **options)
    assert results.metrics.scenario_pass_rate == 1.0
    assert results.lost == ()


def test_a_span_that_never_ends_is_lost_and_reported(bench: Bench) -> None:
    def agent(message: str) -> str:
        bench.tracer.start_span("step")
        return message

    with pytest.warns(UserWarning, match="3 spans that had not ended"):
        results = bench.orchestrator(*scenarios(), agent_fn=agent).run(grace_s=0.01)
    assert [(each.reason, each.count) for each in results.lost] == [("span_open", 3)]


@pytest.mark.filterwarnings("ignore:.*in no result")
@pytest.mark.parametrize(
    "start", [in_thread, in_scoped_thread, by_timer, in_shared_pool], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("options", [{}, {"timeout_s": 30.0}], ids=["in turn", "in a loop"])
def test_what_comes_later_still_is_never_the_next_ones(
    bench: Bench,
    start: Callable[[Callable[[], object], float], None],
    options: dict[str, Any],
) -> None:
    """The first one's record comes while the second runs: it is the first one's, or lost."""
    work, came = maker(bench), threading.Event()

    def late() -> None:
        work("one")
        came.set()

    def agent(message: str) -> str:
        if message == "one":
            start(late, 0.3)
        elif message == "two":
            assert came.wait(SOON_S)
            work(message)
        else:
            work(message)
        return message

    results = bench.orchestrator(*scenarios(), agent_fn=agent).run(grace_s=0.01, **options)
    found = owners(results)
    assert found["two"] == ["two"]
    assert found["three"] == ["three"]
    assert len(found["one"]) + sum(each.count for each in results.lost) == 1
    assert results.get_scenario_detail("two").passed


def test_a_clean_run_does_not_wait(bench: Bench) -> None:
    """Ten scenarios with a pool and a thread that stay take no share of the grace period."""
    with ExitStack() as stack:
        work = maker(bench)
        first, second = by_pool(work, stack), by_thread(lambda _: None, stack)

        def agent(message: str) -> None:
            first(message)
            second(message)

        names = tuple(f"s{i}" for i in range(10))
        results = bench.orchestrator(*scenarios(names), agent_fn=agent).run(grace_s=LONG_S)
    assert owners(results) == {name: [name] for name in names}


@pytest.mark.parametrize("make", [by_pool, by_bare_thread], ids=lambda make: make.__name__)
def test_at_once_nobody_knows_and_the_results_say_so(
    bench: Bench, keep: Keep, make: Callable[[Work, Keep], Agent]
) -> None:
    """Six records without a scope, also where one attempt is the last to run: all lost."""
    names = tuple(f"s{i}" for i in range(6))
    agent = make(maker(bench), keep)
    cases = [EvalScenario(name, [equals("response", None)], id=name) for name in names]
    with pytest.warns(UserWarning, match="6 records of unknown origin"):
        results = bench.orchestrator(*cases, agent_fn=agent).run(concurrency=6)
    assert results.dataset_results == {}
    assert [(each.reason, each.count) for each in results.lost] == [("unknown_origin", 6)]


def test_at_once_a_pool_that_is_known_loses_nothing(bench: Bench, keep: Keep) -> None:
    """By the remedy that the report names."""
    names = tuple(f"s{i}" for i in range(6))
    pool, work = keep.enter_context(ThreadPoolExecutor(2)), maker(bench)

    def agent(message: str) -> None:
        pool.submit(contextvars.copy_context().run, work, message).result(SOON_S)

    results = bench.orchestrator(*scenarios(names), agent_fn=agent).run(concurrency=6)
    assert owners(results) == {name: [name] for name in names}
    assert results.lost == ()


def test_what_comes_when_all_is_judged_is_reported(bench: Bench) -> None:
    """A thread inserts while the results are made."""
    go_on, work = threading.Event(), maker(bench)
    threads: list[threading.Thread] = []

    def late() -> None:
        assert go_on.wait(SOON_S)
        work("one")

    class Judged(EvalOrchestrator):
        def execute_agent(self, scenario: EvalScenario) -> str:
            work("one")
            threads.append(threading.Thread(target=late))
            threads[0].start()
            return "one"

        def on_evaluation_complete(self, results: Any) -> Any:
            go_on.set()
            threads[0].join(SOON_S)
            return results

    orchestrator = Judged(bench.queue, bench.orchestrator(*scenarios(("one",))).scenarios)
    with pytest.warns(UserWarning, match="1 record that came when all had been judged"):
        results = orchestrator.run(grace_s=0.01)
    assert [(each.reason, each.count) for each in results.lost] == [("too_late", 1)]
