"""State of a collector: its store, its lag, its receivers, and who may do what."""

import datetime

from pydantic import Field

from scouter.client.models.answer import Answer


class StoreStatus(Answer):
    """The files of the store."""

    size_bytes: int = Field(description="On disk, the span log included.")
    limit_bytes: int | None = Field(description="Above it the oldest data go; null for no limit.")
    retention_s: float | None = Field(description="Age at which data go; null for never.")
    oldest_at: datetime.datetime | None = Field(description="Arrival of the oldest; null of none.")
    last_commit_s: float = Field(description="Seconds since the last commit, or the start.")


class LagStatus(Answer):
    """Work that is left to do."""

    records_waiting: int = Field(description="For their trace or their profile.")
    sessions_waiting: int = Field(description="For their end.")
    log_bytes: int = Field(description="Size of what was accepted and is not in the store yet.")
    stalled_s: float = Field(
        description="Seconds since anything was evaluated while something is due; 0 while not."
    )
    due: int = Field(
        description="Records, traces and sessions that wait for nothing but their evaluation."
    )
    due_oldest_s: float = Field(description="Seconds for which the oldest of them has been due.")
    is_behind: bool = Field(
        description="True from the time on at which something has been due for a minute, until all "
        "is evaluated within ten seconds."
    )
    is_catching_up: bool = Field(
        description="True while more is evaluated than becomes due, within a minute."
    )
    brokers_s: dict[str, float] = Field(
        description="By broker: all that it held so many seconds ago is stored."
    )


class ReceiverStatus(Answer):
    """Requests of one kind since the collector started."""

    receiver: str = Field(description="`http`, `grpc` or the name of a broker.")
    signal: str = Field(description="`traces`, `logs`, `metrics` or `records`.")
    requests: int
    size_bytes: int = Field(description="Of the bodies, decompressed.")
    refused: dict[str, int] = Field(description="Requests that were refused as a whole, by reason.")


class TokenStatus(Answer):
    """A token that is valid; never its secret."""

    token_id: str
    name: str
    scopes: tuple[str, ...]
    space: str
    expires_at: datetime.datetime | None


class Status(Answer):
    """State of a collector, as far as the caller's token shows it."""

    space: str = Field(description="The caller's.")
    scopes: tuple[str, ...] = Field(description="The caller's.")
    token_id: str = Field(description="The caller's; empty where no token was asked for.")
    store: StoreStatus | None = Field(
        description="Null for tokens of other spaces than the collector's own, as are lag and "
        "receivers: these are about all spaces."
    )
    lag: LagStatus | None
    receivers: tuple[ReceiverStatus, ...] | None
    tokens: tuple[TokenStatus, ...] | None = Field(
        description="Of the caller's space, or of all for one of the collector's own; null "
        "without the scope admin."
    )
