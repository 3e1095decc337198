"""Slices: parts of the traffic that are watched for themselves.

A fall from 0.9 to 0.5 in a tenth of the traffic moves the rate of all by four points, which takes
long to be proven. A series of its own shows it after some forty of its records.

Which slices there are follows from the traffic alone, and not from outcomes.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, Final

from scouter.model.pair import pair_of

MOST: Final = 50
"""Slices of one version of an agent. They share one chance of a false alarm, so that more of them
would see each fall later."""
WINDOW: Final = 500
"""Records after which it is looked at which traits had enough of them."""
_FEW: Final = 0.02
"""Share of these records that a slice has at least: a rarer one would take long to learn."""
_ALL: Final = 0.95
"""Share from which on a slice is the whole traffic, which is watched anyway."""
_NAMED: Final = 100
"""Slices left out that are known by name."""


class Slices:
    """The slices of one version of an agent.

    Args:
        wanted: Kinds and keys of traits, as a profile names them; see `is_wanted`.
        before: Slices of the version before, which this one has from its first record on.
    """

    def __init__(self, wanted: Collection[str], before: Iterable[str] = ()) -> None:
        self.wanted = wanted
        self.started: dict[str, None] = {}
        """Slices with a series, in the order in which they began."""
        self.left_out: dict[str, None] = {}
        """Slices with enough traffic for which there was no room; at most 100."""
        self._before = frozenset(before)
        self._seen = 0
        self._counts: Counter[str] = Counter()

    def of(self, traits: Iterable[str]) -> list[str]:
        """Count a record.

        Args:
            traits: All that it has, such as `tool search`.

        Returns:
            The slices that it is in.
        """
        if not self.wanted:
            return []
        found: list[str] = []
        for trait in traits:
            if trait in self.started or (trait in self._before and self._begin(trait)):
                found.append(trait)
            elif is_wanted(trait, self.wanted):
                self._counts[trait] += 1
        self._seen += 1
        if self._seen == WINDOW:
            for trait, count in self._counts.most_common():
                if _FEW * WINDOW <= count < _ALL * WINDOW:
                    self._begin(trait)
            self._seen, self._counts = 0, Counter()
        return found

    def _begin(self, trait: str) -> bool:
        if not is_wanted(trait, self.wanted):
            return False
        if len(self.started) < MOST:
            self.started[trait] = None
            self.left_out.pop(trait, None)
            return True
        if len(self.left_out) < _NAMED:
            self.left_out[trait] = None
        return False

    def restate(self, wanted: Collection[str]) -> None:
        """Take other wishes from now on; slices that are not wanted any more make room."""
        self.wanted = wanted
        for known in (self.started, self.left_out):
            for trait in [each for each in known if not is_wanted(each, wanted)]:
                del known[trait]

    def to_json(self) -> dict[str, Any]:
        """The state, from which `from_json` goes on exactly."""
        return {
            "begun": list(self.started), "left_out": list(self.left_out),
            "before": sorted(self._before), "seen": self._seen, "counts": dict(self._counts),
        }  # fmt: skip

    @staticmethod
    def from_json(wanted: Collection[str], state: dict[str, Any]) -> "Slices":
        """Go on from a stored state."""
        found = Slices(wanted, state["before"])
        found.started, found.left_out = (
            dict.fromkeys(state["begun"]),
            dict.fromkeys(state["left_out"]),
        )
        found._seen, found._counts = state["seen"], Counter(state["counts"])
        return found


def attributes_of(wanted: Iterable[str]) -> set[str]:
    """Keys of the attributes of spans that a profile names."""
    found = (each.partition(" ") for each in wanted)
    return {pair_of(pair)[0] for kind, _, pair in found if kind == "attribute"}


def is_wanted(trait: str, wanted: Iterable[str]) -> bool:
    """Tell whether a trait is of a kind, or has a key, that a profile names.

    `tool` stands for all tools and `tool search` for one; `tag` for all tags, `tag tier` for all
    values of one key and `tag tier=free` for one of them; likewise `model` and `attribute`.
    """
    return any(
        trait == each or trait.startswith(f"{each}=" if " " in each else f"{each} ")
        for each in wanted
    )
