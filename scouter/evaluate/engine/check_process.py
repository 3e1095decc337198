"""The program in which checks run: takes a check's name and what it reads, answers with its end.

Messages come as pickles of a process that holds the same data itself; answers go as lines of JSON.
"""

import importlib
import inspect
import json
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import IO, Final, cast

_GROUP: Final = "scouter.checks"
_GRACE_S: Final = 1.0
"""Seconds beyond the limit of a check after which this process ends, should nobody have killed it:
the caller may be gone."""
_MOST: Final = 2_000
"""Characters of a message."""


def main() -> None:
    """Answer until whoever asks is gone."""
    asks, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what a check prints is no answer
    module = sys.argv[1]
    known: dict[str, Callable[..., object]] = {}
    while (size := asks.read(8)) and len(size) == 8:
        message = asks.read(int.from_bytes(size, "big"))
        kind, limit_s, *rest = pickle.loads(message)  # noqa: S301 — of whoever started this
        try:
            if kind == "names":
                _answer(answers, names=sorted(_of_module(module)))
                continue
            name, context, spans = rest
            if name not in known:
                known[name] = _load(name, module)
            _answer(answers, loaded=True)
            signal.setitimer(signal.ITIMER_REAL, limit_s + _GRACE_S)
            try:
                value, message = _read(known[name](context, spans))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            _answer(answers, value=value, message=message[:_MOST])
        except Exception as error:  # noqa: BLE001 — whatever a check raises is its task's error
            _answer(answers, error=_described(error)[:_MOST])


def _answer(answers: IO[str], **fields: object) -> None:
    answers.write(json.dumps(fields) + "\n")
    answers.flush()


def _of_module(name: str) -> Mapping[str, Callable[..., object]]:
    module = importlib.import_module(name)
    return {
        key: value
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == name and not key.startswith("_")
    }


def _load(name: str, module: str) -> Callable[..., object]:
    own = _of_module(module).get(name) if module else None
    if own is not None:
        return own
    (entry,) = entry_points(group=_GROUP, name=name)
    return entry.load()


def _read(found: object) -> tuple[bool | float, str]:
    """Take an outcome or a score, alone or with a message."""
    value, message = found, ""
    if isinstance(found, tuple) and len(pair := cast("tuple[object, ...]", found)) == 2:
        value, message = pair
    if not isinstance(value, bool | int | float):
        raise TypeError(f"a check returns true, false or a number, this one {value!r}")
    return value, str(message)


def _described(error: Exception) -> str:
    """The error, and the place in the check that it comes from."""
    last = next(reversed(traceback.extract_tb(error.__traceback__)), None)
    where = ""
    if last is not None and last.filename != __file__:
        where = f" ({os.path.basename(last.filename)}:{last.lineno} in {last.name})"
    return f"{type(error).__name__}: {error}{where}"


if __name__ == "__main__":
    main()
