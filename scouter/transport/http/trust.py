"""Authorities whose certificates HTTP clients trust."""

import os
import ssl
from functools import cache

import httpx


def trusted() -> ssl.SSLContext:
    """Give the authorities that all HTTP clients of this process trust.

    Returns:
        Those of the file that `SSL_CERT_FILE` names, else of the folder `SSL_CERT_DIR`, else of
        certifi.

    Cost: 20 ms and a megabyte at the first call, which each client of its own would take.
    """
    return _read(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _read(file: str | None, folder: str | None) -> ssl.SSLContext:
    del file, folder  # httpx looks for them itself
    return httpx.create_ssl_context()
