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
from penstock.config import FrozenModel, reveal_secret
from penstock.project.flink_clusters import FlinkClusters, check_default


def _split_list(value: object) -> object:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


def _check_addresses(servers: tuple[str, ...]) -> tuple[str, ...]:
    for server in servers:
        if server.lower().startswith(("http://", "https://")):
            scheme = server.partition("//")[0]
            raise ValueError(f"`{server}` is not a broker address: write host:port, without {scheme}//")
    return servers


def _render_setting(value: str | int | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class Kafka(FrozenModel):
    """The Kafka cluster that holds the topics. Without it, topics are local directories."""

    bootstrap_servers: Annotated[
        tuple[str, ...],
        BeforeValidator(_split_list, json_schema_input_type=str | list[str]),
        AfterValidator(_check_addresses),
    ]
    """One `host:port`, several separated by commas, or a list."""
    bootstrap_servers_internal: str | None = None
    """The servers as a Spark cluster reaches them. Commands, and Spark on this machine, use `bootstrap_servers`."""
    security_protocol: str | None = None
    """`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`."""
    sasl_mechanism: str | None = None
    """`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`."""
    sasl_username: str | None = None
    """The user."""
    sasl_password: SecretStr | None = None
    """The password. It is never shown."""
    ssl_ca_location: str | None = None
    """The file with the trusted CA certificates."""
    ssl_certificate_location: str | None = None
    """The file with the client certificate."""
    ssl_key_location: str | None = None
    """The file with the key of the client certificate."""
    config: dict[str, str | int | float | bool] = {}
    """Any other setting of a Kafka client."""

    def cluster(self, root: Path, *, from_afar: bool = False) -> KafkaCluster:
        """The connection to the cluster. `from_afar` says whether Spark runs elsewhere. Relative certificate paths
        start at `root`.
        """
        files = (self.ssl_ca_location, self.ssl_certificate_location, self.ssl_key_location)
        ca, certificate, key = (None if name is None else str(root / name) for name in files)
        return KafkaCluster(
            servers=",".join(self.bootstrap_servers),
            inside=self.bootstrap_servers_internal if from_afar else None,
            protocol=self.security_protocol,
            mechanism=self.sasl_mechanism,
            username=self.sasl_username,
            password=reveal_secret(self.sasl_password or None),
            ca=ca,
            certificate=certificate,
            key=key,
            config={name: _render_setting(value) for name, value in self.config.items()},
        )


class RegistrySsl(FrozenModel):
    """TLS settings of the registry."""

    ca_location: str | None = None
    """The file with the trusted CA certificates. A relative path starts at the project directory."""


class SchemaRegistry(FrozenModel):
    """The registry that holds the schemas of topics."""

    url: Annotated[tuple[str, ...], BeforeValidator(_split_list, json_schema_input_type=str | list[str])]
    """Its address: one, several separated by commas, or a list."""
    username: str | None = Field(None, validation_alias=AliasChoices("username", "api_key"))
    """The user, for basic authentication. `api_key` is the same field."""
    password: SecretStr | None = Field(None, validation_alias=AliasChoices("password", "api_secret"))
    """The password. It is never shown. `api_secret` is the same field."""
    compatibility: str | None = None
    """The compatibility mode of the project's schemas that do not set one:
    `BACKWARD`, `FULL`, …"""
    ssl: RegistrySsl = RegistrySsl()
    """TLS settings."""

    def registry(self, root: Path) -> Registry:
        """The connection to the registry. `root` is the project directory."""
        ca = None if self.ssl.ca_location is None else str(root / self.ssl.ca_location)
        return Registry(self.url, self.username, reveal_secret(self.password or None), ca)


class ConnectCluster(FrozenModel):
    """A cluster of Kafka Connect."""

    rest_url: str
    """The address of its REST API."""
    username: str | None = None
    """The user, for basic authentication."""
    password: SecretStr | None = None
    """The password. It is never shown."""

    def connect(self) -> Connect:
        url, username, password = split_credentials(self.rest_url)
        if self.username is not None:
            username, password = self.username, reveal_secret(self.password or None)
        return Connect(url, username, password)


class ConnectClusters(FrozenModel):
    """Kafka Connect clusters by name, one of them the default."""

    default: str | None = None
    """The name of the default cluster."""
    clusters: dict[str, ConnectCluster] = {}
    """The clusters by name."""

    @model_validator(mode="after")
    def _default_exists(self) -> Self:
        check_default(self.default, self.clusters)
        return self


class GatewaySettings(FrozenModel):
    """The gateway that serves virtual topics."""

    admin_url: str | None = Field(None, validation_alias=AliasChoices("admin_url", "url"))
    """The address of its admin API. `url` is the same field."""
    proxy_bootstrap: str | None = None
    """The `host:port` that consumers connect to."""
    username: str = "admin"
    """The user of its admin API."""
    password: SecretStr = SecretStr("conduktor")
    """The password of its admin API. It is never shown."""
    virtual_cluster: str | None = None
    """The virtual cluster of its topics. Default: `passthrough`, the gateway's own."""

    def client(self) -> GatewayClient | None:
        if self.admin_url is None:
            return None
        password = self.password.get_secret_value()
        return GatewayClient(self.admin_url, self.username, password, self.virtual_cluster or DEFAULT_CLUSTER)


class Console(FrozenModel):
    """Conduktor's console. It has no effect."""

    url: str
    """Its address."""
    api_key: SecretStr | None = None
    """The API key. It is never shown."""


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
    """Spark properties. They override the defaults."""

    @property
    def is_local(self) -> bool:
        """Whether queries run on this machine."""
        return self.master.startswith("local")


class MlModel(FrozenModel):
    """A machine-learning model."""

    path: str = Field(min_length=1)
    """The ONNX file. A relative path starts at the project directory."""


class Ml(FrozenModel):
    """Machine learning."""

    models: dict[str, MlModel] = {}
    """The models for `ML_PREDICT` and `ML_EVALUATE`, by name."""


class Runtime(FrozenModel):
    """The systems that the project runs on. If it is empty, the project runs on this machine with directories as
    topics."""

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
    """Machine-learning models."""

    def clusters(self, root: Path) -> Clusters:
        """The systems that hold topics and their schemas. `root` is the project directory."""
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
