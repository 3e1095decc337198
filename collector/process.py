"""What a collector sets for the process that it has to itself; never done by a library."""

import ctypes
import gc
import os
import platform
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Final

_MALLOC: Final = {
    # By default each of a dozen threads keeps freed memory in an arena of its own.
    -8: 1,  # M_ARENA_MAX
    # By default each large buffer that is freed raises the limit up to which the next ones lie
    # among the small things, up to 32 MiB, and twice that may stay unused. With a limit below the
    # size of a request, each one would get new pages of the system: a sixth of all the time.
    -3: 4 * 2**20,  # M_MMAP_THRESHOLD
    -1: 8 * 2**20,  # M_TRIM_THRESHOLD
}
"""Options of `mallopt`; source: glibc, `malloc.h`."""
_SWITCH_S: Final = 0.003
"""How long a thread may keep the interpreter while another one wants it, instead of 5 ms: a commit
asks for it a dozen times, whatever the decoding threads do. At 0.3 ms the changing of turns itself
takes a quarter of the throughput."""
_YOUNG: Final = 200_000
"""Objects that are made before the first search for cycles among them, instead of 700: the search
finds next to nothing, and took a seventh of the time of judging records."""


class _NoPandas(MetaPathFinder):
    """Hides pandas.

    Arrow loads it, where it is installed, to look for values that a collector never has: that
    takes 60 MB, and half a second at the first record.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Say that there is no such module; of all others nothing."""
        if fullname == "pandas":
            raise ModuleNotFoundError("a collector does not use pandas", name=fullname)


def tune_process() -> None:
    """Set up threads, memory and the search for cycles, before the service is even imported."""
    # Arrow's own allocator keeps 30 MB more than is in use; Arrow reads this when it is loaded.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    sys.meta_path.insert(0, _NoPandas())
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    _give_memory_back()


@contextmanager
def after_start() -> Generator[None]:
    """Spare what the start has made, which stays to the end, from every search for cycles."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()  # else DuckDB's binding takes it for a leak, and says so at length


def _give_memory_back() -> None:
    """Keep little of what is freed, where the C library is glibc."""
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        for option, value in _MALLOC.items():
            ctypes.CDLL(None).mallopt(option, value)
