"""Certificates of a test: an authority of our own, and what it signed."""

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """PEM files, made by `make_certificates`."""

    ca: Path
    """The authority that signed the server's certificate."""
    other_ca: Path
    """Another authority."""
    certificate: Path
    """The server's, for 127.0.0.1 and localhost."""
    key: Path
    """Its key."""


def make_certificates(folder: Path) -> Certificates:
    """Make authorities, and a certificate for 127.0.0.1, with the program openssl."""
    ca, other = (_authority(folder, name) for name in ("ca", "other"))
    key, request, certificate = (folder / f"server.{end}" for end in ("key", "csr", "pem"))
    _openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request,
        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
    )  # fmt: skip
    _openssl(
        "x509", "-req", "-in", request, "-CA", ca, "-CAkey", folder / "ca.key", "-days", "2",
        "-copy_extensions", "copy", "-out", certificate,
    )  # fmt: skip
    return Certificates(ca=ca, other_ca=other, certificate=certificate, key=key)


def _authority(folder: Path, name: str) -> Path:
    certificate = folder / f"{name}.pem"
    _openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
        "-keyout", folder / f"{name}.key", "-out", certificate,
    )  # fmt: skip
    return certificate


def _openssl(*args: str | Path) -> None:
    subprocess.run(
        ["openssl", *map(str, args)], check=True, capture_output=True, timeout=120,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
