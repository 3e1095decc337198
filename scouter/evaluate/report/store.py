"""The folder in which an agent leaves its reports."""

from pathlib import Path

from scouter.errors import ConfigError, DataError


class FolderStore:
    """Reads reports by key from one folder, and from nowhere else.

    Args:
        folder: Its path.

    Raises:
        ConfigError: There is no such folder.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder).resolve()
        if not self.folder.is_dir():
            raise ConfigError(f"report store {str(folder)!r}: there is no such folder")

    def __repr__(self) -> str:
        return f"FolderStore({str(self.folder)!r})"

    def read(self, key: str) -> str | None:
        """Read a report.

        Args:
            key: Its path inside the folder.

        Returns:
            The text; None where there is no such file.

        Raises:
            DataError: The key, or a symbolic link, leads out of the folder; or the file is no
                UTF-8 text.
        """
        try:
            path = (self.folder / key).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise DataError(f"report {key!r}: {error}") from error
        if not path.is_relative_to(self.folder):
            raise DataError(f"report {key!r} lies outside of the folder {str(self.folder)!r}")
        if not path.is_file():
            return None
        try:
            return path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise DataError(f"report {key!r} is no UTF-8 text: {error}") from error
