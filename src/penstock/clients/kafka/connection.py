"""The connection settings of a Kafka cluster, for Spark's Java client and for confluent-kafka."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from penstock.errors import ServiceError

_OWN: Final = ("bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config")


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    """Servers and the login. Files are PEM.

    `inside` are the servers as Spark reaches them, if that differs.
    """

    servers: str
    protocol: str | None = None
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    config: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
    inside: str | None = None

    @property
    def has_sasl(self) -> bool:
        return self.security.startswith("SASL")

    @property
    def security(self) -> str:
        if self.protocol is not None:
            return self.protocol.upper()
        encrypted = "SSL" if self.ca or self.certificate else "PLAINTEXT"
        return f"SASL_{encrypted}" if self.username is not None else encrypted

    def spark_options(self) -> dict[str, str]:
        """Return the options of Spark's reader and writer. Certificates are part of them: executors may not have the
        files."""
        settings = {"bootstrap.servers": self.inside or self.servers, "security.protocol": self.security}
        if self.has_sasl and self.username is not None:
            settings |= {"sasl.mechanism": self._mechanism, "sasl.jaas.config": self._jaas()}
        if self.security.endswith("SSL"):
            settings |= self._tls_settings()
        return {f"kafka.{name}": value for name, value in {**settings, **self.config}.items()}

    def librdkafka_settings(self) -> dict[str, str]:
        """Return the settings of confluent-kafka."""
        settings = {"bootstrap.servers": self.servers, "security.protocol": self.security}
        if self.has_sasl:
            settings |= {"sasl.mechanism": self._mechanism}
            settings |= {"sasl.username": self.username or "", "sasl.password": self.password or ""}
        if self.security.endswith("SSL"):
            files = {"ca": self.ca, "certificate": self.certificate, "key": self.key}
            settings |= {f"ssl.{name}.pem": _pem(path) for name, path in files.items() if path is not None}
        return {**settings, **{name: value for name, value in self.config.items() if name not in _OWN}}

    @property
    def _mechanism(self) -> str:
        return (self.mechanism or "PLAIN").upper()

    def _jaas(self) -> str:
        module = "scram.ScramLoginModule" if self._mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
        user, password = _quote_jaas(self.username or ""), _quote_jaas(self.password or "")
        return f"org.apache.kafka.common.security.{module} required username={user} password={password};"

    def _tls_settings(self) -> dict[str, str]:
        settings: dict[str, str] = {}
        if self.ca is not None:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _pem(self.ca)}
        if self.certificate is not None and self.key is not None:
            settings |= {
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": _pem(self.certificate),
                "ssl.keystore.key": _pem(self.key),
            }
        return settings


def _quote_jaas(text: str) -> str:
    """Quote a text for JAAS."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pem(path: str) -> str:
    try:
        text = Path(path).read_text(encoding="ascii")
    except OSError as error:
        raise ServiceError("certificate-unreadable", f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        text = ""
    if "-----BEGIN " not in text:
        hint = "certificates and keys must be in PEM format: text with a line `-----BEGIN …-----`"
        raise ServiceError("certificate-unreadable", f"{path} is neither a certificate nor a key", hint=hint)
    return text
