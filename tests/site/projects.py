"""Sites to test with: a small shop that uses every field, a hostile one, and large ones."""

import random
from dataclasses import replace

from penstock.site.model import Site, SiteColumn, SiteNode, SiteNote, SiteRule, SiteTest

_ORDERS_SQL = """-- Paid orders only, with a clean country.
SELECT
    order_id,
    customer_id,
    UPPER(country) AS country,
    CAST(amount AS DECIMAL(12, 2)) AS amount,
    ordered_at
FROM {{ source("orders_raw") }}
WHERE status = 'paid' AND amount > 0
"""

_REVENUE_SQL = """SELECT
    country,
    TUMBLE_START(ordered_at, INTERVAL '1' MINUTE) AS minute,
    SUM(amount) AS revenue,
    COUNT(*) AS orders
FROM {{ ref("orders_clean") }}
GROUP BY country, TUMBLE(ordered_at, INTERVAL '1' MINUTE)
"""


def _raw(name: str, description: str, *columns: SiteColumn) -> SiteNode:
    return SiteNode(
        id=f"source.{name}",
        kind="source",
        name=name,
        label="kafka",
        description=description,
        owner="shop-platform",
        tags=("raw",),
        topic=f"shop.{name}.v1",
        origin="sources/shop.yml:3",
        columns=columns,
        facts=(("Freshness", "warn after 5 minutes, fail after 15 minutes"), ("Topic partitions", "12")),
    )


_ORDERS = "model.orders_clean"

SHOP = Site(
    name="shop-streams",
    version="1.4.0",
    description="Orders, payments and customers of the web shop as streams.\nOwned by the data platform team.",
    environment="production",
    nodes=(
        _raw(
            "orders_raw",
            "Every order as the shop writes it.",
            SiteColumn("order_id", "BIGINT", "Unique per order."),
            SiteColumn("customer_id", "BIGINT"),
            SiteColumn("country", "STRING"),
            SiteColumn("amount", "DOUBLE"),
            SiteColumn("status", "STRING", tests=("accepted_values: paid, open, refunded",)),
            SiteColumn("ordered_at", "TIMESTAMP"),
        ),
        _raw(
            "customers_raw",
            "Customers, one row per change.",
            SiteColumn("customer_id", "BIGINT"),
            SiteColumn("email", "STRING", classification="personal"),
            SiteColumn("since", "DATE"),
        ),
        replace(_raw("payments_raw", "Payments from the provider."), columns=None),
        SiteNode(
            id=_ORDERS,
            kind="model",
            name="orders_clean",
            label="stream",
            description="Paid orders, cleaned.\n\nAmounts are in euro; refunds are not part of it.",
            owner="orders-team",
            group="orders",
            access="protected",
            tags=("core", "orders"),
            topic="shop.orders_clean.v2",
            url="https://wiki.example.com/orders",
            origin="models/orders.yml:3",
            columns=(
                SiteColumn(
                    "order_id",
                    "BIGINT",
                    "Unique per order.",
                    None,
                    None,
                    ("not_null", "unique"),
                    (("source.orders_raw", "order_id"),),
                ),
                SiteColumn("customer_id", "BIGINT", origins=(("source.orders_raw", "customer_id"),)),
                SiteColumn(
                    "country",
                    "STRING",
                    "ISO code, upper case.",
                    tests=("not_null",),
                    origins=(("source.orders_raw", "country"),),
                ),
                SiteColumn(
                    "amount",
                    "DECIMAL(12,2)",
                    "In euro.",
                    tests=("positive",),
                    origins=(("source.orders_raw", "amount"),),
                ),
                SiteColumn("ordered_at", "TIMESTAMP", origins=(("source.orders_raw", "ordered_at"),)),
            ),
            sql_written=_ORDERS_SQL,
            sql_run=_ORDERS_SQL.replace('{{ source("orders_raw") }}', "`penstock_orders_raw`"),
            decided_by="no aggregation and no join: a stream",
            key=("order_id",),
            event_time="ordered_at, up to 10 seconds late",
            tests=(
                SiteTest(
                    "paid_only", "continuous", "Nothing unpaid gets through.", ("amount > 0", "country IS NOT NULL")
                ),
                SiteTest("columns", "schema", None, ("order_id BIGINT", "amount DECIMAL(12,2)")),
            ),
            rules=(
                SiteRule("models have an owner", "kept", "an owner", "orders-team"),
                SiteRule(
                    "topics have 12 partitions",
                    "waived",
                    "12",
                    "6",
                    "Will be moved with the next rebuild.",
                    "2026-12-31",
                ),
                SiteRule("keys are named", "broken", "a key", "none"),
            ),
            facts=(("Contact", "mailto:orders@example.com"),),
        ),
        SiteNode(
            id="model.customers",
            kind="model",
            name="customers",
            label="table",
            description="The current state of each customer.",
            owner="customer-team",
            tags=("core", "pii"),
            columns=(
                SiteColumn("customer_id", "BIGINT", origins=(("source.customers_raw", "customer_id"),)),
                SiteColumn(
                    "email_hash",
                    "STRING",
                    "SHA-256 of the address.",
                    "personal",
                    "hash",
                    ("not_null",),
                    (("source.customers_raw", "email"),),
                ),
            ),
            key=("customer_id",),
        ),
        SiteNode(
            id="model.revenue_by_minute",
            kind="model",
            name="revenue_by_minute",
            label="windowed aggregate",
            description="Revenue per country and minute.",
            owner="finance",
            tags=("finance",),
            columns=(
                SiteColumn("country", "STRING", origins=((_ORDERS, "country"),)),
                SiteColumn("minute", "TIMESTAMP", origins=((_ORDERS, "ordered_at"),)),
                SiteColumn("revenue", "DECIMAL(22,2)", origins=((_ORDERS, "amount"),)),
                SiteColumn("orders", "BIGINT"),
            ),
            sql_written=_REVENUE_SQL,
            sql_run=_REVENUE_SQL.replace('{{ ref("orders_clean") }}', "orders_clean"),
        ),
        SiteNode(
            id="model.orders_enriched",
            kind="model",
            name="orders_enriched_with_customer_and_payment",
            label="stream",
            owner="orders-team",
            tags=("orders",),
            columns=(
                SiteColumn("order_id", "BIGINT", origins=((_ORDERS, "order_id"),)),
                SiteColumn("amount", "DECIMAL(12,2)", origins=((_ORDERS, "amount"),)),
                SiteColumn("email_hash", "STRING", origins=(("model.customers", "email_hash"),)),
            ),
        ),
        SiteNode(id="sink.lake", kind="sink", name="lake", label="parquet", description="Files for the warehouse."),
        SiteNode(
            id="exposure.revenue_dashboard",
            kind="exposure",
            name="revenue_dashboard",
            label="dashboard",
            description="What the board looks at.",
            owner="finance",
            url="https://bi.example.com/revenue",
            tags=("finance",),
            facts=(("SLA latency p99", "30 seconds"), ("SLA availability", "99.9 %"), ("Consumer group", "bi-revenue")),
        ),
        SiteNode(
            id="exposure.fraud_service",
            kind="exposure",
            name="fraud_service",
            label="application",
            owner="risk",
            facts=(("SLA latency p99", "2 seconds"),),
        ),
        _raw("fraud_scores", "Scores that the fraud service writes back."),
        SiteNode(id="model.heartbeat", kind="model", name="heartbeat", label="stream"),
    ),
    edges=(
        ("source.orders_raw", _ORDERS),
        ("source.customers_raw", "model.customers"),
        (_ORDERS, "model.revenue_by_minute"),
        (_ORDERS, "model.orders_enriched"),
        ("model.customers", "model.orders_enriched"),
        ("source.payments_raw", "model.orders_enriched"),
        ("model.orders_enriched", "sink.lake"),
        ("model.revenue_by_minute", "exposure.revenue_dashboard"),
        ("source.orders_raw", "exposure.revenue_dashboard"),
        ("model.orders_enriched", "exposure.fraud_service"),
        ("exposure.fraud_service", "source.fraud_scores"),
        ("source.fraud_scores", "model.orders_enriched"),
    ),
    notes=(
        SiteNote(
            "warning",
            "column-unknown",
            "The columns of payments_raw are not known.",
            "sources/shop.yml:9",
            "source.payments_raw.columns",
        ),
        SiteNote("info", "no-tests", "heartbeat has no tests.", "models/heartbeat.yml:2", "model.heartbeat"),
    ),
)

HOSTILE_TEXT = "<script>window.hacked=1</script>\"'><img src=x onerror=window.hacked=1></script><b>&amp;\u2028{{ 7*7 }}"


def hostile() -> Site:
    """Every text of the site tries to run a script."""
    bad = HOSTILE_TEXT
    column = SiteColumn(bad, bad, bad, bad, bad, (bad,), (("model.a" + bad, bad), ("nowhere" + bad, bad)))
    node = SiteNode(
        id="model.a" + bad,
        kind="model",
        name="a" + bad,
        label=bad,
        description=bad,
        owner=bad,
        group=bad,
        access=bad,
        tags=(bad,),
        topic=bad,
        url="javascript:window.hacked=1",
        origin=bad,
        columns=(column,),
        sql_written=bad + " '" + bad + "' -- " + bad + "\n{{ " + bad,
        sql_run=bad,
        decided_by=bad,
        key=(bad,),
        event_time=bad,
        tests=(SiteTest(bad, "schema", bad, (bad,)),),
        rules=(SiteRule(bad, "broken", bad, bad, bad, bad),),
        facts=((bad, bad), ("SLA " + bad, bad), ("link", "JavaScript:window.hacked=1")),
    )
    exposure = replace(node, id="exposure." + bad, kind="exposure", name=bad)
    return Site(
        bad,
        bad,
        bad,
        bad,
        (node, exposure),
        ((node.id, exposure.id),),
        (SiteNote(bad, bad, bad, bad, bad), SiteNote("error", bad, bad, bad, node.id)),
    )


def large(nodes: int, edges: int, seed: int = 1) -> Site:
    """Ten layers that get thinner, most edges to the next one."""
    chance = random.Random(seed)
    layer = [min(int(chance.expovariate(0.45)), 9) for _ in range(nodes)]
    joined: set[tuple[int, int]] = set()
    while len(joined) < edges:
        start, end = chance.randrange(nodes), chance.randrange(nodes)
        if layer[start] < layer[end] and (layer[end] - layer[start] == 1 or chance.random() < 0.15):
            joined.add((start, end))
    kinds = ["source" if layer[index] == 0 else "exposure" if layer[index] >= 6 else "model" for index in range(nodes)]
    ids = [f"{kind}.element_{index}" for index, kind in enumerate(kinds)]
    return Site(
        name="large",
        nodes=tuple(
            SiteNode(
                id=ids[index],
                kind=kinds[index],  # type: ignore[arg-type]
                name=f"element_{index}",
                description=f"Number {index}.",
                tags=(f"tag_{index % 7}",),
                columns=tuple(SiteColumn(f"column_{c}", "STRING") for c in range(8)),
            )
            for index in range(nodes)
        ),
        edges=tuple((ids[start], ids[end]) for start, end in sorted(joined)),
    )
