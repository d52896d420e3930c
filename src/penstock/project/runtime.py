"""The `runtime` section of a project: the systems that it runs on."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, AliasChoices, BeforeValidator, Field, SecretStr, model_validator

from penstock.clients.clusters import EMBEDDED, Cluster, Clusters
from penstock.clients.conduktor import DEFAULT_CLUSTER
from penstock.clients.conduktor import ConduktorGateway as GatewayClient
from penstock.clients.http.auth import split_credentials
from penstock.clients.kafka.connection import KafkaCluster
from penstock.clients.kafka_connect import Connect
from penstock.clients.registry.client import Registry
from penstock.clients.registry.schema_cache import SchemaCache
from penstock.config import FrozenModel
from penstock.project.flink_clusters import FlinkClusters, check_default


def _split_list(value: object) -> object:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _check_addresses(servers: tuple[str, ...]) -> tuple[str, ...]:
    for server in servers:
        if server.lower().startswith(("http://", "https://")):
            raise ValueError(
                f"`{server}` is no address of a broker: write host:port, without {server.partition('//')[0]}//"
            )
    return servers


def _render_setting(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Kafka(FrozenModel):
    """The Kafka cluster that holds the topics. Without it, topics are directories."""

    bootstrap_servers: Annotated[
        tuple[str, ...],
        BeforeValidator(_split_list, json_schema_input_type=str | list[str]),
        AfterValidator(_check_addresses),
    ]
    """One `host:port`, several separated by commas, or a list."""
    bootstrap_servers_internal: str | None = None
    """The servers as a Spark cluster reaches them. Commands, and Spark on this machine, take `bootstrap_servers`."""
    security_protocol: str | None = None
    """`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`."""
    sasl_mechanism: str | None = None
    """`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`."""
    sasl_username: str | None = None
    """The user."""
    sasl_password: SecretStr | None = None
    """The password; never shown again."""
    ssl_ca_location: str | None = None
    """The file with the certificates that are trusted."""
    ssl_certificate_location: str | None = None
    """The file with our own certificate."""
    ssl_key_location: str | None = None
    """The file with the key of our own certificate."""
    config: dict[str, str | int | float | bool] = {}
    """Any other setting of a Kafka client."""

    def cluster(self, root: Path, *, from_afar: bool = False) -> KafkaCluster:
        """How the cluster is reached; `from_afar` is whether Spark runs elsewhere.

        Relative paths of certificates begin at `root`.
        """
        files = (self.ssl_ca_location, self.ssl_certificate_location, self.ssl_key_location)
        ca, certificate, key = (None if name is None else str(root / name) for name in files)
        return KafkaCluster(
            servers=",".join(self.bootstrap_servers),
            inside=self.bootstrap_servers_internal if from_afar else None,
            protocol=self.security_protocol,
            mechanism=self.sasl_mechanism,
            username=self.sasl_username,
            password=self.sasl_password.get_secret_value() if self.sasl_password else None,
            ca=ca,
            certificate=certificate,
            key=key,
            config={name: _render_setting(value) for name, value in self.config.items()},
        )


class RegistrySsl(FrozenModel):
    """How to trust the registry."""

    ca_location: str | None = None
    """The file with the certificates that are trusted. A relative path begins at the directory of the project."""


class SchemaRegistry(FrozenModel):
    """The registry that holds the schemas of topics."""

    url: Annotated[tuple[str, ...], BeforeValidator(_split_list, json_schema_input_type=str | list[str])]
    """Where it answers: one address, several separated by commas, or a list."""
    username: str | None = Field(None, validation_alias=AliasChoices("username", "api_key"))
    """The user, for basic authentication. `api_key` is the same field."""
    password: SecretStr | None = Field(None, validation_alias=AliasChoices("password", "api_secret"))
    """The password; never shown again. `api_secret` is the same field."""
    compatibility: str | None = None
    """What later versions of the project's schemas must be compatible with, where a schema itself does not say it:
    `BACKWARD`, `FULL`, …"""
    ssl: RegistrySsl = RegistrySsl()
    """How to trust it."""

    def registry(self, root: Path) -> Registry:
        """How it is asked; `root` is where the project is."""
        password = self.password.get_secret_value() if self.password else None
        ca = None if self.ssl.ca_location is None else str(root / self.ssl.ca_location)
        return Registry(self.url, self.username, password, ca)


class ConnectCluster(FrozenModel):
    """A cluster of Kafka Connect."""

    rest_url: str
    """Where its REST interface answers."""
    username: str | None = None
    """The user, for basic authentication."""
    password: SecretStr | None = None
    """The password; never shown again."""

    def connect(self) -> Connect:
        url, username, password = split_credentials(self.rest_url)
        if self.username is not None:
            username, password = self.username, self.password.get_secret_value() if self.password else None
        return Connect(url, username, password)


class ConnectClusters(FrozenModel):
    """Kafka Connect clusters by name, one of them the default."""

    default: str | None = None
    """The name of the cluster that is used unless another is named."""
    clusters: dict[str, ConnectCluster] = {}
    """The clusters by name."""

    @model_validator(mode="after")
    def _default_exists(self) -> Self:
        check_default(self.default, self.clusters)
        return self


class GatewaySettings(FrozenModel):
    """The gateway that serves virtual topics."""

    admin_url: str | None = Field(None, validation_alias=AliasChoices("admin_url", "url"))
    """Where its administration answers. `url` is the same field."""
    proxy_bootstrap: str | None = None
    """The `host:port` that consumers connect to."""
    username: str = "admin"
    """The user of its administration."""
    password: SecretStr = SecretStr("conduktor")
    """The password of its administration; never shown again."""
    virtual_cluster: str | None = None
    """The virtual cluster that its topics belong to; the gateway's own, `passthrough`, when left out."""

    def client(self) -> GatewayClient | None:
        if self.admin_url is None:
            return None
        password = self.password.get_secret_value()
        return GatewayClient(self.admin_url, self.username, password, self.virtual_cluster or DEFAULT_CLUSTER)


class Console(FrozenModel):
    """Conduktor's console. Nothing is asked of it."""

    url: str
    """Where it answers."""
    api_key: SecretStr | None = None
    """The key to its interface; never shown again."""


class Conduktor(FrozenModel):
    """Conduktor's products."""

    gateway: GatewaySettings | None = None
    """The gateway that serves virtual topics."""
    console: Console | None = None
    """The console."""


class Spark(FrozenModel):
    """Where and how Spark runs."""

    master: str = "local[*]"
    """The Spark master: `local[…]`, `spark://…`, `yarn`, `k8s://…`. Only `local[…]` sees embedded topics, which are
    directories of this machine."""
    config: dict[str, str | int | float | bool] = {}
    """Any Spark property; it wins over the defaults."""

    @property
    def is_local(self) -> bool:
        """Whether queries run on this machine."""
        return self.master.startswith("local")


class MlModel(FrozenModel):
    """A model of machine learning."""

    path: str = Field(min_length=1)
    """Its file, in the format ONNX. A relative path begins at the directory of the project."""


class Ml(FrozenModel):
    """Machine learning."""

    models: dict[str, MlModel] = {}
    """The models that `ML_PREDICT` and `ML_EVALUATE` ask, by name."""


class Runtime(FrozenModel):
    """The systems that the project runs on. Empty means: this machine, with directories as topics."""

    kafka: Kafka | None = None
    """The Kafka cluster."""
    schema_registry: SchemaRegistry | None = None
    """The schema registry."""
    flink: FlinkClusters | None = None
    """Flink clusters. Queries run on Spark, so it has no effect."""
    connect: ConnectClusters | None = None
    """Kafka Connect clusters."""
    conduktor: Conduktor | None = None
    """Conduktor's products."""
    spark: Spark = Spark()
    """Where and how Spark runs."""
    ml: Ml = Ml()
    """Models of machine learning."""

    def clusters(self, root: Path) -> Clusters:
        """The systems that hold topics and their schemas; `root` is where the project is."""
        if self.kafka is None:
            return EMBEDDED
        schemas = SchemaCache(self.schema_registry.registry(root)) if self.schema_registry else None
        both = Cluster(self.kafka.cluster(root, from_afar=not self.spark.is_local), schemas)
        workers = self.connect.clusters if self.connect else {}
        connect = {name: cluster.connect() for name, cluster in workers.items()}
        gateway = self.conduktor.gateway if self.conduktor else None
        return Clusters(both, both, connect, gateway.client() if gateway else None)

    @property
    def has_gateway(self) -> bool:
        return self.conduktor is not None and self.conduktor.gateway is not None
