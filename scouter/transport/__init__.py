"""Where records and spans go."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scouter.transport.config import HttpConfig, KafkaConfig, MockConfig, TransportConfig

__all__ = ("HttpConfig", "KafkaConfig", "MockConfig", "TransportConfig")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in __all__:
        return getattr(import_module("scouter.transport.config"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
