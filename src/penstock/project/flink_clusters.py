"""The `runtime.flink` section of a project. It is accepted and has no effect, because queries run on Spark."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, SecretStr, model_validator

from penstock.config import FrozenModel, Whole


class FlinkCluster(FrozenModel):
    """A Flink cluster. It has no effect, because queries run on Spark."""

    type: str = "rest"
    """What kind of cluster it is: `rest`, `docker`, `kubernetes`, `confluent`."""
    rest_url: str | None = None
    """The address of its REST API."""
    sql_gateway_url: str | None = None
    """The address of its SQL gateway."""
    version: str | None = None
    """The version of Flink."""
    environment: str | None = None
    """The environment it belongs to."""
    api_key: SecretStr | None = None
    """The API key. It is never shown."""
    api_secret: SecretStr | None = None
    """The API secret. It is never shown."""
    compute_pool_id: str | None = None
    """The pool of Confluent Cloud."""
    environment_id: str | None = None
    """The environment of Confluent Cloud."""
    network: str | None = None
    """The Docker network."""
    region: str | None = None
    """The cloud region."""
    cloud: str | None = None
    """The cloud provider."""
    organization_id: str | None = None
    """The organization of Confluent Cloud."""
    namespace: str | None = None
    """The namespace of Kubernetes."""
    service_account: str | None = None
    """The service account of Kubernetes."""
    image: str | None = None
    """The image that Kubernetes runs."""
    image_pull_policy: str | None = None
    """When Kubernetes fetches the image."""
    image_pull_secrets: tuple[str, ...] = ()
    """The names of the secrets for fetching the image."""
    pod_template: dict[str, Any] = {}
    """The pod template for Kubernetes."""


class FlinkClusters(FrozenModel):
    """Flink clusters by name, one of them the default."""

    default: str | None = None
    """The name of the default cluster."""
    default_parallelism: Whole | None = Field(None, ge=1)
    """The default parallelism of a Flink job."""
    clusters: dict[str, FlinkCluster] = {}
    """The clusters by name."""

    @model_validator(mode="after")
    def _default_exists(self) -> Self:
        check_default(self.default, self.clusters)
        return self


def check_default(default: str | None, clusters: Mapping[str, object]) -> None:
    """Refuse a default that is not one of the clusters."""
    if default is not None and clusters and default not in clusters:
        raise ValueError(f"`default` names `{default}`, but the clusters are: {', '.join(clusters)}")
