"""One run of a replay, from switching capture on to the results."""

import asyncio
import functools
import threading
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from scouter.errors import ConfigError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.asking import Ask
from scouter.evaluate.compare.checks import Checks, difference_of
from scouter.evaluate.judge.loops import at_once, in_other_thread
from scouter.evaluate.judge.port import as_judge, concurrency_of
from scouter.evaluate.outcome import Reason
from scouter.evaluate.results.pooling import joined, picked
from scouter.evaluate.results.provenance import judge_name_of
from scouter.evaluate.results.run import Loss, Lost, lost_of
from scouter.evaluate.scenario import EvalScenarios
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.replay.calls import Calls, DirectCalls, LoopCalls, with_loop
from scouter.replay.conduct import Conductor, collect, settle
from scouter.replay.filing import Filing, Job
from scouter.replay.hooks import Hooks, agent_name, user_name
from scouter.replay.journal import Entry, Journal
from scouter.replay.options import RunOptions
from scouter.replay.progress import progress_bar, tell_asking_again, tell_resumed
from scouter.replay.reasks import Reasks, ReasksInterrupted
from scouter.replay.runner import EvalRunner
from scouter.replay.setup_check import check_functions, check_reviewed
from scouter.tracing.capture import (
    CAPTURE,
    disable_local_span_capture,
    enable_local_span_capture,
)
from scouter.transport.process import watch

if TYPE_CHECKING:
    from scouter.evaluate.annotate.config import EvaluationConfig
    from scouter.evaluate.judge.port import AnyJudge

Make: TypeAlias = Callable[[Sequence[Job]], Awaitable[None]]
"""Makes attempts, in this thread or in a loop."""


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
    """One run of the scenarios of an orchestrator.

    Args:
        hooks: The orchestrator.
        options: Options of the run.
        config: Values to compute beside the tasks.
        judge: Answers the tasks that need a model.
        beside: The orchestrator of the version that the new one is compared with, with the same
            queue and scenarios. Both make each attempt, and take turns in going first.
        judge_name: Name of a judge of the user's own in the results; by default that of `judge`.
    """

    def __init__(
        self,
        hooks: Hooks,
        options: RunOptions,
        config: "EvaluationConfig | None" = None,
        judge: "AnyJudge | None" = None,
        beside: Hooks | None = None,
        judge_name: str | None = None,
    ) -> None:
        self.notes: list[str] = []
        """Warnings for the user, once the run is over."""
        self.baseline = options.baseline
        """Baseline of the run; a version that runs beside becomes the baseline at the end."""
        self._hooks = hooks
        self._beside = beside
        self._options = options
        check_reviewed(list(hooks.scenarios), is_allowed=options.allow_unreviewed)
        for each in (hooks, *([beside] if beside is not None else [])):
            check_functions(each)
        self._config = config
        self._scenarios = {scenario.id: scenario for scenario in hooks.scenarios}
        self._runner = EvalRunner(hooks.scenarios, hooks.queue.agent_profiles(), ())
        self._judge_name = judge_name_of(judge) if judge_name is None else judge_name
        judge = self._runner.judge_to_call(judge)
        self._judge = None if judge is None else as_judge(judge)
        self._attempts = options.repeats * (1 if beside is None else 2)
        """Number of attempts at each scenario, those of both versions together."""
        is_compared = beside is not None or options.baseline is not None
        self._planned = options.repeats if options.sequential and is_compared else 0
        """Most first attempts at each scenario of a sequential run, else 0."""
        self._first = range(1 if self._planned else options.repeats)
        """First attempts that are made before anybody looks."""
        attempts = len(hooks.scenarios) * self._attempts
        self._filing = Filing(
            hooks.queue, CAPTURE, self._runner, self._write_late,
            is_alone=min(options.concurrency, attempts) <= 1,
        )  # fmt: skip
        self._lost_before: Counter[Loss] = Counter()
        self._last: Job | None = None
        self._journal: Journal | None = None
        self._conductor: Conductor | None = None
        self._before: ScenarioEvalResults | None = None
        """What the version that runs beside did so far."""
        self._reasks: Reasks | None = None

    def check_accepted(self, accepted: Collection[str]) -> None:
        """Refuse ids of which nothing changed since the baseline, before the run costs anything.

        Raises:
            ConfigError: Names the ids of what did.
        """
        if accepted and (before := self.baseline) is not None:
            checks = self._runner.checks(self._judge_name, user_name(self._hooks))
            found = difference_of(Checks(before.provenance, before.scenarios), checks)
            found.check_accepted(accepted)

    def in_turn(self) -> ScenarioEvalResults:
        """Run one attempt after the other in this thread, which has no running event loop."""
        with self._set_up() as (conductor, jobs), closing(DirectCalls()) as calls:
            make = functools.partial(conductor.in_turn, calls=calls)
            at_once(make(jobs))
            return at_once(self._results(conductor, calls, make))

    def at_once(self) -> ScenarioEvalResults:
        """Run in an event loop of its own; this thread has no running one."""
        return asyncio.run(self.in_loop())

    async def in_loop(self) -> ScenarioEvalResults:
        """Run in the running event loop."""
        with self._set_up() as (conductor, jobs), closing(LoopCalls()) as calls:
            await conductor.at_once(jobs)
            return await self._results(conductor, calls, conductor.at_once)

    def stop(self) -> None:
        """Send records and spans again, and make no further attempt."""
        if self._conductor is not None:
            self._conductor.is_stopped = True
        self._switch_capture_off()

    def lead(self) -> ScenarioEvalResults:
        """Run in this thread, or in one of its own where this one has a running event loop.

        Raises:
            ReasksInterrupted: Somebody pressed Ctrl-C while scenarios were asked again.
        """
        work = self.at_once if self._options.needs_loop else self.in_turn
        try:
            if _is_in_event_loop():
                results = in_other_thread(functools.partial(with_loop, work), self.stop)
            else:
                results = work()
        except KeyboardInterrupt as error:
            if self._reasks is None or not self._reasks.open:
                raise
            raise ReasksInterrupted(self._reasks.results()) from error
        for note in self.notes:
            warnings.warn(note, stacklevel=3)
        return results

    @contextmanager
    def _set_up(self) -> Generator[tuple[Conductor, Sequence[Job]]]:
        hooks, options = self._hooks, self._options
        jobs = self._jobs(self._first)
        with ExitStack() as stack:
            stack.enter_context(_TURNSTILE.pass_through())
            if options.resume is not None:
                names = [agent_name(each) for each in (hooks, self._beside) if each is not None]
                self._journal = stack.enter_context(
                    Journal(
                        Path(options.resume),
                        hooks.scenarios,
                        self._runner.profiles,
                        " beside ".join(names),
                    )
                )
                for entry in self._journal.entries:
                    self._lost_before.update(entry.lost)
            left = self._take_up(jobs)
            if options.resume is not None:
                tell_resumed(Path(options.resume), len(jobs), len(left))
            stack.enter_context(self._captured())
            progress = stack.enter_context(
                progress_bar(len(jobs), len(jobs) - len(left), options.progress)
            )
            self._conductor = Conductor(
                hooks, self._beside, options, self._filing, self._runner, progress, self._journal
            )
            self._last = left[-1] if left else None
            yield self._conductor, left

    def _jobs(self, attempts: range) -> list[Job]:
        """First attempts; with two versions the even numbers are the new one's."""
        scenarios = list(self._hooks.scenarios)
        if self._beside is None:
            return [Job(scenario=each, attempt=at) for at in attempts for each in scenarios]
        jobs: list[Job] = []
        for at in attempts:
            for place, each in enumerate(scenarios):
                pair = [
                    Job(scenario=each, attempt=2 * at),
                    Job(scenario=each, attempt=2 * at + 1, is_beside=True),
                ]
                jobs += pair if (at + place) % 2 else pair[::-1]
        return jobs

    def _take_up(self, jobs: Sequence[Job]) -> list[Job]:
        """Give the runner what the journal holds; return what is left to do."""
        if self._journal is None:
            return list(jobs)
        wanted = {(job.scenario.id, job.attempt, job.is_again) for job in jobs}
        ended: dict[tuple[str, int, bool], list[Entry]] = {}
        for entry in self._journal.entries:
            key = entry.scenario_id, entry.attempt, entry.is_again
            if entry.kind == "late":
                ended.get(key, []).append(entry)
            elif key in wanted and (
                entry.error is None
                or entry.error_reason is Reason.INCOMPLETE  # it ended, and nothing was raised
                or self._options.on_error == "record"
            ):
                ended[key] = [entry]
        for (scenario_id, attempt, _), (first, *late) in ended.items():
            collect(self._runner, self._scenarios[scenario_id], first)
            self._runner.add_spans(first.spans)
            for entry in late:
                self._runner.add_late_records(entry.records, scenario_id, attempt=attempt)
                self._runner.add_spans(entry.spans)
        return [job for job in jobs if (job.scenario.id, job.attempt, job.is_again) not in ended]

    def _write_late(
        self, job: Job, records: Mapping[str, Sequence[EvalRecord]], spans: Sequence[Span]
    ) -> None:
        if self._journal is not None:
            self._journal.append(
                Entry(
                    kind="late",
                    scenario_id=job.scenario.id,
                    attempt=job.attempt,
                    is_again=job.is_again,
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

    async def _results(self, conductor: Conductor, calls: Calls, make: Make) -> ScenarioEvalResults:
        """Judge what was made, ask again what is in doubt, and let the hook have its say."""
        results = await self._separated(await self._evaluate(calls), self._first, calls)
        if self.baseline is not None:
            results = await self._ask_again(results, self.baseline, conductor, calls, make)
        changed = await self._completed(self._hooks, results, calls)
        self._filing.close()
        lost = self._lost()
        self.notes += [f"{each.text}; these are in no result" for each in lost]
        if lost != results.lost and isinstance(changed, ScenarioEvalResults):
            changed = changed.model_copy(update={"lost": lost})
        return cast("ScenarioEvalResults", changed)  # or whatever else an own hook returns

    async def _completed(self, hooks: Hooks, results: ScenarioEvalResults, calls: Calls) -> object:
        """Call the hook that may change the results, and give the results that it returns."""
        changed = await calls.call(hooks.on_evaluation_complete, results)
        if changed is None:
            raise ConfigError(
                "on_evaluation_complete returned nothing; return the results that it was given, "
                "or others"
            )
        return changed

    async def _separated(
        self, both: ScenarioEvalResults, attempts: range, calls: Calls
    ) -> ScenarioEvalResults:
        """Add what the other version did to the baseline; return what the new one did."""
        if self._beside is None:
            return both
        found = picked(both, {2 * at + 1: at for at in attempts})
        if self._before is not None:
            update = {"runs": 1, "lost": found.lost}
            found = joined([self._before, found]).model_copy(update=update)
        self._before = found
        completed = await self._completed(self._beside, found, calls)
        if not isinstance(completed, ScenarioEvalResults):
            raise ConfigError(
                f"{agent_name(self._beside)}: on_evaluation_complete returned a "
                f"{type(completed).__name__}; expected results to hold the new ones against"
            )
        self.baseline = completed
        return picked(both, {2 * at: at for at in attempts})

    async def _ask_again(
        self,
        results: ScenarioEvalResults,
        baseline: ScenarioEvalResults,
        conductor: Conductor,
        calls: Calls,
        make: Make,
    ) -> ScenarioEvalResults:
        """Ask the suite again, or single scenarios, as long as the evidence is in doubt.

        They run in rounds: only the evaluation of a round tells whether another one is
        needed. The attempts run in the loop and with the calls of the run, as an agent may keep
        clients that are bound to these.
        """
        options, first = self._options, self._first
        self._reasks = reasks = Reasks(baseline, results, options.confirm, self._planned)
        attempt = self._attempts  # a number of its own: an agent may look at it
        said = Ask.NOTHING
        while names := reasks.open:
            ask = reasks.ask
            if ask not in {said, Ask.ROUND} and options.progress is not False:
                tell_asking_again(len(names), of_all=ask is Ask.SUITE)
            said = ask
            scenarios = [self._scenarios[name] for name in names]
            if ask is Ask.ROUND:
                numbers = first = range(first.stop, first.stop + 1)
                jobs = self._jobs(numbers)
            else:
                numbers = range(attempt, attempt + (reasks.tries if ask is Ask.SUITE else 1))
                attempt = numbers.stop
                jobs = [
                    Job(scenario=each, attempt=number, is_again=True)
                    for number in numbers
                    for each in scenarios
                ]
            self._runner = EvalRunner(
                EvalScenarios(scenarios, self._hooks.scenarios.collection_id),
                self._runner.profiles, (),
            )  # fmt: skip
            left = self._take_up(jobs)
            self._last = left[-1] if left else self._last
            with progress_bar(len(jobs), len(jobs) - len(left), options.progress) as progress:
                conductor.go_on(self._runner, progress)
                await make(left)
            found = await self._evaluate(calls)
            if ask is Ask.ROUND:
                found = await self._separated(found, numbers, calls)
                reasks.compare_with(self.baseline or baseline)
            reasks.add(found, numbers)
        results = reasks.results()
        self._hooks.scenarios.keep_results(results)
        return results

    async def _evaluate(self, calls: Calls) -> ScenarioEvalResults:
        """Evaluate the attempts that were made since the last call."""
        await settle(self._filing, calls, self._options.grace_s)
        self._filing.finish()
        self._runner.lost = self._lost()
        lost, job = self._filing.newly_lost(), self._last
        if self._journal is not None and lost and job is not None:
            self._journal.append(
                Entry(
                    kind="late",
                    scenario_id=job.scenario.id,
                    attempt=job.attempt,
                    is_again=job.is_again,
                    lost=lost,
                )
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
        found = cast("ScenarioEvalResults", results)
        names = {"judge": self._judge_name, "simulated_user": user_name(self._hooks)}
        provenance = found.provenance.model_copy(update=names)
        return found.model_copy(update={"provenance": provenance})

    def _lost(self) -> tuple[Lost, ...]:
        return lost_of(self._lost_before + self._filing.lost)


def _is_in_event_loop() -> bool:
    return asyncio._get_running_loop() is not None
