"""Stand-ins for offline runs and tests, where the original's users import them from."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scouter.mock.llm_server import LLMTestServer
    from scouter.mock.traces import (
        create_multi_service_trace,
        create_nested_trace,
        create_sequence_pattern_trace,
        create_simple_trace,
        create_trace_with_attributes,
        create_trace_with_errors,
    )
    from scouter.transport.config import MockConfig

__all__ = (
    "LLMTestServer",
    "MockConfig",
    "create_multi_service_trace",
    "create_nested_trace",
    "create_sequence_pattern_trace",
    "create_simple_trace",
    "create_trace_with_attributes",
    "create_trace_with_errors",
)

_HOMES = {"LLMTestServer": "scouter.mock.llm_server", "MockConfig": "scouter.transport.config"}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "scouter.mock.traces")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
