"""Evaluation files of NVIDIA's NeMo Agent Toolkit, as VSS uses it."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.formats.nvidia.config import EvalFile, read_config
    from scouter.formats.nvidia.dataset import read_dataset
    from scouter.formats.nvidia.run import ConfigEval
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = (
    "ConfigEval",
    "EvalFile",
    "read_config",
    "read_dataset",
)
