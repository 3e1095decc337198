"""TLS and passwords for a broker of a test: an authority of our own, and one user."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.certificates import make_certificates

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
    """Files and names of a secured broker; made by `make_security`."""

    ca: Path
    """PEM file of the authority that signed the broker's certificate."""
    other_ca: Path
    """PEM file of another authority."""
    properties: str
    """Lines of the broker's configuration."""
    scram: str
    """The user as `kafka-storage format --add-scram` takes it."""


def make_security(folder: Path) -> BrokerSecurity:
    """Make an authority, a certificate for 127.0.0.1 and a user."""
    made = make_certificates(folder)
    chain = folder / "chain.pem"
    chain.write_text(made.key.read_text() + made.certificate.read_text() + made.ca.read_text())
    properties = _PROPERTIES.format(chain=chain, ca=made.ca, user=USER, password=PASSWORD)
    scram = f"SCRAM-SHA-512=[name={USER},password={PASSWORD}]"
    return BrokerSecurity(ca=made.ca, other_ca=made.other_ca, properties=properties, scram=scram)
