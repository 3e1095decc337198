"""A value as JSON, as far as bounds allow: what is beyond them is not even looked at."""

import base64
import dataclasses
import enum
import math
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

from scouter.errors import DataError
from scouter.model.attributes import MORE
from scouter.model.foreign import NotForeign, plain_start
from scouter.model.json_value import MAX_DEPTH, key_text, plain_text, to_json_value

if TYPE_CHECKING:
    from pydantic import JsonValue  # at run time it loads half of pydantic

_SMALL: Final = range(-(2**63), 2**63)
_BYTES: Final = (bytes, bytearray, memoryview)


class BoundedCopy:
    """Turns one value into plain JSON, by the rule of `to_json_value`, until a bound is met.

    A value without a JSON form is shown by its `repr`. A value that is inside itself, is deeper
    than `MAX_DEPTH` or cannot be read to its end has `MORE` in place of the rest.

    Args:
        max_length: Characters of one text.
        max_nodes: Values altogether.
        max_chars: Characters of all texts and keys altogether.
    """

    def __init__(self, max_length: int, max_nodes: int, max_chars: int) -> None:
        self._max_length = max_length
        self._nodes = max_nodes
        self._chars = max_chars
        self._around: list[int] = []  # the objects that the one at hand is inside of
        self.is_cut = False
        """True once something was left out."""

    def of(self, value: object) -> "JsonValue":
        """Copy a value.

        Cost: linear in the bounds, not in the value; but a pydantic model is dumped, and the
        `repr` of a foreign object written, as a whole.
        """
        self._nodes -= 1
        kind = type(value)
        if kind is float:
            return cast("float", value) if math.isfinite(cast("float", value)) else None
        if kind is str:
            return self._text(cast("str", value))
        if kind is bool or value is None or (kind is int and value in _SMALL):
            return cast("int | None", value)
        if id(value) in self._around or len(self._around) >= MAX_DEPTH:
            return self._cut()
        self._around.append(id(value))
        try:
            if kind is dict:
                return self._object(cast("dict[object, object]", value).items())
            if kind is list or kind is tuple:
                return self._array(cast("Sequence[object]", value))
            return self._copied(value)
        except Exception:  # noqa: BLE001 - a foreign object's own code ran
            return self._text(_shown(value))
        finally:
            self._around.pop()

    def _copied(self, value: Any) -> "JsonValue":  # noqa: ANN401 - anything
        if isinstance(value, enum.Enum):
            return self.of(value.value)
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, _BYTES):
            # More of them than the text may have characters are not needed.
            left, data = self._left(), cast("bytes", value)
            self.is_cut |= len(data) > left
            part = bytes(data[:left])
            return self._text(base64.b64encode(part).decode("ascii"))
        if callable(getattr(cast("object", type(value)), "model_dump", None)):
            return self.of(value.model_dump(mode="python"))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = (field.name for field in dataclasses.fields(value))
            return self._object((name, getattr(value, name)) for name in names)
        if isinstance(value, Mapping):
            return self._object(cast("Mapping[object, object]", value).items())
        if isinstance(value, Set):
            some = islice(cast("Set[object]", value), self._nodes + 1)
            return self._array(sorted(some, key=lambda item: (str(type(item)), str(item))))
        if isinstance(value, Sequence):
            return self._array(cast("Sequence[object]", value))
        try:
            return self.of(plain_start(value, self._nodes + 1))
        except NotForeign:
            return to_json_value(value)  # numbers, moments and other small ones

    def _array(self, items: Iterable[object]) -> "JsonValue":
        out: list[JsonValue] = []
        try:
            for item in items:
                if self._is_spent():
                    out.append(self._cut())
                    break
                out.append(self.of(item))
        except Exception:  # noqa: BLE001 - as in `of`
            out.append(self._cut())
        return out

    def _object(self, pairs: Iterable[tuple[object, object]]) -> "JsonValue":
        out: dict[str, JsonValue] = {}
        try:
            for key, item in pairs:
                if self._is_spent():
                    out[MORE] = self._cut()
                    break
                name = plain_text(key) if type(key) is str else _key(key)
                self.is_cut |= len(name) > self._chars
                name = name[: self._chars]
                self._chars -= len(name)
                out[name] = self.of(item)
        except Exception:  # noqa: BLE001 - as in `of`
            out[MORE] = self._cut()
        return out

    def _text(self, text: str) -> str:
        left = self._left()
        self.is_cut |= str.__len__(text) > left
        part = plain_text(str.__getitem__(text, slice(left)))
        self._chars -= len(part)
        return part

    def _cut(self) -> str:
        self.is_cut = True
        return MORE

    def _left(self) -> int:
        return max(0, min(self._max_length, self._chars))

    def _is_spent(self) -> bool:
        return self._nodes <= 0 or self._chars <= 0


def _key(key: object) -> str:
    try:
        return key_text(key)
    except DataError:
        return str(key)


def _shown(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - the object's own code, or too many digits
        return f"<{type(value).__name__}>"
