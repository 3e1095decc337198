"""The names of people who label."""

from collector.store.store import Store


def known_name(store: Store, space: str, name: str) -> str:
    """Spell a name as the person did first, whatever its case and outer spaces.

    Args:
        store: Has labels.
        space: Space of the labels.
        name: As it was given now.

    Cost: linear in the labels of the space.
    """
    name = name.strip()
    wanted = name.casefold()
    return next(
        (each for each in store.label_raters(space) if each.strip().casefold() == wanted), name
    )
