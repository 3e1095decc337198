"""Memory as Python's allocator counts it."""

import gc
import tracemalloc
from collections.abc import Callable


def held_bytes(action: Callable[[], object]) -> int:
    """Bytes that are in use behind an action and were not before."""
    gc.collect()
    gc.freeze()  # of what was there before nothing is garbage now: the second search is a short one
    tracemalloc.start()
    try:
        action()
        gc.collect()
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
