"""Runs of spans that follow each other in time order."""

from collections.abc import Sequence

from scouter.evaluate.tasks.span_filter import SequenceFilter, SpanFilter


def sequence_names(filter: SpanFilter) -> tuple[str, ...] | None:
    """The names of a sequence filter; None for filters of single spans."""
    return tuple(filter.names) if isinstance(filter, SequenceFilter) else None


def count_runs(wanted: Sequence[str], found: Sequence[str]) -> int:
    """Count the places where the wanted names follow each other in what was found.

    Runs may overlap: `[a, a]` is found twice in `a a a`.

    Args:
        wanted: At least one name.
        found: The names of all spans in time order.

    Cost: linear in both lengths.
    Source: Knuth, Morris and Pratt 1977, doi:10.1137/0206024.
    """
    back = _borders(wanted)
    count = matched = 0
    for name in found:
        while matched and (matched == len(wanted) or name != wanted[matched]):
            matched = back[matched - 1]
        if name == wanted[matched]:
            matched += 1
        count += matched == len(wanted)
    return count


def _borders(wanted: Sequence[str]) -> list[int]:
    """Give the length of the longest proper prefix that is also a suffix, for each prefix."""
    borders = [0]
    for at in range(1, len(wanted)):
        length = borders[-1]
        while length and wanted[at] != wanted[length]:
            length = borders[length - 1]
        borders.append(length + (wanted[at] == wanted[length]))
    return borders
