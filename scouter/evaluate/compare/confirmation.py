"""What asking a scenario again came to."""

from pydantic import BaseModel, ConfigDict


class Confirmation(BaseModel):
    """How often a scenario that passed before and fails now was asked again, and passed."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    scenario_id: str
    asked: int
    """Attempts that were made and judged; the first that passes is the last."""
    passed: int
    """Those of them that passed: 0 or 1."""
    wanted: int
    """Attempts that all have to fail before the scenario counts as broken."""

    @property
    def is_broken(self) -> bool:
        """True if all that were wanted were made, and none passed."""
        return self.asked == self.wanted and self.passed == 0
