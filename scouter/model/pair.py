"""The text `key=value` of tags and attributes: in filters, options, slices and the store."""


def pair_text(key: str, value: str) -> str:
    """Write a pair; in the key `=` becomes `%3D`, and `%` becomes `%25`."""
    return f"{key.replace('%', '%25').replace('=', '%3D')}={value}"


def pair_of(text: str) -> tuple[str, str, str]:
    """Read what `pair_text` wrote, or a person: the key ends at the first `=`.

    Returns:
        Key, `=` and value, as `str.partition` gives them; any other `%` of a key stays.
    """
    key, sign, value = text.partition("=")
    return key.replace("%3D", "=").replace("%25", "%"), sign, value
