"""State of the collector in numbers, as a person on call asks for it."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Final

from fastapi import APIRouter
from prometheus_client import CollectorRegistry

from collector.access.caller import Scope
from collector.access.tokens import Token
from collector.api.parameters import COMMON, PROBLEMS, Reader
from collector.api.parts import OwnSpace, TheMetrics, TheTokens
from scouter.client.models.status import (
    LagStatus,
    ReceiverStatus,
    Status,
    StoreStatus,
    TokenStatus,
)

_LABELS: Final = ("receiver", "signal")


@cache
def status_router() -> APIRouter:
    """Make the route `/api/v1/status`."""
    router = APIRouter(
        prefix="/api/v1", tags=["operation"], responses=PROBLEMS, dependencies=COMMON
    )

    @router.get("/status")
    def status(metrics: TheMetrics, tokens: TheTokens, space: OwnSpace, caller: Reader) -> Status:
        """Store, lag and receivers of the collector, and the tokens that may use it."""
        is_own = caller.space == space
        samples = _Samples(metrics) if is_own else None
        return Status(
            space=caller.space,
            scopes=tuple(sorted(caller.scopes)),
            token_id=caller.token_id,
            store=samples and samples.store(),
            lag=samples and samples.lag(),
            receivers=samples and samples.receivers(),
            tokens=_valid(tokens.all(), None if is_own else caller.space)
            if Scope.ADMIN in caller.scopes
            else None,
        )

    return router


class _Samples:
    """Samples of the metrics, read once."""

    def __init__(self, metrics: CollectorRegistry) -> None:
        self._by_name: defaultdict[str, list[tuple[Mapping[str, str], float]]] = defaultdict(list)
        for family in metrics.collect():
            for sample in family.samples:
                self._by_name[sample.name].append((sample.labels, sample.value))

    def store(self) -> StoreStatus:
        oldest_s = self._sum("scouter_store_oldest_timestamp_seconds")
        return StoreStatus(
            size_bytes=int(self._sum("scouter_store_size_bytes")),
            limit_bytes=int(self._sum("scouter_store_size_limit_bytes")) or None,
            retention_s=self._sum("scouter_store_retention_seconds") or None,
            oldest_at=datetime.fromtimestamp(oldest_s, UTC) if oldest_s else None,
            last_commit_s=self._sum("scouter_store_last_commit_age_seconds"),
        )

    def lag(self) -> LagStatus:
        return LagStatus(
            records_waiting=int(self._sum("scouter_records_waiting")),
            sessions_waiting=int(self._sum("scouter_sessions_waiting")),
            queued=int(self._sum("scouter_pipeline_queued")),
            stalled_s=self._sum("scouter_evaluation_stalled_seconds"),
            brokers_s={
                labels["receiver"]: value
                for labels, value in self._by_name["scouter_receiver_lag_seconds"]
            },
        )

    def receivers(self) -> tuple[ReceiverStatus, ...]:
        counts = self._by_place("scouter_ingest_duration_seconds_count")
        sizes = self._by_place("scouter_ingest_bytes_total")
        refused: defaultdict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
        for labels, value in self._by_name["scouter_ingest_refused_total"]:
            refused[_place(labels)][labels["reason"]] = int(value)
        return tuple(
            ReceiverStatus(
                receiver=place[0],
                signal=place[1],
                requests=counts.get(place, 0),
                size_bytes=sizes.get(place, 0),
                refused=refused.get(place, {}),
            )
            for place in sorted({*counts, *refused})
        )

    def _sum(self, name: str) -> float:
        return sum(value for _, value in self._by_name[name])

    def _by_place(self, name: str) -> dict[tuple[str, ...], int]:
        return {_place(labels): int(value) for labels, value in self._by_name[name]}


def _place(labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(labels[name] for name in _LABELS)


def _valid(tokens: Iterable[Token], space: str | None) -> tuple[TokenStatus, ...]:
    """Valid tokens of a space; None for all spaces."""
    now_ns = time.time_ns()
    return tuple(
        TokenStatus(
            token_id=each.id,
            name=each.name,
            scopes=tuple(sorted(each.scopes)),
            space=each.space,
            expires_at=None
            if each.expires_ns is None
            else datetime.fromtimestamp(each.expires_ns / 1e9, UTC),
        )
        for each in tokens
        if each.is_valid(now_ns) and space in (None, each.space)
    )
