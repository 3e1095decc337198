"""One run of a replay, from switching capture on to the results."""

import asyncio
import functools
import threading
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Final, cast

from scouter.errors import ConfigError
from scouter.evaluate.judge import as_judge, concurrency_of
from scouter.evaluate.lost import Loss, Lost, lost_of
from scouter.evaluate.scenario_results import ScenarioEvalResults
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.replay.agent_name import agent_name
from scouter.replay.calls import Calls, DirectCalls, LoopCalls, drive
from scouter.replay.conduct import Conductor, collect, settle
from scouter.replay.filing import Filing, Job
from scouter.replay.journal import Entry, Journal
from scouter.replay.options import RunOptions
from scouter.replay.progress import progress_bar, tell_resumed
from scouter.replay.runner import EvalRunner
from scouter.replay.setup_check import check_functions
from scouter.tracing.capture import (
    CAPTURE,
    disable_local_span_capture,
    enable_local_span_capture,
)
from scouter.transport.fork import watch

if TYPE_CHECKING:
    from scouter.evaluate.config import EvaluationConfig
    from scouter.evaluate.judge import AnyJudge
    from scouter.replay.orchestrator import EvalOrchestrator


class _Turnstile:
    """Lets one replay at a time into the process, as span capture belongs to the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def after_fork_in_child(self) -> None:
        """Start open: a replay of the parent does not go on in a child."""
        self._lock = threading.Lock()

    @contextmanager
    def pass_through(self) -> Generator[None]:
        """Be inside, or raise at once."""
        watch(self)
        lock = self._lock
        if not lock.acquire(blocking=False):
            raise ConfigError(
                "another replay is running in this process, and both would capture each other's "
                "spans; run them one after the other or in processes of their own"
            )
        try:
            yield
        finally:
            lock.release()


_TURNSTILE: Final = _Turnstile()


class Run:
    """Runs once what an orchestrator is set up for.

    Args:
        hooks: The orchestrator.
        options: How to run.
        config: What to compute beside the tasks.
        judge: Who judges the tasks that need a model.
    """

    def __init__(
        self,
        hooks: "EvalOrchestrator",
        options: RunOptions,
        config: "EvaluationConfig | None" = None,
        judge: "AnyJudge | None" = None,
    ) -> None:
        self.notes: list[str] = []
        """What a user should be warned of, once the run is over."""
        self._hooks = hooks
        self._options = options
        check_functions(hooks)
        self._config = config
        self._scenarios = {scenario.id: scenario for scenario in hooks.scenarios}
        self._runner = EvalRunner(hooks.scenarios, hooks.queue.agent_profiles(), ())
        judge = self._runner.asked(judge)
        self._judge = None if judge is None else as_judge(judge)
        attempts = len(hooks.scenarios) * options.repeats
        self._filing = Filing(
            hooks.queue, CAPTURE, self._runner, self._write_late,
            is_alone=min(options.concurrency, attempts) <= 1,
        )  # fmt: skip
        self._lost_before: Counter[Loss] = Counter()
        self._last: Job | None = None
        self._journal: Journal | None = None
        self._conductor: Conductor | None = None

    def in_turn(self) -> ScenarioEvalResults:
        """Run one attempt after the other in this thread, which has no running event loop."""
        with self._set_up() as (conductor, jobs), closing(DirectCalls()) as calls:
            drive(conductor.in_turn(jobs, calls))
            return drive(self._evaluate(calls))

    def at_once(self) -> ScenarioEvalResults:
        """Run in an event loop of its own; this thread has no running one."""
        return asyncio.run(self.in_loop())

    async def in_loop(self) -> ScenarioEvalResults:
        """Run in the running event loop."""
        with self._set_up() as (conductor, jobs), closing(LoopCalls()) as calls:
            await conductor.at_once(jobs)
            return await self._evaluate(calls)

    def stop(self) -> None:
        """Send records and spans again, and make no further attempt."""
        if self._conductor is not None:
            self._conductor.is_stopped = True
        self._switch_capture_off()

    @contextmanager
    def _set_up(self) -> Generator[tuple[Conductor, Sequence[Job]]]:
        hooks, options = self._hooks, self._options
        jobs = [
            Job(scenario=scenario, attempt=attempt)
            for attempt in range(options.repeats)
            for scenario in hooks.scenarios
        ]
        with ExitStack() as stack:
            stack.enter_context(_TURNSTILE.pass_through())
            if options.resume is not None:
                self._journal = stack.enter_context(
                    Journal(
                        options.resume, hooks.scenarios, self._runner.profiles, agent_name(hooks)
                    )
                )
            left = self._take_up(jobs)
            if options.resume is not None:
                tell_resumed(options.resume, len(jobs), len(left))
            stack.enter_context(self._captured())
            progress = stack.enter_context(
                progress_bar(len(jobs), len(jobs) - len(left), options.progress)
            )
            self._conductor = Conductor(
                hooks, options, self._filing, self._runner, progress, self._journal
            )
            self._last = left[-1] if left else None
            yield self._conductor, left

    def _take_up(self, jobs: Sequence[Job]) -> list[Job]:
        """Give the runner what the journal holds; return what is left to do."""
        if self._journal is None:
            return list(jobs)
        wanted = {(job.scenario.id, job.attempt) for job in jobs}
        ended: dict[tuple[str, int], list[Entry]] = {}
        for entry in self._journal.entries:
            self._lost_before.update(entry.lost)
            key = entry.scenario_id, entry.attempt
            if entry.kind == "late":
                ended.get(key, []).append(entry)
            elif key in wanted and (entry.error is None or self._options.on_error == "record"):
                ended[key] = [entry]
        for (scenario_id, attempt), (first, *late) in ended.items():
            collect(self._runner, self._scenarios[scenario_id], first)
            self._runner.add_spans(first.spans)
            for entry in late:
                self._runner.add_late_records(entry.records, scenario_id, attempt=attempt)
                self._runner.add_spans(entry.spans)
        return [job for job in jobs if (job.scenario.id, job.attempt) not in ended]

    def _write_late(
        self, job: Job, records: Mapping[str, Sequence[EvalRecord]], spans: Sequence[Span]
    ) -> None:
        if self._journal is not None:
            self._journal.append(
                Entry(
                    kind="late",
                    scenario_id=job.scenario.id,
                    attempt=job.attempt,
                    records={alias: tuple(items) for alias, items in records.items()},
                    spans=tuple(spans),
                )
            )

    @contextmanager
    def _captured(self) -> Generator[None]:
        """Keep records and spans here for a while."""
        try:
            self._hooks.queue.enable_capture()
            enable_local_span_capture()
            with self._filing.sorting():
                yield
        finally:
            self._switch_capture_off()

    def _switch_capture_off(self) -> None:
        try:
            self._hooks.queue.disable_capture()
        finally:
            disable_local_span_capture()

    async def _evaluate(self, calls: Calls) -> ScenarioEvalResults:
        await settle(self._filing, calls, self._options.grace_s)
        self._filing.finish()
        self._runner.lost = self._lost()
        lost, job = self._filing.newly_lost(), self._last
        if self._journal is not None and lost and job is not None:
            self._journal.append(
                Entry(kind="late", scenario_id=job.scenario.id, attempt=job.attempt, lost=lost)
            )
        results: object
        if self._judge is None and self._config is None:
            results = await calls.call(self._runner.evaluate)
        else:  # clients of judge and embedder may be bound to the loop of the simulated user
            judge = self._judge
            evaluate = functools.partial(self._runner.evaluate_async, judge=judge)
            bound = concurrency_of(judge)
            if bound is not None:
                evaluate = functools.partial(evaluate, concurrency=bound)
            results = await calls.call(evaluate, self._config)
        changed = await calls.call(self._hooks.on_evaluation_complete, results)
        if changed is None:
            raise ConfigError(
                "on_evaluation_complete returned nothing; return the results that it was given, "
                "or others"
            )
        self._filing.close()
        lost = self._lost()
        self.notes += [f"{each.text}; these are in no result" for each in lost]
        if lost != self._runner.lost and isinstance(changed, ScenarioEvalResults):
            changed = changed.model_copy(update={"lost": lost})
        return cast("ScenarioEvalResults", changed)  # or whatever else an own hook returns

    def _lost(self) -> tuple[Lost, ...]:
        return lost_of(self._lost_before + self._filing.lost)
