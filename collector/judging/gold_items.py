"""Gold items: records whose right evaluation people have given, and when each is judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from pydantic import JsonValue

from scouter.agent.calibration.asking import votes_on
from scouter.agent.calibration.labels import LabelFile, gather, read_labels
from scouter.errors import ConfigError
from scouter.evaluate.tasks.judge import LLMJudgeTask

DAY_NS: Final = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class GoldItem:
    """A record that people have judged."""

    digest: str
    """Digest of its context."""
    context: JsonValue
    is_good: bool


class GoldFile:
    """A file of labels with contexts, as `scouter judge calibrate` reads it.

    Args:
        path: The file.

    Raises:
        ConfigError: A line is no label, or has no context that a judge could be asked about;
            names it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._labels: LabelFile = read_labels(path)
        for problem in self._labels.problems:
            raise problem
        for line, label in self._labels.labels:
            if label.context is None:
                raise ConfigError(f"{path}, line {line}: a gold item needs its context")

    def items(self, task: LLMJudgeTask) -> list[GoldItem]:
        """The items of a judge task: those that name it, and those that name none.

        Returns:
            Each record once, in an order that nobody chose and that stays; what as many people
            pass as fail is left out.

        Raises:
            ConfigError: A score is not on the task's scale, or a rater says two things of one
                record; names the lines.
        """
        problems: list[Exception] = []
        path = str(self.path)
        found = gather(votes_on(self._labels.labels, task, path, problems), path, problems)
        for problem in problems:
            raise problem
        items = [
            GoldItem(_digest(each.key), each.context, each.is_good)
            for each in found
            if each.is_good is not None
        ]
        return sorted(items, key=lambda item: _digest(f"{task.id} {item.digest}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Rule that says which gold item is judged at which time.

    It follows from the time alone, so that a restart changes nothing. Slots follow each other
    evenly, and each takes the next item.

    Args:
        per_day: Items a day.
        window: Slots that are compared together with the calibration; at most as many as items, so
            that a window has no item twice.
    """

    per_day: float
    window: int

    def slot_at(self, now_ns: int) -> int:
        """The slot of a time."""
        slots, days = self.per_day.as_integer_ratio()
        return now_ns * slots // (days * DAY_NS)

    def start_ns(self, slot: int) -> int:
        """Start of a slot: the first nanosecond in it, since the epoch."""
        slots, days = self.per_day.as_integer_ratio()
        return -(-slot * days * DAY_NS // slots)

    def first_of_window(self, slot: int) -> int:
        """The first slot of the window that a slot lies in."""
        return slot // self.window * self.window


def item_of(items: Sequence[GoldItem], slot: int) -> GoldItem:
    """The item of a slot."""
    return items[slot % len(items)]


def _digest(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
