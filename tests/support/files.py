"""Contents of the files of a folder."""

from pathlib import Path


def files_with(folder: Path, *forms: bytes) -> list[str]:
    """The names of the files that hold one of the texts, in any of the folders below.

    A store at work may remove a file while this reads: a checkpoint moves the content of its log.
    The content of such a file is in another one by then, so the search begins anew.

    Raises:
        AssertionError: Files went in every one of many searches.
    """
    for _ in range(100):
        try:
            files = [file for file in folder.rglob("*") if file.is_file()]
            return [file.name for file in files if any(form in file.read_bytes() for form in forms)]
        except FileNotFoundError:
            continue
    raise AssertionError(f"files of {folder} go while they are read, every time")
