"""Clients share the authorities that they trust, as the environment names them."""

import ssl
from pathlib import Path

import pytest

from scouter.transport.http.trust import trusted
from tests.support.certificates import make_certificates


def subjects(context: ssl.SSLContext) -> list[object]:
    return [each["subject"] for each in context.get_ca_certs()]


def test_the_authorities_are_those_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read once for each file; without a name they are the public ones."""
    made = make_certificates(tmp_path)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    public = trusted()
    assert len(subjects(public)) > 50
    assert trusted() is public
    monkeypatch.setenv("SSL_CERT_FILE", str(made.ca))
    assert subjects(trusted()) == [((("commonName", "ca"),),)]
    monkeypatch.setenv("SSL_CERT_FILE", str(made.other_ca))
    assert subjects(trusted()) == [((("commonName", "other"),),)]
    assert public.verify_mode is ssl.CERT_REQUIRED
    assert public.check_hostname
