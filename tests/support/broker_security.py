"""TLS and passwords for a broker of a test: an authority of our own, and one user."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

USER: Final = "scouter-user"
PASSWORD: Final = "correct horse battery staple"

_PROPERTIES: Final = """\
ssl.keystore.type=PEM
ssl.keystore.location={chain}
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.clients.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required \
username="{user}" password="{password}" user_{user}="{password}";
listener.name.clients.scram-sha-512.sasl.jaas.config=\
org.apache.kafka.common.security.scram.ScramLoginModule required;
ssl.truststore.type=PEM
ssl.truststore.location={ca}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSecurity:
    """What a secured broker needs; made by `make_security`."""

    ca: Path
    """PEM file of the authority that signed the broker's certificate."""
    other_ca: Path
    """PEM file of another authority."""
    properties: str
    """Lines of the broker's configuration."""
    scram: str
    """The user as `kafka-storage format --add-scram` takes it."""


def make_security(folder: Path) -> BrokerSecurity:
    """Make an authority, a certificate for 127.0.0.1 and a user, with the program openssl."""
    ca, other = (_authority(folder, name) for name in ("ca", "other"))
    key, request, certificate = (folder / f"broker.{end}" for end in ("key", "csr", "pem"))
    _openssl(
        "req", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request,
        "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
    )  # fmt: skip
    _openssl(
        "x509", "-req", "-in", request, "-CA", ca, "-CAkey", folder / "ca.key", "-days", "2",
        "-copy_extensions", "copy", "-out", certificate,
    )  # fmt: skip
    chain = folder / "chain.pem"
    chain.write_text(key.read_text() + certificate.read_text() + ca.read_text())
    properties = _PROPERTIES.format(chain=chain, ca=ca, user=USER, password=PASSWORD)
    scram = f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"
    return BrokerSecurity(ca=ca, other_ca=other, properties=properties, scram=scram)


def _authority(folder: Path, name: str) -> Path:
    certificate = folder / f"{name}.pem"
    _openssl(
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
        "-keyout", folder / f"{name}.key", "-out", certificate,
    )  # fmt: skip
    return certificate


def _openssl(*args: str | Path) -> None:
    subprocess.run(
        ["openssl", *map(str, args)], check=True, capture_output=True, timeout=60,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
