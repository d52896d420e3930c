"""Settings of pipelines in the environment."""

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
