"""Examples of property tests that are the same in each run, whatever was imported before."""

from functools import cached_property

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider
from hypothesis.internal.constants_ast import Constants


class SameProvider(HypothesisProvider):
    """Hypothesis' own generator, without the constants of the modules that this worker imported.

    A worker imports what its tests need, and the order of tests differs between runs: so would the
    constants, and with them the examples.
    """

    @cached_property
    def _local_constants(self) -> Constants:
        return Constants()


def register() -> str:
    """Make the generator known, and give the name by which `settings(backend=…)` finds it."""
    AVAILABLE_PROVIDERS["same"] = f"{__name__}.{SameProvider.__name__}"
    return "same"
