"""The place in the agent's own code that raised an exception."""

import os
import sysconfig
import traceback
from pathlib import Path
from types import TracebackType
from typing import Final

_MOST: Final = 5
_PACKAGE: Final = str(Path(__file__).parents[1])
_LIBRARIES: Final = tuple(
    path for name, path in sysconfig.get_paths().items() if name in {"stdlib", "purelib", "platlib"}
)


def own_frames(error: BaseException) -> tuple[str, ...]:
    """Name the places that an exception came through, without values.

    Returns:
        At most five, such as `shop.py:12 in answer`, the innermost last: those in the agent's own
        code, or in the libraries that it calls where there are none. Files below the working
        folder are named from there.
    """
    frames = _outside(error.__traceback__)
    if not frames and error.__cause__ is not None:
        frames = _outside(error.__cause__.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(_LIBRARIES)]
    return tuple(map(_text, (own or frames)[-_MOST:]))


def _outside(found: TracebackType | None) -> list[traceback.FrameSummary]:
    """The frames outside of this package, and of what the interpreter has no file of."""
    return [
        frame
        for frame in traceback.StackSummary.extract(traceback.walk_tb(found), lookup_lines=False)
        if not frame.filename.startswith((_PACKAGE + os.sep, "<frozen"))
    ]


def _text(frame: traceback.FrameSummary) -> str:
    file, folder = frame.filename, os.getcwd() + os.sep
    return f"{file.removeprefix(folder)}:{frame.lineno} in {frame.name}"
