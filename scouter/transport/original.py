"""Arguments of the original's transport configurations, read as ours.

Those that have another name here are renamed. Those that mean nothing here are left out, with one
warning each in a process that says what to do instead.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from scouter.transport.guard import GUARD

_TOKENS: Final = (
    "a collector knows tokens and no users; pass auth_token=, or set SCOUTER_AUTH_TOKEN"
)
_RETRIES: Final = "a batch that fails for now is sent again for 300 s; spool= keeps it for longer"
_HTTP2: Final = "the channel sees by itself to staying connected; timeout_s= bounds each call"


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginalArguments:
    """The arguments of one of the original's configurations.

    Args:
        order: All of them, as they may be given by position.
        renamed: By its name, ours, and how much of our unit its unit is.
        unused: By the name of one that means nothing here, why, and what to do instead.
        may_be_none: Those in which None says something.
    """

    order: Sequence[str]
    renamed: Mapping[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])
    unused: Mapping[str, str] = field(default_factory=dict[str, str])
    may_be_none: Sequence[str] = ()

    def read(
        self, kind: type[object], args: Sequence[Any], fields: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Make our fields of arguments in either form.

        Raises:
            TypeError: There are too many, or one is given twice.
        """
        if len(args) > len(self.order):
            raise TypeError(f"{kind.__name__} takes {', '.join(self.order)}; got {len(args)}")
        told: dict[str, Any] = {}
        for name, value in (*zip(self.order, args, strict=False), *fields.items()):
            if value is None and name in self.order and name not in self.may_be_none:
                continue  # the original's default: as if it were not given
            if name in self.unused:
                text = f"{kind.__name__}({name}=…) does nothing: {self.unused[name]}"
                GUARD.warn(kind.__name__, name, text)
                continue
            ours, share = self.renamed.get(name, (name, 1))
            if ours in told:
                raise TypeError(f"{kind.__name__} got {name!r} twice")
            told[ours] = value
            if value is not None and name in self.renamed:
                told[ours] = value * share
        return told


HTTP: Final = OriginalArguments(
    order=("server_uri", "username", "password", "auth_token"),
    unused={"username": _TOKENS, "password": _TOKENS},
)
GRPC: Final = OriginalArguments(
    order=(
        "server_uri", "username", "password", "timeout_secs", "connect_timeout_secs",
        "keep_alive_interval_secs", "keep_alive_timeout_secs", "keep_alive_while_idle",
    ),
    renamed={"timeout_secs": ("timeout_s", 1)},
    unused={
        "username": _TOKENS,
        "password": _TOKENS,
        "connect_timeout_secs": _HTTP2,
        "keep_alive_interval_secs": _HTTP2,
        "keep_alive_timeout_secs": _HTTP2,
        "keep_alive_while_idle": _HTTP2,
    },
)  # fmt: skip
KAFKA: Final = OriginalArguments(
    order=(
        "username", "password", "brokers", "topic", "compression_type", "message_timeout_ms",
        "message_max_bytes", "log_level", "config", "max_retries",
    ),
    renamed={
        "message_timeout_ms": ("timeout_s", 0.001),
        "message_max_bytes": ("max_message_bytes", 1),
    },
    unused={
        "topic": "records and spans have a topic each; pass records_topic= and spans_topic=",
        "log_level": "set the level of the logger `kafka`",
        "max_retries": _RETRIES,
    },
    may_be_none=("compression_type",),
)  # fmt: skip
RABBITMQ: Final = OriginalArguments(
    order=("host", "port", "username", "password", "queue", "max_retries"),
    unused={
        "queue": "records and spans have a queue each; pass records_queue= and spans_queue=",
        "max_retries": _RETRIES,
    },
)
_STREAMS: Final = (
    "records and spans go to streams, which keep them; pass records_stream= and spans_stream="
)
REDIS: Final = OriginalArguments(
    order=("address", "chanel"),  # so it is spelt there
    unused={"chanel": _STREAMS, "channel": _STREAMS},
)
