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
from collector.access.port import Token
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
_SIZE: Final = "scouter_store_size_bytes"
_LIMIT: Final = "scouter_store_size_limit_bytes"
_RETENTION: Final = "scouter_store_retention_seconds"
_OLDEST: Final = "scouter_store_oldest_timestamp_seconds"
_COMMIT_AGE: Final = "scouter_store_last_commit_age_seconds"
_WAITING: Final = "scouter_records_waiting"
_SESSIONS: Final = "scouter_sessions_waiting"
_LOG: Final = "scouter_log_waiting_bytes"
_STALLED: Final = "scouter_evaluation_stalled_seconds"
_DUE: Final = "scouter_evaluation_due"
_OLDEST_DUE: Final = "scouter_evaluation_due_oldest_seconds"
_BEHIND: Final = "scouter_evaluation_behind"
_CATCHING_UP: Final = "scouter_evaluation_catching_up"
_LAG: Final = "scouter_receiver_lag_seconds"
_REQUESTS: Final = "scouter_ingest_duration_seconds_count"
_BYTES: Final = "scouter_ingest_bytes_total"
_REFUSED: Final = "scouter_ingest_refused_total"
_READ: Final = (
    _SIZE, _LIMIT, _RETENTION, _OLDEST, _COMMIT_AGE, _WAITING, _SESSIONS, _LOG, _STALLED, _DUE,
    _OLDEST_DUE, _BEHIND, _CATCHING_UP, _LAG, _REQUESTS, _BYTES, _REFUSED,
)  # fmt: skip
"""The other metrics, such as those of each task, take most of the time."""


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
        for family in metrics.restricted_registry(_READ).collect():
            for sample in family.samples:
                self._by_name[sample.name].append((sample.labels, sample.value))

    def store(self) -> StoreStatus:
        oldest_s = self._sum(_OLDEST)
        return StoreStatus(
            size_bytes=int(self._sum(_SIZE)),
            limit_bytes=int(self._sum(_LIMIT)) or None,
            retention_s=self._sum(_RETENTION) or None,
            oldest_at=datetime.fromtimestamp(oldest_s, UTC) if oldest_s else None,
            last_commit_s=self._sum(_COMMIT_AGE),
        )

    def lag(self) -> LagStatus:
        return LagStatus(
            records_waiting=int(self._sum(_WAITING)),
            sessions_waiting=int(self._sum(_SESSIONS)),
            log_bytes=int(self._sum(_LOG)),
            stalled_s=self._sum(_STALLED),
            due=int(self._sum(_DUE)),
            due_oldest_s=self._sum(_OLDEST_DUE),
            is_behind=bool(self._sum(_BEHIND)),
            is_catching_up=bool(self._sum(_CATCHING_UP)),
            brokers_s={labels["receiver"]: value for labels, value in self._by_name[_LAG]},
        )

    def receivers(self) -> tuple[ReceiverStatus, ...]:
        counts = self._by_place(_REQUESTS)
        sizes = self._by_place(_BYTES)
        refused: defaultdict[tuple[str, ...], dict[str, int]] = defaultdict(dict)
        for labels, value in self._by_name[_REFUSED]:
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
