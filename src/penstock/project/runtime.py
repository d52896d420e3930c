"""The `runtime` section of a project: the systems that it runs on."""

from typing import Annotated

from pydantic import BeforeValidator, SecretStr

from penstock.config import Frozen


def _one_or_many(value: object) -> object:
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


class Kafka(Frozen):
    """The Kafka cluster that holds the topics. Without it, topics are directories."""

    bootstrap_servers: Annotated[tuple[str, ...], BeforeValidator(_one_or_many, json_schema_input_type=str | list[str])]
    """One `host:port`, several separated by commas, or a list."""
    bootstrap_servers_internal: str | None = None
    """The servers as jobs inside the cluster reach them."""
    security_protocol: str | None = None
    """`PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`."""
    sasl_mechanism: str | None = None
    """`PLAIN`, `SCRAM-SHA-256` or `SCRAM-SHA-512`."""
    sasl_username: str | None = None
    """The user."""
    sasl_password: SecretStr | None = None
    """The password; never shown again."""
    config: dict[str, str | int | float | bool] = {}
    """Any other setting of a Kafka client."""


class SchemaRegistry(Frozen):
    """The registry that holds the schemas of topics."""

    url: str
    """Where it answers."""
    username: str | None = None
    """The user, for basic authentication."""
    password: SecretStr | None = None
    """The password; never shown again."""


class Cluster(Frozen):
    """One named cluster of an outside system."""

    type: str = "rest"
    """What kind of cluster it is."""
    rest_url: str | None = None
    """Where its REST interface answers."""
    sql_gateway_url: str | None = None
    """Where its SQL gateway answers."""
    version: str | None = None
    """The version it runs."""
    environment: str | None = None
    """The environment it belongs to."""
    api_key: SecretStr | None = None
    """The key to its interface; never shown again."""


class Clusters(Frozen):
    """Named clusters, one of them the default."""

    default: str | None = None
    """The name of the cluster that is used unless another is named."""
    clusters: dict[str, Cluster] = {}
    """The clusters by name."""


class Gateway(Frozen):
    """The gateway that serves virtual topics."""

    admin_url: str | None = None
    """Where its administration answers."""
    proxy_bootstrap: str | None = None
    """The `host:port` that consumers connect to."""
    username: str = "admin"
    """The user of its administration."""
    password: SecretStr = SecretStr("conduktor")
    """The password of its administration; never shown again."""
    virtual_cluster: str | None = None
    """The virtual cluster that its topics belong to."""


class Conduktor(Frozen):
    """Conduktor's products."""

    gateway: Gateway | None = None
    """The gateway that serves virtual topics."""


class Spark(Frozen):
    """Where and how Spark runs."""

    master: str = "local[*]"
    """The Spark master. Embedded topics are directories of this machine, so it must be `local[…]`."""
    config: dict[str, str | int | float | bool] = {}
    """Any Spark property; it wins over the defaults."""


class Runtime(Frozen):
    """The systems that the project runs on. Empty means: this machine, with directories as topics."""

    kafka: Kafka | None = None
    """The Kafka cluster."""
    schema_registry: SchemaRegistry | None = None
    """The schema registry."""
    flink: Clusters | None = None
    """Flink clusters. Queries run on Spark; the section is read and checked by `doctor`."""
    connect: Clusters | None = None
    """Kafka Connect clusters."""
    conduktor: Conduktor | None = None
    """Conduktor's products."""
    spark: Spark = Spark()
    """Where and how Spark runs."""

    @property
    def has_gateway(self) -> bool:
        return self.conduktor is not None and self.conduktor.gateway is not None
