"""Judges around a judge: one that counts, one that remembers."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import fields
from hashlib import blake2b

from collector.judging.measures import JudgeMeasures
from scouter.evaluate.judge.port import (
    Judge,
    JudgeError,
    JudgeReply,
    JudgeRequest,
    time_limit_of,
    to_judge_error,
)
from scouter.evaluate.judge.usage import JudgeUsage, sum_of


class CountingJudge:
    """Counts every question that is really put; what is around it may save some.

    Args:
        judge: Answers.
        name_of: The name of the entry that a request means; None if there is none.
        measures: Are told.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        judge: Judge,
        name_of: Callable[[str], str | None],
        measures: JudgeMeasures,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._judge, self._name_of, self._measures, self._clock = judge, name_of, measures, clock
        self.time_limit_s = time_limit_of(judge)

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask, and count."""
        began = self._clock()

        def count(outcome: str, taken: JudgeUsage | None = None) -> None:
            entry = self._name_of(request.provider)
            if entry is not None:  # a label is never what a stranger wrote
                seconds = self._clock() - began
                self._measures.called(entry, request.model, outcome, seconds, taken)

        try:
            reply = await self._judge.ask(request)
        except JudgeError as error:
            count(error.reason.value, error.taken)  # what is of no use is paid for, too
            raise
        except asyncio.CancelledError:
            count("cancelled")
            raise
        except Exception:
            count("provider")
            raise
        count("answered", reply.taken)
        return reply

    def looking_up(self, judge: Judge) -> "LookupCountingJudge":
        """Count what a cache in front of this judge has answered, too."""
        return LookupCountingJudge(judge, self._name_of, self._measures)


class LookupCountingJudge:
    """Counts what a cache has answered, and what it had not.

    Args:
        judge: The one with the cache.
        name_of: The name of the entry that a request means; None if there is none.
        measures: Are told.
    """

    def __init__(
        self, judge: Judge, name_of: Callable[[str], str | None], measures: JudgeMeasures
    ) -> None:
        self._judge, self._name_of, self._measures = judge, name_of, measures
        self.time_limit_s = time_limit_of(judge)

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask, and count; a question that nobody answered was a miss."""
        was_found = False
        try:
            reply = await self._judge.ask(request)
            was_found = reply.is_cached
        finally:
            entry = self._name_of(request.provider)
            if entry is not None:
                self._measures.looked_up(entry, request.model, was_found=was_found)
        return reply


class RememberingJudge:
    """Answers a question that was answered before as it was then.

    For one evaluation: should it have changed while a judge was asked, its questions are looked at
    anew, and only those that are other ones now are put.

    Args:
        judge: Answers what is new.
        replies: Those of before, by digest; added to.
    """

    def __init__(self, judge: Judge, replies: dict[bytes, JudgeReply]) -> None:
        self._judge, self._replies = judge, replies
        self.time_limit_s = time_limit_of(judge)
        self._failed: dict[bytes, JudgeUsage] = {}
        """Usage of failed attempts at questions that have no answer yet."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Answer from memory, or ask."""
        asked = {each.name: getattr(request, each.name) for each in fields(request) if each.compare}
        text = json.dumps(asked, sort_keys=True, default=str)
        key = blake2b(text.encode(), digest_size=16).digest()
        found = self._replies.get(key)
        if found is not None:
            return found
        failed = self._failed.get(key)
        try:
            found = await self._judge.ask(request)
        except Exception as error:
            taken = to_judge_error(error).taken
            self._failed[key] = taken if failed is None else sum_of((failed, taken))
            raise
        # The caller that asks now learns of the attempts before. A caller that finds the answer
        # later does not.
        self._replies[key] = found if failed is None else found.after(failed)
        return found
