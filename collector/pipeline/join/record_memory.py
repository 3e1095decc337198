"""The records inside the join: how many, and what of them is in memory."""

import dataclasses
from typing import Final

import pydantic_core

from collector.pipeline.join.joined_trace import EarlyResult, JoinedTrace, Share, Waiting
from collector.store.json_text import dump_json


class RecordMemory:
    """Counts waiting records, and keeps contexts and early results up to a bound.

    Args:
        max_bytes: Bytes of contexts (as JSON) and early results to keep at most; half as many more
            are for records that wait for nothing.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes: Final = max_bytes
        self.waiting: Final = dict.fromkeys(Share, 0)
        """Records without an evaluation, by whose room they take."""
        self.reopened = 0
        """Records that wait for a new evaluation."""
        self.size_bytes = 0
        """Bytes of the contexts and early results that are kept."""

    def enter(self, waiting: Waiting) -> None:
        """Count a record."""
        self._count(waiting, 1)

    def leave(self, waiting: Waiting) -> None:
        """Count a record no longer."""
        self._count(waiting, -1)
        self.size_bytes -= waiting.held_bytes
        if waiting.early is not None:
            self.size_bytes -= waiting.early.size_bytes

    def _count(self, waiting: Waiting, by: int) -> None:
        if waiting.is_reopened:
            self.reopened += by
        else:
            self.waiting[waiting.share] += by

    def hold(self, waiting: Waiting, *, is_due: bool = False) -> None:
        """Keep a record's context if there is room for it.

        Args:
            waiting: The record.
            is_due: True if it waits for nothing; there is some room for such records alone.
        """
        record = waiting.record
        if not waiting.size_bytes:
            waiting.size_bytes = _json_bytes(record.context)
        most = self._max_bytes + (self._max_bytes // 2 if is_due else 0)
        is_full = self.size_bytes + waiting.size_bytes > most
        if is_full or waiting.is_reopened:  # the latter's evaluation has to be read anyway
            _strip(waiting)
        elif waiting.is_whole:
            waiting.held_bytes = waiting.size_bytes
            self.size_bytes += waiting.held_bytes

    def keep(self, waiting: Waiting, early: EarlyResult) -> None:
        """Keep what was said of a record early in place of its context, if there is room for it."""
        size = early.size_bytes - waiting.held_bytes
        if self.size_bytes + size <= self._max_bytes:
            self.size_bytes += size
            waiting.early, waiting.held_bytes = early, 0
            _strip(waiting)

    def forget_early(self, trace: JoinedTrace) -> None:
        """Take away what was said of a trace before its last span came."""
        for waiting in trace.waiting:
            if waiting.early is not None:
                self.size_bytes -= waiting.early.size_bytes
                waiting.early = None


def _strip(waiting: Waiting) -> None:
    """Take out of a record what only the store needs, or can be read back from there."""
    waiting.record = dataclasses.replace(waiting.record, context=None, digest="")
    waiting.is_whole = False


def _json_bytes(context: object) -> int:
    try:
        return len(pydantic_core.to_json(context, inf_nan_mode="strings"))
    except pydantic_core.PydanticSerializationError:  # half a character is in it
        return len(dump_json(context).encode())
