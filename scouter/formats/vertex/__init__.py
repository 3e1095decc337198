"""Evaluations as Google Cloud's Gen AI evaluation service writes them, run on this machine."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.formats.vertex.dataset import read_dataset
    from scouter.formats.vertex.eval_task import EvalTask
    from scouter.formats.vertex.metrics import (
        CustomMetric,
        PointwiseMetric,
        PointwiseMetricPromptTemplate,
        TrajectorySingleToolUse,
    )
    from scouter.formats.vertex.result import EvalResult
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = (
    "CustomMetric",
    "EvalResult",
    "EvalTask",
    "PointwiseMetric",
    "PointwiseMetricPromptTemplate",
    "TrajectorySingleToolUse",
    "read_dataset",
)
