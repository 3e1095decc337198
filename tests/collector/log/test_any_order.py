"""Any sequence of appends, commits, trims, starts and crashes reads back what was acknowledged."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.log.file_log import FileLog
from collector.log.segment import SEGMENT_HEADER_BYTES
from tests.contracts.log import append, item, numbers

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.lists(st.integers(5, 400), min_size=1, max_size=5)),
        st.tuples(st.just("crash"), st.lists(st.integers(5, 400), min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["commit", "trim", "roll", "restart"]), st.just([0])),
    ),
    min_size=1,
    max_size=20,
)


class Model:
    """A log, and lists of what it has to give back."""

    def __init__(self, folder: Path, segment_bytes: int) -> None:
        self._folder, self._segment_bytes = folder, segment_bytes
        self._count = 0
        self.acknowledged: list[int] = []
        self.stored: list[int] = []
        self.offset = 0
        self._furthest = 0
        self.log = self._open()

    def do(self, name: str, sizes: Sequence[int], torn: float) -> None:
        """One step, and a look at everything."""
        if name == "append":
            made = range(self._count, self._count + len(sizes))
            append(self.log, map(item, made, sizes))
            self._count = made.stop
            self.acknowledged += made
        elif name == "commit":
            self.stored += numbers(self.log, self.offset)
            self.offset = self.log.end
        elif name == "trim":
            self.log.trim(self.offset)
            assert self.log.begin <= self.offset
        elif name == "roll":
            assert self.log.roll().result(120) == self.log.end
        elif name == "restart":
            self.log.close()
            self.log = self._open()
        else:
            self._crash(sizes, torn)
        found = [*self.stored, *numbers(self.log, self.offset, max_bytes=1 + int(torn * 2_000))]
        assert found == self.acknowledged
        assert self._furthest <= self.log.end
        self._furthest = self.log.end

    def _crash(self, sizes: Sequence[int], torn: float) -> None:
        """End the process while a group is written: of its bytes there is a part.

        Whole items of it were not acknowledged, and may be read all the same.
        """
        first = self.log.end
        made = range(self._count, self._count + len(sizes))
        offsets = append(self.log, map(item, made, sizes))
        self._count = made.stop
        self.log.close()
        there = first + int(torn * (offsets[-1] - first))
        for path in self._folder.iterdir():
            size = SEGMENT_HEADER_BYTES + there - int(path.stem)
            if size < SEGMENT_HEADER_BYTES:  # it was not yet started
                path.unlink()
            elif size < path.stat().st_size:
                os.truncate(path, size)
        self.acknowledged += [n for n, end in zip(made, offsets, strict=True) if end <= there]
        self.log = self._open()

    def _open(self) -> FileLog:
        return FileLog(self._folder, self.offset, segment_bytes=self._segment_bytes)


@given(
    steps=STEPS,
    torn=st.lists(st.floats(0, 1), min_size=20, max_size=20),
    segment_bytes=st.sampled_from([1, 300, 1_000, 2**20]),
)
@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence(
    tmp_path: Path, steps: list[tuple[str, list[int]]], torn: list[float], segment_bytes: int
) -> None:
    folder = tmp_path / "log"
    model = Model(folder, segment_bytes)
    try:
        for (name, sizes), part in zip(steps, torn, strict=False):
            model.do(name, sizes, part)
    finally:
        model.log.close()
        shutil.rmtree(folder)
