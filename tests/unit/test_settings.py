"""Settings of pipelines in the environment."""

import pytest

from penstock.clients.clickhouse.server import ClickHouse, ClickHouseSink
from penstock.errors import ProjectInvalid
from penstock.project.settings import pipeline_clusters


def test_without_a_word_kafka_is_on_this_machine() -> None:
    clusters = pipeline_clusters({}, on_kafka=True)
    assert clusters.source is not None
    assert clusters.sink is not None
    for cluster in (clusters.source, clusters.sink):
        assert (cluster.kafka.servers, cluster.kafka.security, cluster.group) == ("localhost:9092", "PLAINTEXT", None)
        assert cluster.schemas is not None
        assert list(cluster.schemas.registry.urls) == ["http://localhost:18081"]


def test_sources_and_sinks_have_their_own_and_our_prefix_wins() -> None:
    environ = {
        "STREAMLING__KAFKA_SOURCE__BROKERS": "theirs:1",
        "PENSTOCK__KAFKA_SOURCE__BROKERS": "ours:1",
        "STREAMLING__KAFKA_SINK__BROKERS": "sink:1",
        "STREAMLING__KAFKA_SINK__SECURITY_PROTOCOL": "sasl_ssl",
        "STREAMLING__KAFKA_SINK__SASL_MECHANISM": "SCRAM-SHA-512",
        "STREAMLING__KAFKA_SINK__SASL_USERNAME": "ada",
        "STREAMLING__KAFKA_SINK__SASL_PASSWORD": "secret",
        "PENSTOCK__KAFKA_SOURCE__CONSUMER_GROUP_ID": "readers",
        "PENSTOCK__KAFKA_SOURCE__CLIENT_ID": "",
    }
    clusters = pipeline_clusters(environ, on_kafka=True)
    assert clusters.source is not None
    assert clusters.sink is not None
    assert (clusters.source.kafka.servers, clusters.source.group) == ("ours:1", "readers")
    options = clusters.sink.kafka.for_spark()
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert 'ScramLoginModule required username="ada" password="secret";' in options["kafka.sasl.jaas.config"]
    assert "secret" not in repr(clusters)


def test_clickhouse_is_on_this_machine_unless_it_is_said_otherwise() -> None:
    assert pipeline_clusters({}).clickhouse_sink == ClickHouseSink(ClickHouse("http://localhost:8123"))
    environ = {
        "STREAMLING__CLICKHOUSE_SINK__URL": "https://theirs:8443",
        "PENSTOCK__CLICKHOUSE_SINK__URL": "https://ours:8443",
        "STREAMLING__CLICKHOUSE_SINK__USER": "ada",
        "STREAMLING__CLICKHOUSE_SINK__PASSWORD": "secret",
        "STREAMLING__CLICKHOUSE_SINK__DATABASE": "shop",
        "STREAMLING__CLICKHOUSE_SINK__COMPRESSION": "gzip",
        "STREAMLING__CLICKHOUSE_SINK__COMPRESSION_LEVEL": "0",
        "STREAMLING__CLICKHOUSE_SINK__BATCH_SIZE": "500",
    }
    found = pipeline_clusters(environ).clickhouse_sink
    assert found == ClickHouseSink(ClickHouse("https://ours:8443", "ada", "secret", "shop"), "gzip", 0, 500)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(("word", "value"), [("COMPRESSION", "rar"), ("COMPRESSION_LEVEL", "10"), ("BATCH_SIZE", "0")])
def test_a_setting_of_clickhouse_that_cannot_be_used_is_named(word: str, value: str) -> None:
    with pytest.raises(ProjectInvalid) as caught:
        pipeline_clusters({f"PENSTOCK__CLICKHOUSE_SINK__{word}": value})
    (found,) = caught.value.diagnostics
    assert (found.code, found.path) == ("invalid-value", f"PENSTOCK__CLICKHOUSE_SINK__{word}")
