"""Process-wide settings of a collector, which a library must never touch."""

import ctypes
import gc
import os
import platform
import resource
import sys
from asyncio import sslproto
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
"""Seconds that a thread may keep the interpreter while another thread wants it; Python's is 5 ms.

A commit asks for the interpreter a dozen times, whatever the decoding threads do. At 0.3 ms the
switching itself takes a quarter of the throughput.
"""
_YOUNG: Final = 200_000
"""Objects that are made before the first search for cycles among them, instead of 700: the search
finds next to nothing, and took a seventh of the time of evaluating records."""

_TLS_READ: Final = 2**15
_OWN_FILES: Final = 200
"""Files and sockets of the store, brokers, judges and the libraries' threads: twice what they were
seen to take."""
_FEWEST: Final = 16

_UNUSED: Final = frozenset({
    # Arrow and DuckDB load these for values no collector has: 90 MB, and half a second at the
    # first record.
    "numpy", "pandas",
    # The command line of httpx, with all that draws on terminals: 4 MB.
    "httpx._main",
})  # fmt: skip


class _NotLoaded(MetaPathFinder):
    """Hides modules that others load where they are installed.

    A None in `sys.modules` would not do: to code compiled by Cython it is a module.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        """Say that there is no such module; of all others nothing."""
        if fullname in _UNUSED:
            raise ModuleNotFoundError(f"a collector does not use {fullname}", name=fullname)


def tune_process() -> None:
    """Set up threads and memory, before the service is even imported.

    Cycles are searched for from `after_start` on: in what a start makes there is next to nothing to
    find, and two searches took an eighth of its processor time.
    """
    # Arrow's own allocator keeps 30 MB more than is in use; Arrow reads this when it is loaded.
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    sys.meta_path.insert(0, _NotLoaded())
    sys.setswitchinterval(_SWITCH_S)
    gc.disable()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
    _give_memory_back()
    # Each connection has a buffer of this size, by default of 256 KiB; a record of TLS has 16.
    sslproto.SSLProtocol.max_size = _TLS_READ


def connections_that_fit(wanted: int, doors: int) -> int:
    """Number of connections that each door may have, by the files that the process may open.

    Args:
        wanted: Number that was requested.
        doors: Ways in that take connections.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return wanted
    return max(_FEWEST, min(wanted, (files - _OWN_FILES) // doors))


@contextmanager
def after_start() -> Generator[None]:
    """Spare what the start has made, which stays to the end, from every search for cycles."""
    gc.freeze()
    gc.enable()
    try:
        yield
    finally:
        gc.unfreeze()  # else DuckDB's binding takes it for a leak, and says so at length


def _give_memory_back() -> None:
    """Keep little of what is freed, where the C library is glibc."""
    if sys.platform == "linux" and platform.libc_ver()[0] == "glibc":
        for option, value in _MALLOC.items():
            ctypes.CDLL(None).mallopt(option, value)
