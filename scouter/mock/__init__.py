"""Stand-ins for offline runs and tests, where the original's users import them from."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.mock.llm_protocols import Fault, LLMRequest
    from scouter.mock.llm_server import LLMTestServer
    from scouter.mock.noisy_judge import NoisyJudge
    from scouter.mock.traces import (
        create_multi_service_trace,
        create_nested_trace,
        create_sequence_pattern_trace,
        create_simple_trace,
        create_trace_with_attributes,
        create_trace_with_errors,
    )
    from scouter.transport.config import MockConfig
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = (
    "Fault",
    "LLMRequest",
    "LLMTestServer",
    "MockConfig",
    "NoisyJudge",
    "create_multi_service_trace",
    "create_nested_trace",
    "create_sequence_pattern_trace",
    "create_simple_trace",
    "create_trace_with_attributes",
    "create_trace_with_errors",
)
