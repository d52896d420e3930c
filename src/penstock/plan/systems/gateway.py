"""Plans the virtual topics of a gateway."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.clients.clusters import Clusters
from penstock.clients.conduktor import GatewayInterceptor, GatewayState
from penstock.clients.registry.client import Registry
from penstock.errors import Diagnostic
from penstock.manifest.model import Manifest
from penstock.manifest.resources import GatewayRule
from penstock.plan.steps import ChangeVirtualTopic, CreateVirtualTopic, DeleteVirtualTopic, VirtualTopicStep
from penstock.project.yaml.secrets import COVER

_SELECT_PLUGIN: Final = "io.conduktor.gateway.interceptor.VirtualSqlTopicPlugin"
_MASK_PLUGIN: Final = "io.conduktor.gateway.interceptor.FieldLevelDataMaskingPlugin"
_SELECT_PRIORITY: Final = 100
_MASK_PRIORITY: Final = 200
"""Masks run after the SQL: they apply to the field names that consumers see."""


@dataclass(frozen=True, slots=True)
class Gateways:
    """The contents of a gateway, by virtual cluster, and its objections to wanted virtual topics. `there` is None
    without a gateway. `cluster` is the virtual cluster of the project, `wanted` are the interceptors of each virtual
    topic; they may hold the password of the registry."""

    cluster: str = ""
    there: Mapping[str, GatewayState] | None = None
    problems: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    wanted: Mapping[str, Mapping[str, GatewayInterceptor]] = field(default_factory=dict, repr=False)
    has_registry: bool = False


NO_GATEWAY: Final = Gateways()


def ask_gateway(manifest: Manifest, clusters: Clusters, deployed: Mapping[str, str]) -> Gateways:
    """Ask the gateway about the virtual topics of the project. `deployed` are those that it created before."""
    gateway = clusters.gateway
    if gateway is None or not (manifest.gateway_rules or deployed):
        return NO_GATEWAY
    there = {name: gateway.read_state(name) for name in sorted({gateway.cluster, *deployed.values()})}
    registry = registry_of(clusters)
    wanted = {rule.virtual_topic: interceptors(rule, registry) for rule in manifest.gateway_rules}
    problems = {}
    for rule in manifest.gateway_rules:
        if _is_served(rule, wanted[rule.virtual_topic], there[gateway.cluster]):
            continue
        said = gateway.problems(rule.virtual_topic, rule.physical_topic, wanted[rule.virtual_topic])
        problems[rule.virtual_topic] = tuple(_mask_password(text, registry) for text in said)
    return Gateways(gateway.cluster, there, problems, wanted, registry is not None)


def _is_served(rule: GatewayRule, wanted: Mapping[str, GatewayInterceptor], there: GatewayState) -> bool:
    """Whether a virtual topic is up to date, so that no request is needed."""
    has_topic = there.aliases.get(rule.virtual_topic) == rule.physical_topic
    return has_topic and _existing_interceptors(rule, there) == wanted


def _existing_interceptors(rule: GatewayRule, there: GatewayState) -> dict[str, GatewayInterceptor]:
    """The interceptors of a virtual topic that the gateway has."""
    names = own_interceptors(rule.virtual_topic)
    return {name: there.interceptors[name] for name in names if name in there.interceptors}


def registry_of(clusters: Clusters) -> Registry | None:
    book = clusters.source.schemas if clusters.source is not None else None
    return book.registry if book is not None else None


def _mask_password(text: str, registry: Registry | None) -> str:
    secret = registry.password if registry is not None else None
    return text.replace(secret, COVER) if secret else text


def own_interceptors(virtual_topic: str) -> tuple[str, str]:
    """The names of a virtual topic's interceptors, in their order."""
    return f"{virtual_topic}-select", f"{virtual_topic}-mask"


def interceptors(rule: GatewayRule, registry: Registry | None) -> dict[str, GatewayInterceptor]:
    """The interceptors of a virtual topic by name, as they are sent."""
    schema = _schema_settings(registry) if rule.with_schema and registry is not None else {}
    select, mask = own_interceptors(rule.virtual_topic)
    found: dict[str, GatewayInterceptor] = {}
    if (statement := _statement(rule)) is not None:
        config = {"virtualTopic": rule.virtual_topic, "statement": statement, **schema}
        found[select] = GatewayInterceptor(_SELECT_PLUGIN, _SELECT_PRIORITY, config)
    fields = [str(i.config["field"]) for i in rule.interceptors if i.type == "mask"]
    if fields:
        policies = [{"name": f"mask {name}", "fields": [name], "rule": {"type": "MASK_ALL"}} for name in fields]
        topic = "^" + rule.virtual_topic.replace(".", r"\.") + "$"
        found[mask] = GatewayInterceptor(_MASK_PLUGIN, _MASK_PRIORITY, {"topic": topic, "policies": policies, **schema})
    return found


def _statement(rule: GatewayRule) -> str | None:
    for interceptor in rule.interceptors:
        if interceptor.type == "sql":
            return str(interceptor.config["statement"])
        if interceptor.type == "filter":
            return f'SELECT * FROM "{rule.physical_topic}" WHERE {interceptor.config["where"]}'
    return None


def _schema_settings(registry: Registry) -> dict[str, Any]:
    settings: dict[str, Any] = {"host": registry.urls[0]}
    if registry.username is not None:
        user = f"{registry.username}:{registry.password or ''}"
        settings["additionalConfigs"] = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": user}
    return {"schemaRegistryConfig": settings}


def virtual_topic_steps(
    manifest: Manifest, deployed: Mapping[str, str], gateways: Gateways
) -> Iterator[VirtualTopicStep]:
    """The steps from the gateway's contents to the project. Only virtual topics that the project created are deleted.
    Deletions come first: a virtual topic that moves to another virtual cluster is deleted in the old one, then created
    in the new one."""
    present = {rule.virtual_topic for rule in manifest.gateway_rules}
    for name, cluster in deployed.items():
        if name not in present or (gateways.there is not None and cluster != gateways.cluster):
            yield DeleteVirtualTopic(name, cluster, left=gateways.there is None)
    if gateways.there is None:
        return
    there = gateways.there[gateways.cluster]
    for rule in manifest.gateway_rules:
        wanted = gateways.wanted[rule.virtual_topic]
        has = _existing_interceptors(rule, there)
        if rule.virtual_topic not in there.aliases and not has:
            yield CreateVirtualTopic(rule, gateways.cluster)
            continue
        changes = [*_describe_move(rule, there.aliases.get(rule.virtual_topic)), *_changes(has, wanted)]
        if not changes and deployed.get(rule.virtual_topic) != gateways.cluster:
            changes = ["it exists already, and this project takes it over"]
        if changes:
            yield ChangeVirtualTopic(rule, gateways.cluster, ", ".join(changes))


def _describe_move(rule: GatewayRule, before: str | None) -> Iterator[str]:
    if before is None:
        yield "the topic is gone"
    elif before != rule.physical_topic:
        yield f"a view of `{before}` -> `{rule.physical_topic}`"


def _changes(has: Mapping[str, GatewayInterceptor], wanted: Mapping[str, GatewayInterceptor]) -> Iterator[str]:
    """The differences by interceptor. Settings that may hold a password are not shown."""
    for name in sorted({*has, *wanted}):
        old, new = has.get(name), wanted.get(name)
        if old == new:
            continue
        before, after = _describe_interceptor(old), _describe_interceptor(new)
        yield f"{before} -> {after}" if before != after else f"settings of {name} changed"


def _describe_interceptor(interceptor: GatewayInterceptor | None) -> str:
    if interceptor is None:
        return "none"
    if "statement" in interceptor.config:
        return f"`{interceptor.config['statement']}`"
    policies = interceptor.config.get("policies")
    listed = policies if isinstance(policies, list) else []
    fields = [str(name) for policy in listed if isinstance(policy, dict) for name in policy.get("fields") or ()]
    return f"mask of {', '.join(fields)}" if fields else "another interceptor"


def virtual_topic_refusals(manifest: Manifest, gateways: Gateways) -> Iterator[Diagnostic]:
    for rule in manifest.gateway_rules:
        params = {"topic": rule.virtual_topic}
        if gateways.there is None:
            text = f"`{rule.name}` is a virtual topic, and no gateway is configured"
            hint = "set `runtime.kafka` and `runtime.conduktor.gateway.admin_url`; or write `materialized: topic`"
            yield Diagnostic("not-runnable-here", text, hint=hint, params=params)
        elif rule.with_schema and rule.interceptors and not gateways.has_registry:
            text = f"`{rule.name}` is a virtual topic of records with a schema, and there is no registry"
            yield Diagnostic("not-runnable-here", text, hint="set `runtime.schema_registry`", params=params)
        for problem in gateways.problems.get(rule.virtual_topic, ()):
            text = f"the gateway rejects `{rule.virtual_topic}`: {problem}"
            yield Diagnostic("gateway-refused", text, params=params)
