"""Arguments of a model by position, as the original's classes take them."""

from collections.abc import Mapping, Sequence


def by_position(
    kind: type[object], order: Sequence[str], args: Sequence[object], fields: Mapping[str, object]
) -> dict[str, object]:
    """Name the arguments that were given by position.

    Args:
        kind: The model.
        order: Its fields, in the order of the positions.
        args: Those given by position.
        fields: Those given by name.

    Raises:
        TypeError: There are too many, or one is given twice.
    """
    if len(args) > len(order):
        raise TypeError(f"{kind.__name__} takes {', '.join(order)}; got {len(args)} by position")
    named = dict(zip(order, args, strict=False))
    twice = named.keys() & fields.keys()
    if twice:
        raise TypeError(f"{kind.__name__} got {min(twice)!r} twice")
    return {**named, **fields}
