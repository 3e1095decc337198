"""Size of a JSON value, counted before work is begun whose cost it decides."""

from pydantic import JsonValue


def weight(value: JsonValue, most: int | None = None) -> int:
    """Count the values inside a value, at any depth; 0 if it is no list and no object.

    Args:
        value: The value.
        most: The count to stop at; the real number is then larger.

    Cost: linear in the value, up to `most`.
    """
    count, waiting = -1, [value]
    while waiting:
        count += 1
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
        else:
            continue
        if most is not None and count + len(waiting) > most:
            return count + len(waiting)
    return count
