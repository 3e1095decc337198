"""The outcome of asking a scenario again."""

from pydantic import BaseModel


class Confirmation(BaseModel, frozen=True):
    """A scenario that passed before, failed now and was asked again."""

    scenario_id: str
    asked: int
    """Re-asks that were made; they stop at the first that passes."""
    passed: int
    """Re-asks that passed."""
    wanted: int
    """Re-asks that all have to fail before the scenario counts as broken."""

    @property
    def is_broken(self) -> bool:
        """True if every re-ask that was wanted was made and failed."""
        return self.asked == self.wanted and self.passed == 0
