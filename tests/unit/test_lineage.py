import json
from pathlib import Path

import pytest

from penstock.cli import compile as compile_command
from penstock.cli import lineage as lineage_command
from penstock.graph import lineage
from penstock.graph.graph import Graph
from penstock.site.describe import describe
from penstock.workflow.stages import check, compile_project
from tests.support import plain, write
from tests.unit.conftest import MAIN, Link

SHOP = """
    project: {name: shop}
    sources: [{name: orders_raw, topic: a}, {name: customers, topic: b}]
    models:
      - {name: orders_clean, materialized: topic, sql: 'SELECT a.x FROM {{ source("orders_raw") }} a
          JOIN {{ source("customers") }} b ON a.x = b.x'}
      - {name: order_metrics, materialized: flink, sql: 'SELECT x FROM {{ ref("orders_clean") }}'}
      - {name: orders_snowflake, from: orders_clean, advanced: {connector: {type: snowflake}}}
    exposures:
      - {name: ops_dashboard, type: dashboard, consumes: [order_metrics]}
      - {name: billing_service, type: application, consumes: [orders_clean]}
"""


@pytest.fixture
def shop(project_graph: Link) -> Graph:
    return project_graph(SHOP)


def test_the_whole_graph_is_one_tree_a_root_with_repeats_cut_short(shop: Graph) -> None:
    assert lineage.render_tree(shop, list(shop.nodes)) + "\n" == plain("""
        orders_raw (source)
        └── orders_clean (topic)
            ├── order_metrics (spark)
            │   └── ops_dashboard (exposure)
            ├── orders_snowflake (sink)
            └── billing_service (exposure)

        customers (source)
        └── orders_clean (topic)
            └── ...
    """)


def test_upstream_of_a_model_ends_at_it(shop: Graph) -> None:
    focus = "model.order_metrics"
    chosen = lineage.select_nodes(shop, focus, upstream=True, downstream=False)
    assert chosen == ["source.orders_raw", "source.customers", "model.orders_clean", focus]
    assert lineage.render_tree(shop, chosen, focus).splitlines()[:3] == [
        "orders_raw (source)",
        "└── orders_clean (topic)",
        "    └── order_metrics (spark) ← YOU ARE HERE",
    ]


def test_downstream_of_a_model_begins_with_it(shop: Graph) -> None:
    focus = "model.orders_clean"
    chosen = lineage.select_nodes(shop, focus, upstream=False, downstream=True)
    assert lineage.render_tree(shop, chosen, focus) + "\n" == plain("""
        orders_clean (topic) ← YOU ARE HERE
        ├── order_metrics (spark)
        │   └── ops_dashboard (exposure)
        ├── orders_snowflake (sink)
        └── billing_service (exposure)
    """)


@pytest.mark.parametrize("both", [True, False])
def test_without_a_direction_both_are_shown(shop: Graph, both: bool) -> None:
    chosen = lineage.select_nodes(shop, "model.order_metrics", upstream=both, downstream=both)
    assert "source.customers" in chosen
    assert "exposure.ops_dashboard" in chosen
    assert "model.orders_snowflake" not in chosen


def test_impact_counts_models_and_exposures(shop: Graph) -> None:
    assert lineage.describe_impact(shop, "model.orders_clean").splitlines()[1:] == [
        "- 2 models: order_metrics, orders_snowflake",
        "- 2 exposures: ops_dashboard, billing_service",
    ]
    assert lineage.describe_impact(shop, "model.order_metrics").splitlines()[1:] == ["- 1 exposure: ops_dashboard"]
    assert "nothing else" in lineage.describe_impact(shop, "exposure.ops_dashboard")


def test_mermaid_says_sink_for_a_sink(shop: Graph) -> None:
    lines = lineage.render_mermaid(shop, list(shop.nodes)).splitlines()
    assert lines[0] == "graph LR"
    assert "    sink_orders_snowflake[orders_snowflake]" in lines
    assert "    model_orders_clean --> sink_orders_snowflake" in lines


def test_mermaid_keeps_names_apart_that_look_alike(project_graph: Link) -> None:
    graph = project_graph("""
        project: {name: p}
        sources: [{name: a.b, topic: one}, {name: a_b, topic: two}, {name: a-b, topic: three}]
    """)
    ids = [line.strip().partition("[")[0] for line in lineage.render_mermaid(graph, list(graph.nodes)).splitlines()[1:]]
    assert len(set(ids)) == 3


def test_a_node_is_found_by_id_or_name_models_first(project_graph: Link) -> None:
    graph = project_graph("""
        project: {name: p}
        sources: [{name: orders, topic: t}]
        models: [{name: orders, sql: 'SELECT x FROM {{ source("orders") }}'}]
    """)
    assert [n and n.id for n in map(graph.find_node, ["orders", "source.orders", "nobody"])] == [
        "model.orders",
        "source.orders",
        None,
    ]


def test_a_producer_and_its_source_form_no_endless_tree(project_graph: Link) -> None:
    graph = project_graph("""
        project: {name: p}
        sources: [{name: s, topic: t}]
        exposures: [{name: app, type: application, role: both, consumes: [{source: s}], produces: [{source: s}]}]
    """)
    assert lineage.render_tree(graph, list(graph.nodes)).splitlines()[:2] == ["s (source)", "└── app (exposure)"]


CHANGES = """
project: {name: shop}
sources: [{name: orders, topic: a, columns: [{name: id, type: BIGINT}, {name: customer, type: STRING}]}]
models:
  - {name: totals, sql: 'SELECT customer, COUNT(*) AS n FROM {{ source("orders") }} GROUP BY customer'}
  - {name: large, sql: 'SELECT customer FROM {{ ref("totals") }} WHERE n > 1'}
  - {name: plain, sql: 'SELECT id FROM {{ source("orders") }}'}
"""


def test_changes_are_told_with_their_key(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {MAIN: CHANGES})
    lineage_command.command()
    assert capsys.readouterr().out == plain("""
        orders (source)
        ├── totals (spark, changes by customer)
        │   └── large (topic, changes by customer)
        └── plain (topic)
    """)
    lineage_command.command(form=lineage_command.LineageFormat.JSON)
    nodes = json.loads(capsys.readouterr().out)["nodes"]
    assert [n["changes_by"] for n in nodes] == [None, ["customer"], ["customer"], None]
    compile_command.command(dry_run=True)
    lines = capsys.readouterr().out.splitlines()
    assert "  - totals (spark: the SQL keeps state: GROUP BY without a window; changes by customer)" in lines
    assert "  - plain (topic: the SQL keeps no state)" in lines
    checked = check(tmp_path)
    site = describe(checked.graph, compile_project(checked), checked.notes, None)
    told = {node.name: dict(node.facts).get("Rows") for node in site.nodes}
    assert told == {"orders": None, "totals": "changes by customer", "large": "changes by customer", "plain": None}
