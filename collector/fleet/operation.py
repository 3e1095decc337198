"""Orders to a fleet."""

from collector.care.backups import KnownBackup
from collector.operation import Answers, Eraser, Erasing, Erasure
from collector.store.erase import EraseTarget
from scouter.errors import ConfigError


class FleetOperation:
    """Erases; see `Operation`. A fleet makes no backups, and knows of none.

    Args:
        eraser: Erases in the whole store.
        answers: Of judges; None where none are kept.
    """

    def __init__(self, eraser: Eraser, answers: Answers | None) -> None:
        self._erasing = Erasing(eraser, answers)

    def erase(self, target: EraseTarget) -> Erasure:
        """Take out everything that a target names; no answer shows it from then on.

        Bytes of it are in Kafka as long as it keeps its messages, and in PostgreSQL until it has
        written over deleted rows: nobody here knows when that is.
        """
        return Erasure(erased=self._erasing.erase(target), is_gone=False, backups=())

    def back_up(self, name: str) -> KnownBackup:
        """Refuse: whoever runs PostgreSQL backs it up.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(
            f"no backup {name[:100]!r} is made: the data of a fleet is in PostgreSQL; back that "
            "up, as with pg_dump"
        )
