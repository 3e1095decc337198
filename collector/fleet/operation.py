"""Orders to a fleet."""

from collector.care.data_folder import KnownBackup
from collector.fleet.past import Past
from collector.judging.answers import Answers
from collector.operation import Eraser, Erasing, Erasure
from collector.store.erase import EraseTarget
from scouter.errors import ConfigError


class FleetOperation:
    """Erases; see `Operation`. A fleet makes no backups, and knows of none.

    Args:
        eraser: Erases in the whole store.
        answers: Of judges; None where none are kept.
        past: The folder of the days that are over; None where there is none.
    """

    def __init__(self, eraser: Eraser, answers: Answers | None, past: Past | None = None) -> None:
        self._erasing, self._past = Erasing(eraser, answers), past

    def erase(self, target: EraseTarget) -> Erasure:
        """Take out everything that a target names; no answer shows it from then on.

        Bytes of it are in Kafka as long as it keeps its messages, and in PostgreSQL until it has
        written over deleted rows: nobody here knows when that is. The files of days that are over
        have none of it.
        """
        if self._past is None:
            erased = self._erasing.erase(target)
        else:
            erased = self._past.erase(target, lambda: self._erasing.erase(target))
        return Erasure(erased=erased, is_gone=False, backups=())

    def back_up(self, name: str) -> KnownBackup:
        """Refuse: whoever runs PostgreSQL backs it up.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(
            f"no backup {name[:100]!r} is made: the data of a fleet is in PostgreSQL; back that "
            "up, as with pg_dump"
        )
