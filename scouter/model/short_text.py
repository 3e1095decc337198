"""Ids, names and tags in the one form in which they are stored.

The sender, the collector and the engine apply the same rule, once or several times alike, so that a
record and a trace that were given the same id meet.
"""

import uuid
from collections.abc import Mapping
from hashlib import sha256
from itertools import islice
from typing import Final

from scouter.errors import DataError
from scouter.model.attributes import MORE, TRUNCATED
from scouter.model.json_value import int_text, plain_text

MOST_CHARACTERS: Final = 512
"""Characters of an id, and of a tag's name."""
MOST_TAG_CHARACTERS: Final = 4096
"""Characters of a tag's value."""
MOST_TAGS: Final = 64
"""Tags of a record."""
_DIGEST: Final = 16
_PICTURES: Final = {
    **{code: 0x2400 + code for code in range(0x20)},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    0x2028: 0x2424,
    0x2029: 0x2424,
}
"""Signs in place of control characters and of what breaks lines.

Source: Unicode, block Control Pictures.
"""


def given_text(field: str, value: object) -> str:
    """Give what stands for a text as one; people pass database keys and uuids, too.

    Args:
        field: Name of the field, for the error.
        value: A text, a number or a uuid.

    Raises:
        DataError: It is something else; names the field.
    """
    if isinstance(value, str):
        # A subclass, such as an enum, may show itself as something else.
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, int):
        return int_text(value)
    if isinstance(value, float | uuid.UUID):
        return str(value)
    raise DataError(f"{field} is a {type(value).__name__}; expected text")


def short_text(text: str) -> str:
    """Give an id or a name in the form in which it is stored.

    A control character becomes its picture, such as ␀ or ␉; half a character (a lone surrogate)
    U+FFFD. Of a text of more than `MOST_CHARACTERS` the beginning stays, with `…` and a digest
    behind it, so that two long ids stay two. Format characters, which Persian, emoji and
    right-to-left names need, stay, and so do spaces of every kind.
    """
    if text.isprintable() and len(text) <= MOST_CHARACTERS:
        return text
    return _cut(plain_text(text).translate(_PICTURES), MOST_CHARACTERS)


def tag_text(text: str) -> str:
    """Give a tag's value in the form in which it is stored: as an id, but with its lines."""
    return _cut(plain_text(text), MOST_TAG_CHARACTERS)


def stored_tags(tags: Mapping[str, str]) -> Mapping[str, str]:
    """Give as many tags as are stored; where there were more, `scouter.truncated` is one."""
    if len(tags) <= MOST_TAGS:
        return tags
    return {**dict(islice(tags.items(), MOST_TAGS - 1)), TRUNCATED: f"{len(tags)} tags"}


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    digest = sha256(text.encode()).hexdigest()[:_DIGEST]
    return text[: most - len(MORE) - _DIGEST] + MORE + digest
