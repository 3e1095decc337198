"""Eval sets of Google's Agent Development Kit."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.formats.adk.eval_set import read_eval_set
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ("read_eval_set",)
