"""`scouter collector` whose date a test sets; its monotonic clock goes on."""

import sys

from tests.support.collector_process import CollectorProcess


class JumpingCollector(CollectorProcess):
    """A collector whose date is ahead of the machine's by what was set last."""

    def set_ahead(self, seconds: float) -> None:
        """Let its date be ahead by so many seconds, from now on and after a restart."""
        later = self.folder / "ahead.new"
        later.write_text(str(seconds))
        later.replace(self.folder / "ahead")  # at once: half of a number would be another date

    def command(self) -> list[str]:
        """The command that runs a module, whose name and arguments follow."""
        return [sys.executable, "-m", "tests.support.jumping_clock", str(self.folder / "ahead")]
