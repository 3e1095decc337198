"""`scouter collector` whose date a test sets; its monotonic clock goes on."""

from tests.support.collector_process import CollectorProcess
from tests.support.jumping_clock import VARIABLE


class JumpingCollector(CollectorProcess):
    """A collector whose date is ahead of the machine's by what was set last."""

    def set_ahead(self, seconds: float) -> None:
        """Let its date be ahead by so many seconds, from now on and after a restart."""
        later = self.folder / "ahead.new"
        later.write_text(str(seconds))
        later.replace(self.folder / "ahead")  # at once: half of a number would be another date

    def environ(self) -> dict[str, str]:
        """The variables that it runs with."""
        return {**super().environ(), VARIABLE: str(self.folder / "ahead")}
