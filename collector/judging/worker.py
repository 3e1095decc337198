"""One thread with one event loop that asks a judge for what is pending."""

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Final

from collector.judging.inquiry import Inquiries, Inquiry, VerdictKey
from collector.judging.judges import RememberingJudge
from collector.judging.measures import JudgeMeasures
from collector.pipeline.answered import Answered
from collector.pipeline.pipeline import Pipeline
from collector.pipeline.profiles import ProfileRegistry
from collector.storage.port import Store
from collector.storage.rows import FIRST_RESULT, PendingVerdict, ResultPlace
from scouter.errors import TransientError
from scouter.evaluate.engine.asking import Backoff, Reply, ask
from scouter.evaluate.engine.execute import Question
from scouter.evaluate.judge import Judge

_log: Final = logging.getLogger(__name__)
_RETRY_S: Final = 1.0
_STORED_TOGETHER: Final = 200

Beside = Callable[[asyncio.Semaphore], Coroutine[None, None, None]]
"""What runs beside the worker, given its slots."""


class JudgeWorker:
    """Asks a judge for what is pending, and has the answers stored as the next revision.

    What is pending is known from the store alone: a new process takes up what an earlier one left,
    and an answer that was not stored is asked for again. Verdicts are read page by page, in the
    order in which they became durable; as many are in memory as may be asked for at a time.

    Args:
        store: Has the pending verdicts and what they are about.
        registry: The profiles that made them.
        pipeline: Stores the answers, as it is the only one that makes revisions.
        judge: Answers.
        concurrency: Verdicts that are asked for, and questions that are put, at a time.
        memory_bytes: Contexts in memory; one that is larger is alone.
        measures: Are told how many are in flight.
        drain_s: When told to end: time for the answers that are on their way.
        backoff: How long to wait before a failed provider is asked again.
        beside: Runs in the same loop and asks through the same slots, until this one ends.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        pipeline: Pipeline,
        judge: Judge,
        *,
        concurrency: int,
        memory_bytes: int = 32 * 2**20,
        measures: JudgeMeasures,
        drain_s: float = 10.0,
        backoff: Backoff | None = None,
        beside: Beside | None = None,
    ) -> None:
        self._beside = beside
        self._store, self._pipeline, self._judge = store, pipeline, judge
        self._inquiries = Inquiries(store, registry)
        self._most, self._most_bytes = concurrency, memory_bytes
        self._backoff = Backoff() if backoff is None else backoff
        self._drain_s = drain_s
        self._inside: dict[VerdictKey, tuple[asyncio.Task[None], int]] = {}
        """What is asked for, with the size of its context."""
        self._again: set[VerdictKey] = set()
        """Of those: a newer verdict on it is pending, too."""
        self._ended: set[VerdictKey] = set()
        """What was stored since a page was last begun to be read."""
        self._answers: asyncio.Queue[tuple[Answered, asyncio.Future[bool]]] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news, self._left, self._ending = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scouter-judging")
        measures.in_flight.set_function(lambda: len(self._inside))

    def start(self) -> None:
        """Take up what an earlier process left, then run."""
        self._thread.start()

    def stop(self) -> None:
        """Ask nothing new, wait a while for what was asked, and give up the rest for now.

        To be called while the pipeline runs.
        """
        self._stopping.set()
        self._call(self._ending)
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Tell that a verdict with pending tasks was stored; any thread may."""
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
        self._slots = asyncio.Semaphore(self._most)
        storing = asyncio.create_task(self._store_answers())
        reading = asyncio.create_task(self._read())
        beside = [] if self._beside is None else [asyncio.create_task(self._beside(self._slots))]
        ending = asyncio.create_task(self._ending.wait())
        await asyncio.wait((ending, storing, reading), return_when=asyncio.FIRST_COMPLETED)
        await _cancel([reading, *beside])
        tasks = [task for task, _ in self._inside.values()]
        if tasks:
            await asyncio.wait(tasks, timeout=self._drain_s)
        await _cancel(tasks)
        await _cancel([storing])

    async def _read(self) -> None:
        """Begin with what is pending, page by page, whenever there is room."""
        place = FIRST_RESULT
        while True:
            while len(self._inside) > self._most // 2 or self._bytes > self._most_bytes // 2:
                self._left.clear()
                await self._left.wait()
            self._news.clear()
            self._ended.clear()
            wanted = self._most - len(self._inside)
            try:
                place, is_last = await self._read_page(place, wanted)
            except TransientError as error:
                _log.warning("what is pending cannot be read now: %s", error)
                await asyncio.sleep(_RETRY_S)
                continue
            except Exception:  # noqa: BLE001 the reading outlives any fault
                _log.exception("a fault in the reading of what is pending; it goes on")
                await asyncio.sleep(_RETRY_S)
                continue
            if is_last:
                await self._news.wait()

    @property
    def _bytes(self) -> int:
        return sum(size for _, size in self._inside.values())

    async def _read_page(self, place: ResultPlace, wanted: int) -> tuple[ResultPlace, bool]:
        """Begin with so many verdicts at most; say where to go on, and whether these were all."""
        read_seq = self._store.last_seq()
        page = await asyncio.to_thread(self._store.pending_verdicts, wanted, place)
        fitting = self._fitting(page)
        new = [each for each in fitting if _key(each) not in self._inside]
        self._again.update(_key(each) for each in fitting if _key(each) in self._inside)
        verdicts = [each.verdict for each in new]
        found = await asyncio.to_thread(self._inquiries.of, verdicts, read_seq)
        for each in new:
            key = _key(each)
            if key in found:
                # It may have been decided while it was read.
                first = None if key in self._ended else found[key]
                task = asyncio.create_task(self._see_through(key, first))
                self._inside[key] = task, each.context_bytes
        if fitting:
            place = fitting[-1].place
        return place, len(fitting) == len(page) < wanted

    def _fitting(self, page: Sequence[PendingVerdict]) -> Sequence[PendingVerdict]:
        """The first ones, as far as their contexts fit into memory beside what is there."""
        size = self._bytes
        for count, each in enumerate(page):
            size += each.context_bytes
            if size > self._most_bytes and (count or self._inside):
                return page[:count]
        return page

    # --- one verdict ------------------------------------------------------------------------

    async def _see_through(self, key: VerdictKey, first: Inquiry | Answered | None) -> None:
        """Ask for one verdict until what is stored of it has nothing pending."""
        judge = RememberingJudge(self._judge)
        inquiry = first
        try:
            while True:
                if inquiry is None:
                    inquiry = await self._latest(key)
                if inquiry is None:
                    return
                self._again.discard(key)
                made = await self._decided(inquiry, judge)
                is_settled = await self._settled(made)
                if is_settled and key not in self._again:
                    return
                inquiry = None
        except Exception:  # noqa: BLE001 one verdict must not stop the others
            _log.exception("record %s: the judging failed; a start takes it up again", key[1])
        finally:
            self._inside.pop(key, None)
            self._again.discard(key)
            self._ended.add(key)
            self._left.set()

    async def _latest(self, key: VerdictKey) -> Inquiry | Answered | None:
        while True:
            try:
                return await asyncio.to_thread(self._inquiries.latest, key)
            except TransientError as error:
                _log.warning("what is pending cannot be read now: %s", error)
                await asyncio.sleep(_RETRY_S)

    async def _decided(self, inquiry: Inquiry | Answered, judge: Judge) -> Answered:
        if isinstance(inquiry, Answered):
            return inquiry

        async def put(question: Question) -> Reply:
            retries = question.task.max_retries
            return await ask(judge, question.request, retries, self._backoff, self._slots)

        try:
            return await inquiry.decide(put)
        except Exception as error:  # noqa: BLE001 one verdict must not stop the others
            _log.exception("record %s: the engine failed", inquiry.verdict.record_uid)
            return inquiry.give_up(f"the engine failed: {error!r}")

    async def _settled(self, made: Answered) -> bool:
        """Have a verdict stored; False if it has to be looked at again."""
        while True:
            done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
            self._answers.put_nowait((made, done))
            try:
                return await done
            except TransientError as error:
                _log.warning("the store does not take answers, trying again: %s", error)
                await asyncio.sleep(_RETRY_S)

    async def _store_answers(self) -> None:
        """Hand answers to the pipeline; what comes in meanwhile is stored together next."""
        while True:
            batch = [await self._answers.get()]
            while len(batch) < _STORED_TOGETHER and not self._answers.empty():
                batch.append(self._answers.get_nowait())
            try:
                answers = [made for made, _ in batch]
                # Shielded: what the pipeline has begun it finishes, whoever waits for it.
                settled = await asyncio.shield(asyncio.wrap_future(self._pipeline.settle(answers)))
            except Exception as error:  # noqa: BLE001 who waits for it is told
                for _, done in batch:
                    if not done.done():
                        done.set_exception(error)
            else:
                for (_, done), is_settled in zip(batch, settled, strict=True):
                    if not done.done():
                        done.set_result(is_settled)


def _key(each: PendingVerdict) -> VerdictKey:
    return each.verdict.space, each.verdict.record_uid


async def _cancel(tasks: Sequence["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
