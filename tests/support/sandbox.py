"""Runs a Python module under what a systemd unit forbids, as far as that needs no systemd.

`python tests/support/sandbox.py CALLS module args…`: CALLS is a file with the names of the system
calls that are allowed, a line each. Any other fails with EPERM, as does memory that is writable and
executable; no program gains rights, and files are the user's alone.
"""

import ctypes
import os
import sys
from pathlib import Path

_ALLOW, _EPERM = 0x7FFF0000, 0x00050001
_SET_NO_NEW_PRIVS, _SET_MDWE = 38, 65


def confine(calls: list[str]) -> None:
    """Forbid it to this process and what it starts.

    Raises:
        OSError: The kernel or the library does not do it.
    """
    os.umask(0o077)
    libc = ctypes.CDLL(None, use_errno=True)
    for option in (_SET_NO_NEW_PRIVS, _SET_MDWE):
        if libc.prctl(option, 1, 0, 0, 0):
            raise OSError(ctypes.get_errno(), f"prctl {option}")
    library = ctypes.CDLL("libseccomp.so.2", use_errno=True)
    library.seccomp_init.restype = ctypes.c_void_p
    rules = ctypes.c_void_p(library.seccomp_init(_EPERM))
    for name in calls:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # others are of other machines
            library.seccomp_rule_add(rules, _ALLOW, number, 0)
    if library.seccomp_load(rules):
        raise OSError("seccomp_load")


if __name__ == "__main__":
    confine(Path(sys.argv[1]).read_text(encoding="utf-8").split())
    os.execv(sys.executable, [sys.executable, "-m", *sys.argv[2:]])  # noqa: S606 no shell
