"""The outcome of asking a scenario again."""

from pydantic import BaseModel


class Confirmation(BaseModel, frozen=True):
    """A scenario that passed before, did not pass once in the new run, and was asked again."""

    scenario_id: str
    asked: int
    """Further attempts that were decided; they stop at the first that passes."""
    passed: int
    """Further attempts that passed."""
    failed: int
    """All attempts of the run that failed, those of the whole suite among them."""
    chance: float
    """Chance that the scenario fails so often if nothing changed, in [0, 1]."""
    is_broken: bool
    """True if that is too improbable; alone, or together with other scenarios."""
    is_settled: bool = True
    """False if the asking ended before anybody could know, as a judge or the agent gave no answer
    or somebody interrupted it."""
