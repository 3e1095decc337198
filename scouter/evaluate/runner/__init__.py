"""The replay under the path that users import it from; it lives in `scouter.replay`."""

from scouter.replay.orchestrator import EvalOrchestrator
from scouter.replay.runner import EvalRunner
from scouter.tracing.tracer import flush_tracer

__all__ = ("EvalOrchestrator", "EvalRunner", "flush_tracer")
