"""A disk of some megabytes that is full, and has room again."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

from tests.support.components import require


class SmallDisk:
    """A file system in memory, and a file on it that takes up what shall not be free."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def leave(self, free_bytes: int) -> None:
        """Leave so much room, and no more."""
        found = os.statvfs(self.folder)
        with self._ballast.open("ab") as file:
            file.write(bytes(found.f_bavail * found.f_frsize - free_bytes))

    def give_room(self) -> None:
        self._ballast.unlink()


@contextlib.contextmanager
def small_disk(folder: Path, size_mb: int) -> Generator[SmallDisk]:
    """Mount one; skips or fails the test where nobody may."""
    folder.mkdir()
    require("mounts", present=shutil.which("mount") is not None, detail="no program 'mount'")
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    require("mounts", present=done.returncode == 0, detail=done.stderr.strip())
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, timeout=120)
