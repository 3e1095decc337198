"""One thread with one event loop that calls a judge for what is pending."""

import asyncio
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Final

from collector.judging.inquiry import EvaluationKey, Inquiries, Inquiry, give_up
from collector.judging.judges import JudgeMeasures, RememberingJudge
from collector.judging.lanes import LAST_ORDINAL, Lane, Lanes
from collector.store.rows import PendingEvaluation, ResultPlace
from collector.store.store import Store
from collector.worker.profiles import ProfileRegistry
from collector.worker.revising import Answered
from collector.worker.worker import Worker
from scouter.errors import TransientError
from scouter.evaluate.engine.execute import JudgeQuestion
from scouter.evaluate.judge.ask import Backoff, Reply, ask
from scouter.evaluate.judge.port import Judge, JudgeReply

_log: Final = logging.getLogger(__name__)
_MEMORY_BYTES: Final = 32 * 2**20
"""Contexts in memory; see `Lanes`."""
_RETRY_S: Final = 1.0
_STOP_S: Final = 5.0
"""Longest wait at a stop for what goes on after it was cancelled, such as a look-up of a name."""
_STORED_TOGETHER: Final = 200

Beside = Callable[[Callable[[str], asyncio.Semaphore]], Coroutine[None, None, None]]
"""Function that runs beside the worker; it is given the worker's slots by provider."""


class JudgeWorker:
    """Asks a judge for pending tasks, and has the answers stored as the next revision.

    The store alone knows the pending tasks: a new process takes up those that an earlier one left,
    and an answer that was not stored is requested again. Evaluations are read page by page, in the
    order in which they became durable; as many are in memory as may be sent at a time. Those
    that wait for different provider entries are in lanes of their own, so that an entry that hangs
    holds up nothing that does not need it.

    Args:
        store: Has the pending evaluations, and what they are about.
        registry: The profiles that made them.
        worker: Stores the answers, as it is the only one that makes revisions.
        judge_of: Gives the judge for questions of a space, about what was read after a commit.
        name_of: The name of the provider entry that a prompt means; None if there is none.
        concurrency: Evaluations of a lane that are sent at a time, and questions that are put
            to an entry.
        measures: Count those in flight.
        drain_s: Seconds for the answers that are on their way when it has to end.
        beside: Runs in the same loop and calls through the same slots, until this one ends.
        pending: Reads the pending evaluations; by default all that the store has.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        worker: Worker,
        judge_of: Callable[[str, int], Judge],
        name_of: Callable[[str], str | None],
        *,
        concurrency: int,
        measures: JudgeMeasures,
        drain_s: float = 10.0,
        beside: Beside | None = None,
        pending: Callable[..., list[PendingEvaluation]] | None = None,
    ) -> None:
        self._store, self._worker, self._beside = store, worker, beside
        self._pending = store.pending_evaluations if pending is None else pending
        self._in_flight = measures.in_flight
        self._judge_of, self._name_of = judge_of, name_of
        self._inquiries = Inquiries(store, registry)
        self._lanes = Lanes(registry, name_of, concurrency, _MEMORY_BYTES)
        self._backoff = Backoff()
        self._drain_s = drain_s
        self._inside: dict[EvaluationKey, asyncio.Task[None]] = {}
        """Tasks that ask the questions of an evaluation now, in all lanes."""
        self._again: set[EvaluationKey] = set()
        """Evaluations in `_inside` of whose record a newer evaluation is pending, too."""
        self._slots: defaultdict[str, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(concurrency)
        )
        """By entry: questions that are put."""
        self._answers: asyncio.Queue[tuple[Answered, asyncio.Future[bool]]] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news, self._ending = asyncio.Event(), asyncio.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scouter-judging", daemon=True)

    def start(self) -> None:
        """Take up what an earlier process left, then run."""
        self._thread.start()

    def stop(self) -> None:
        """Ask nothing new, wait a while for what was sent, and give up the rest for now.

        To be called while the worker runs.
        """
        self._stopping.set()
        self._call(self._ending)
        if self._thread.is_alive():
            self._thread.join(self._drain_s + _STOP_S)

    def wake(self) -> None:
        """Tell that an evaluation with pending tasks was stored; any thread may."""
        self._call(self._news)

    def _call(self, event: asyncio.Event) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(event.set)

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except Exception:  # noqa: BLE001 the collector goes on without
            _log.exception("a fault in the judging; what is pending is taken up at a start")

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._stopping.is_set():
            return
        storing = asyncio.create_task(self._store_answers())
        reading = asyncio.create_task(self._read_all())
        beside = [] if self._beside is None else [asyncio.create_task(self._beside(self._slots_of))]
        ending = asyncio.create_task(self._ending.wait())
        await asyncio.wait((ending, storing, reading), return_when=asyncio.FIRST_COMPLETED)
        await _cancel([reading, *beside])
        tasks = list(self._inside.values())
        if tasks:
            await asyncio.wait(tasks, timeout=self._drain_s)
        await _cancel(tasks)
        await _cancel([storing])

    async def _read_all(self) -> None:
        """Have each lane read, the ones of profiles that come later as well."""
        async with asyncio.TaskGroup() as self._readers:
            self._lanes.follow()
            self._open(self._lanes.all)
            while True:
                await self._news.wait()
                self._news.clear()
                self._open(self._lanes.follow())
                for lane in self._lanes.all:
                    lane.news.set()

    def _open(self, lanes: Sequence[Lane]) -> None:
        for lane in lanes:
            self._readers.create_task(self._read(lane))

    async def _read(self, lane: Lane) -> None:
        """Begin with what is pending in a lane, page by page, whenever there is room."""
        while True:
            while self._lanes.is_full(lane):
                lane.left.clear()
                await lane.left.wait()
            lane.news.clear()
            lane.left.clear()
            lane.is_reading = True
            lane.ended.clear()
            try:
                is_last, fits = await self._read_page(lane, self._lanes.most - len(lane.inside))
            except TransientError as error:
                _log.warning("what is pending cannot be read now: %s", error)
                await asyncio.sleep(_RETRY_S)
                continue
            except Exception:  # noqa: BLE001 the reading outlives any fault
                _log.exception("a fault in the reading of what is pending; it goes on")
                await asyncio.sleep(_RETRY_S)
                continue
            finally:
                lane.is_reading = False
            if is_last and lane.is_rest:
                return  # whoever makes evaluations from now on is known
            if is_last:
                await lane.news.wait()
            elif not fits:
                await lane.left.wait()

    async def _read_page(self, lane: Lane, wanted: int) -> tuple[bool, bool]:
        """Begin with so many evaluations of a lane at most.

        Returns:
            Whether these were all, and whether the next one fits into memory.
        """
        read_seq = self._store.last_seq()
        self._open(self._lanes.follow())
        page = await asyncio.to_thread(
            self._pending, wanted, lane.place, lane.profiles.copy(),
            others=lane.is_rest,
        )  # fmt: skip
        # Those of later commits may be of profiles that are not in any lane yet, behind which
        # nobody would look again.
        known = [each for each in page if each.place.seq <= read_seq]
        fitting = self._lanes.fitting(lane, known)
        new = [each for each in fitting if _key(each) not in self._inside]
        self._again.update(_key(each) for each in fitting if _key(each) in self._inside)
        evaluations = [each.evaluation for each in new]
        found = await asyncio.to_thread(self._inquiries.of, evaluations, read_seq)
        for each in new:
            key = _key(each)
            if key in self._inside:  # started by another lane meanwhile
                self._again.add(key)
            elif key in found:
                # It may have been decided while it was read.
                first = None if key in lane.ended else found[key]
                lane.inside[key] = each.context_bytes
                self._inside[key] = asyncio.create_task(self._see_through(lane, key, first))
                self._in_flight.inc()
        if fitting:
            lane.place = fitting[-1].place
        is_last = len(fitting) == len(page) < wanted
        if is_last:
            lane.place = max(lane.place, ResultPlace(read_seq, LAST_ORDINAL))
        return is_last, bool(fitting) or not known

    # --- one evaluation ------------------------------------------------------------------------

    async def _see_through(
        self, lane: Lane, key: EvaluationKey, first: Inquiry | Answered | None
    ) -> None:
        """Ask for one evaluation until what is stored of it has nothing pending."""
        replies: dict[bytes, JudgeReply] = {}
        inquiry = first
        try:
            while True:
                if inquiry is None:
                    inquiry = await self._latest(key)
                if inquiry is None:
                    return
                self._again.discard(key)
                judge = RememberingJudge(self._judge_of(key[0], inquiry.read_seq), replies)
                made = await self._decided(inquiry, judge)
                is_settled = await self._settled(made)
                if is_settled and key not in self._again:
                    return
                inquiry = None
        except Exception:  # noqa: BLE001 one evaluation must not stop the others
            _log.exception("record %s: the judging failed; a start takes it up again", key[1])
        finally:
            del self._inside[key], lane.inside[key]
            self._in_flight.dec()
            self._again.discard(key)
            for each in self._lanes.all:
                if each.is_reading:
                    each.ended.add(key)
                each.left.set()

    async def _latest(self, key: EvaluationKey) -> Inquiry | Answered | None:
        while True:
            try:
                return await asyncio.to_thread(self._inquiries.latest, key)
            except TransientError as error:
                _log.warning("what is pending cannot be read now: %s", error)
                await asyncio.sleep(_RETRY_S)

    def _slots_of(self, provider: str) -> asyncio.Semaphore:
        """Semaphore that bounds the questions to the entry that a prompt names."""
        return self._slots[self._name_of(provider) or ""]

    async def _decided(self, inquiry: Inquiry | Answered, judge: Judge) -> Answered:
        if isinstance(inquiry, Answered):
            return inquiry

        async def put(question: JudgeQuestion) -> Reply:
            request, retries = question.request, question.task.max_retries
            slots = self._slots_of(request.provider)
            return await ask(judge, request, retries, self._backoff, slots)

        try:
            return await inquiry.decide(put)
        except Exception as error:  # noqa: BLE001 one evaluation must not stop the others
            _log.exception("record %s: the engine failed", inquiry.evaluation.record_uid)
            return give_up(inquiry.evaluation, inquiry.read_seq, f"the engine failed: {error!r}")

    async def _settled(self, made: Answered) -> bool:
        """Have an evaluation stored; False if it has to be looked at again."""
        while True:
            done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._answers.put_nowait((made, done))
            try:
                return await done
            except TransientError as error:
                _log.warning("the store does not take answers, trying again: %s", error)
                await asyncio.sleep(_RETRY_S)

    async def _store_answers(self) -> None:
        """Hand answers to the worker; what comes in meanwhile is stored together next."""
        while True:
            batch = [await self._answers.get()]
            while len(batch) < _STORED_TOGETHER and not self._answers.empty():
                batch.append(self._answers.get_nowait())
            try:
                answers = [made for made, _ in batch]
                # Shielded: what the worker has started it finishes, whoever waits for it.
                settled = await asyncio.shield(asyncio.wrap_future(self._worker.settle(answers)))
            except Exception as error:  # noqa: BLE001 who waits for it gets it
                for _, done in batch:
                    if not done.done():
                        done.set_exception(error)
            else:
                for (_, done), is_settled in zip(batch, settled, strict=True):
                    if not done.done():
                        done.set_result(is_settled)


def _key(each: PendingEvaluation) -> EvaluationKey:
    return each.evaluation.space, each.evaluation.record_uid


async def _cancel(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
