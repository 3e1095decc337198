"""Values of numpy, pandas, polars and pyarrow, read without importing any of them.

If a value is one of theirs, the library has been imported already; so it is looked up, not loaded.
"""

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, cast

_LIBRARIES: Final = frozenset({"numpy", "pandas", "polars", "pyarrow"})
_TEXTS: Final = frozenset({"ipaddress", "pydantic.networks", "pydantic.types",
                           "pydantic_core._pydantic_core", "fractions"})  # fmt: skip
"""Modules whose values are what `str` shows of them: addresses, URLs, masked secrets."""


class NotForeign(Exception):
    """The value is of no type that this module knows."""


def plain_python(value: object, limit: int) -> object:
    """Give a foreign value as lists, dicts and plain values, one step at a time.

    Arrays become nested lists; a Series or an Index a list of its values; a DataFrame or a Table a
    list of one object per row; missing values (NaT, NA) None; moments ISO 8601 text.

    Args:
        value: Anything.
        limit: Most values that an array may hold; it is not read otherwise.

    Raises:
        NotForeign: The value is none of these.
        OverflowError: It holds more than `limit` values.
    """
    if type(value).__module__ in _TEXTS:
        return str(value)
    home = _home(value)
    if not home:
        raise NotForeign
    _check_size(value, limit)
    return _READERS[home](value)


def plain_start(value: Any, limit: int) -> object:  # noqa: ANN401 — a type that cannot be named
    """Give a foreign value as `plain_python` does, but hardly more than its first values.

    Args:
        value: Anything.
        limit: Number of wanted values. The row in which they end is read as a whole, and an array
            of several dimensions is given as its rows, which are still foreign.

    Raises:
        NotForeign: The value is none of these.
        OverflowError: One row holds more than a million values.
    """
    home = _home(value)
    shape = cast("tuple[int, ...]", getattr(value, "shape", ()) if home else ())
    if home == "numpy" and len(shape) > 1:
        return list(value[:limit])
    rows = limit // max(1, math.prod(shape[1:])) + 1
    if home in {"pyarrow", "polars"} and hasattr(value, "slice"):
        value = value.slice(0, rows)
    elif shape:  # of pandas `head`, as its square brackets take numbers for labels
        value = value.head(rows) if hasattr(value, "head") else value[:rows]
    return plain_python(value, limit + 1_000_000)


def _home(value: object) -> str:
    """The library that a value is from, of those that are known here; else nothing."""
    home = type(value).__module__.partition(".")[0]
    known = home in _LIBRARIES and home in sys.modules and not isinstance(value, type)
    return home if known else ""


def _check_size(value: Any, limit: int) -> None:  # noqa: ANN401 — a type that cannot be named
    shape = getattr(value, "shape", None)  # of arrays, series, frames and tables
    size = math.prod(cast("tuple[int, ...]", shape)) if isinstance(shape, tuple) else 0
    if size > limit:
        raise OverflowError(size)


def _numpy(value: Any) -> object:  # noqa: ANN401 — see `_check_size`
    numpy = sys.modules["numpy"]
    if not isinstance(value, numpy.ndarray | numpy.generic):
        raise NotForeign
    if value.dtype.kind == "M":  # moments; `tolist` would make numbers of nanoseconds
        texts = numpy.where(numpy.isnat(value), None, numpy.datetime_as_string(value))
        return texts.tolist()
    if value.dtype.kind == "m":
        seconds = value / numpy.timedelta64(1, "s")
        return seconds.tolist()  # NaT is NaN here, and NaN None later
    if value.dtype.kind in "cV" and value.dtype.names is None:
        raise NotForeign  # complex numbers, and bytes without a meaning
    if isinstance(value, numpy.longdouble):
        return float(value)
    return value.tolist()


def _pandas(value: Any) -> object:  # noqa: ANN401 — see `_check_size`
    pandas = sys.modules["pandas"]
    if value is pandas.NA or value is pandas.NaT:
        return None
    if isinstance(value, pandas.DataFrame):
        names = list(value.columns)
        columns = [list(value.iloc[:, at]) for at in range(len(names))]
        return [_Row(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    if isinstance(value, pandas.Series | pandas.Index | pandas.api.extensions.ExtensionArray):
        return list(value)
    if isinstance(value, pandas.Period | pandas.Interval):
        return str(value)
    raise NotForeign


def _polars(value: Any) -> object:  # noqa: ANN401 — see `_check_size`
    polars = sys.modules["polars"]
    if isinstance(value, polars.DataFrame):
        return value.to_dicts()
    if isinstance(value, polars.Series):
        return value.to_list()
    raise NotForeign


def _pyarrow(value: Any) -> object:  # noqa: ANN401 — see `_check_size`
    arrow = sys.modules["pyarrow"]
    if isinstance(value, arrow.Table | arrow.RecordBatch | arrow.Array | arrow.ChunkedArray):
        return value.to_pylist()
    if isinstance(value, arrow.Scalar):
        return value.as_py()
    raise NotForeign


_READERS: Final = {"numpy": _numpy, "pandas": _pandas, "polars": _polars, "pyarrow": _pyarrow}


class _Row(Mapping[object, object]):
    """One row of a frame, whose columns may have the same name twice."""

    def __init__(self, pairs: Iterable[tuple[object, object]]) -> None:
        self._pairs = tuple(pairs)

    def __getitem__(self, key: object) -> object:
        return next(value for name, value in self._pairs if name == key)

    def __iter__(self) -> Iterator[object]:
        return (name for name, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)
