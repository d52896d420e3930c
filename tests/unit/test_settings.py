"""Settings of the application: from files and from the environment, and what becomes of them."""

from pathlib import Path
from typing import Any

import pytest

from penstock.cli.options import target
from penstock.clients.clickhouse import settings_server as clickhouse_server
from penstock.clients.clickhouse.client import ClickHouse, ClickHouseSinkServer, ClickHouseSourceServer
from penstock.clients.http.auth import split_credentials
from penstock.clients.postgres import settings_server as postgres_server
from penstock.connectors.print import PrintSink
from penstock.connectors.webhook import WebhookSink
from penstock.errors import ProjectInvalid, ServiceError, Severity
from penstock.manifest.model import Every
from penstock.project.application_settings import INERT, ineffective_settings, settings_from
from penstock.project.clusters import pipeline_clusters
from penstock.settings import Settings
from penstock.workflow.stages import Target, check, compile_project
from tests.support import only, spot
from tests.unit.conftest import PIPELINE, Check, Findings


def test_without_a_word_kafka_is_on_this_machine() -> None:
    clusters = pipeline_clusters(settings_from({}), on_kafka=True)
    assert clusters.source is not None
    assert clusters.sink is not None
    for cluster in (clusters.source, clusters.sink):
        assert (cluster.kafka.servers, cluster.kafka.security, cluster.group) == ("localhost:9092", "PLAINTEXT", None)
        assert cluster.schemas is not None
        assert list(cluster.schemas.registry.urls) == ["http://localhost:18081"]


def test_what_is_kept_goes_to_the_kafka_that_is_read_unless_another_is_written_or_named() -> None:
    def kept_at(environ: dict[str, str], *, on_kafka: bool = True, writes_kafka: bool = False) -> str | None:
        clusters = pipeline_clusters(settings_from(environ), on_kafka=on_kafka, writes_kafka=writes_kafka)
        return None if clusters.sink is None else clusters.sink.kafka.servers

    read, named = {"PENSTOCK__KAFKA_SOURCE__BROKERS": "read:1"}, {"PENSTOCK__KAFKA_SINK__BROKERS": "named:1"}
    assert kept_at(read) == "read:1"
    assert kept_at({**read, "PENSTOCK__KAFKA_SINK__CLIENT_ID": "me"}) == "read:1"
    assert kept_at({**read, **named}) == "named:1"
    assert kept_at(read, writes_kafka=True) == "localhost:9092"
    assert kept_at({**read, **named}, on_kafka=False) is None


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
    clusters = pipeline_clusters(settings_from(environ), on_kafka=True)
    assert clusters.source is not None
    assert clusters.sink is not None
    assert (clusters.source.kafka.servers, clusters.source.group) == ("ours:1", "readers")
    options = clusters.sink.kafka.spark_options()
    assert options["kafka.security.protocol"] == "SASL_SSL"
    assert options["kafka.sasl.mechanism"] == "SCRAM-SHA-512"
    assert 'ScramLoginModule required username="ada" password="secret";' in options["kafka.sasl.jaas.config"]
    assert "secret" not in repr(clusters)


def test_settings_come_from_the_environment() -> None:
    settings = settings_from({"PENSTOCK__PRINT_SINK__SAMPLE_EVERY": "10", "STREAMLING__UNKNOWN": "x", "HOME": "/"})
    assert settings.print_sink.sample_every == 10
    assert settings.pipeline_definition_location == "./pipeline.yaml"


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("PENSTOCK__PRINT_SINK__SAMPLE_EVRY", "2", "unknown-field"),
        ("PENSTOCK__PRINT_SINK__SAMPLE_EVERY", "often", "invalid-value"),
        ("PENSTOCK__PRINT_SINK__SAMPLE_EVERY", "0", "invalid-value"),
        ("STREAMLING__POSTGRES_SINK__SSLMODE", "bogus", "invalid-value"),
        ("PENSTOCK__STATE_BACKEND__POSTGRES__SSLMODE", "bogus", "invalid-value"),
        ("STREAMLING__KAFKA_SOURCE__SECURITY_PROTOCOL", "bogus", "invalid-value"),
        ("STREAMLING__KAFKA_SINK__SASL_MECHANISM", "bogus", "invalid-value"),
    ],
)
def test_a_setting_that_means_nothing_is_refused_by_its_name(name: str, value: str, code: str) -> None:
    with pytest.raises(ProjectInvalid) as refused:
        settings_from({name: value})
    (found,) = refused.value.diagnostics
    assert (found.code, found.path) == (code, name)


def test_words_of_kafka_are_taken_in_either_case() -> None:
    environ = {
        "PENSTOCK__KAFKA_SOURCE__SECURITY_PROTOCOL": "SASL_SSL",
        "PENSTOCK__KAFKA_SOURCE__SASL_MECHANISM": "scram-sha-256",
    }
    found = settings_from(environ).kafka_source
    assert (found.security_protocol, found.sasl_mechanism) == ("sasl_ssl", "SCRAM-SHA-256")


def test_our_prefix_is_stronger_than_the_other_one() -> None:
    weak = {"STREAMLING__PIPELINE_DEFINITION_LOCATION": "weak.yml", "STREAMLING__PRINT_SINK__SAMPLE_EVERY": "2"}
    assert settings_from(weak).pipeline_definition_location == "weak.yml"
    both = settings_from({**weak, "PENSTOCK__PIPELINE_DEFINITION_LOCATION": "strong.yml"})
    assert both.pipeline_definition_location == "strong.yml"
    assert both.print_sink.sample_every == 2


def test_settings_of_requests_and_their_secrets() -> None:
    environ = {
        "STREAMLING__EXTERNAL_HTTP_HANDLER__TRIGGER_MAX_COUNT": "10",
        "PENSTOCK__HTTP_SECRET_HEADER__PARTNER_A": "X-Key",
        "PENSTOCK__HTTP_SECRET_VALUE__PARTNER_A": "hunter22",
        "PENSTOCK__KAFKA_SOURCE__BROKERS": "b:1",
    }
    settings = settings_from(environ)
    assert settings.external_http_handler.trigger_max_count == 10
    assert settings.http_secret_header == {"partner_a": "X-Key"}
    assert settings.http_secret_value["partner_a"].get_secret_value() == "hunter22"
    assert "hunter22" not in repr(settings) + settings.model_dump_json()


def test_secrets_of_requests_are_found_by_their_names_in_either_case() -> None:
    file = {"http_secret_header": {"PARTNER_A": "X-Key"}, "http_secret_value": {"Partner_A": "weaker"}}
    settings = settings_from({"PENSTOCK__HTTP_SECRET_VALUE__PARTNER_A": "hunter22"}, file)
    sink = WebhookSink.model_validate({"from": "a", "url": "http://partner", "secret_name": "partner_A"})
    assert list(sink.remarks(settings)) == []
    assert sink.with_settings(settings, "out")._endpoint().headers["X-Key"] == "hunter22"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("X-Key", "hunter22\n", []),
        (" X-Key\n", "hunter22", []),
        ("X-Key", " \n", ["the environment variable `PENSTOCK__HTTP_SECRET_VALUE__K` is not set"]),
        ("X-Key", "hunter\n22", ["the header `X-Key` cannot be sent"]),
        ("X-Key", "hunter\u20ac22", ["the header `X-Key` cannot be sent"]),
        ("X Key", "hunter22", ["the header `X Key` cannot be sent"]),
        ("Content-Length", "hunter22", ["the header `Content-Length` is set by the sink itself"]),
    ],
)
def test_a_secret_that_cannot_be_sent_is_told_without_showing_it(name: str, value: str, said: list[str]) -> None:
    settings = settings_from({"PENSTOCK__HTTP_SECRET_HEADER__K": name, "PENSTOCK__HTTP_SECRET_VALUE__K": value})
    sink = WebhookSink.model_validate({"from": "a", "url": "http://partner", "secret_name": "K"})
    remarks = list(sink.remarks(settings))
    assert [remark.text for remark in remarks] == said
    assert "hunter" not in repr(remarks)
    if not said:
        assert sink.with_settings(settings, "out")._endpoint().headers["X-Key"] == "hunter22"


@pytest.mark.parametrize(
    ("url", "username", "password"),
    [
        ("http://host:1/path?a=b@c", None, None),
        ("http://me@host:1", "me", ""),
        ("https://me:hunter%4022@host", "me", "hunter@22"),
        ("https://me:hun:ter@@[::1]:1/x", "me", "hun:ter@"),
    ],
)
def test_names_and_passwords_in_addresses_are_taken_out(url: str, username: str | None, password: str | None) -> None:
    found = split_credentials(url)
    assert (found.username, found.password) == (username, password)
    assert found.url == (url if username is None else url.replace(url.split("//")[1].rpartition("@")[0] + "@", ""))


def test_services_are_asked_as_whom_their_addresses_say_and_messages_do_not_show_it() -> None:
    secret = "http://me:hunter22@127.0.0.1:1"
    environ = {
        "PENSTOCK__CLICKHOUSE_SOURCE__URL": secret,
        "PENSTOCK__CLICKHOUSE_SINK__URL": secret,
        "PENSTOCK__KAFKA_SOURCE__SCHEMA_REGISTRY_URL": secret,
    }
    found = pipeline_clusters(settings_from(environ), on_kafka=True)
    assert found.source is not None
    assert found.source.schemas is not None
    settings = settings_from(environ)
    for server in (clickhouse_server.source_server(settings).server, clickhouse_server.sink_server(settings).server):
        assert (server.url, server.user, server.password) == ("http://127.0.0.1:1", "me", "hunter22")
        with pytest.raises(ServiceError, match=r"ClickHouse at http://127\.0\.0\.1:1 does not answer"):
            server.ask("SELECT 1")
    with pytest.raises(ServiceError, match=r"http://127\.0\.0\.1:1 does not answer") as silent:
        found.source.schemas.registry.rows("s")
    assert silent.value.hint == "see `PENSTOCK__KAFKA_SOURCE__SCHEMA_REGISTRY_URL`"


def test_a_level_that_is_also_a_value_does_not_stop_the_rest() -> None:
    settings = settings_from({"STREAMLING__PRINT_SINK": "x", "PENSTOCK__PRINT_SINK__SAMPLE_EVERY": "3"})
    assert settings.print_sink.sample_every == 3


def test_the_nearest_name_is_shown_for_a_setting_that_is_not_there() -> None:
    with pytest.raises(ProjectInvalid) as refused:
        settings_from({"PENSTOCK__KAFKA_SINK__BROKER": "b:1", "PENSTOCK__JOB_MOD": "true"})
    hints = {found.path: found.hint for found in refused.value.diagnostics}
    assert hints == {
        "PENSTOCK__KAFKA_SINK__BROKER": "did you mean `brokers`?",
        "PENSTOCK__JOB_MOD": "did you mean `job_mode`?",
    }


def test_a_wrong_value_is_blamed_on_the_variable_that_has_it() -> None:
    with pytest.raises(ProjectInvalid) as refused:
        settings_from({"STREAMLING__CLICKHOUSE_SINK__BATCH_FLUSH_INTERVAL": "often"})
    (found,) = refused.value.diagnostics
    assert found.path == "STREAMLING__CLICKHOUSE_SINK__BATCH_FLUSH_INTERVAL"
    assert "invalid batch_flush_interval 'often'" in found.message


def test_the_environment_is_stronger_than_the_file() -> None:
    file = {
        "print_sink": {"sample_every": 1},
        "application_id": "file",
        "job_mode": True,
        "kafka_sink": {"brokers": "f"},
    }
    environ = {
        "STREAMLING__PRINT_SINK__SAMPLE_EVERY": "2",
        "PENSTOCK__PRINT_SINK__SAMPLE_EVERY": "3",
        "STREAMLING__APPLICATION_ID": "theirs",
        "PENSTOCK__KAFKA_SINK__CLIENT_ID": "me",
        "PENSTOCK__JOB_MODE": "",
    }
    settings = settings_from(environ, file)
    assert (settings.print_sink.sample_every, settings.application_id, settings.job_mode) == (3, "theirs", True)
    assert (settings.kafka_sink.brokers, settings.kafka_sink.client_id) == ("f", "me")


def test_secrets_are_not_shown() -> None:
    environ = {
        "PENSTOCK__KAFKA_SOURCE__SASL_PASSWORD": "hunter22",
        "PENSTOCK__POSTGRES_SINK__PASS": "hunter22",
        "PENSTOCK__POSTGRES_SINK_CONNECTIONS__OUT__PASS": "hunter22",
        "PENSTOCK__STATE_BACKEND__POSTGRES__PASSWORD": "hunter22",
        "PENSTOCK__PLUGIN__MINE__TOKEN": "hunter22",
    }
    assert "hunter22" not in repr(settings_from(environ))


def test_a_sink_has_a_database_of_its_own_by_its_name() -> None:
    environ = {
        "STREAMLING__POSTGRES_SINK__HOST": "all",
        "STREAMLING__POSTGRES_SINK__USER": "ada",
        "PENSTOCK__POSTGRES_SINK_CONNECTIONS__MY_SINK__HOST": "mine",
        "STREAMLING__POSTGRES_SINK_CONNECTIONS__A__B__PORT": "6000",
        "STREAMLING__POSTGRES_SINK_CONNECTIONS__A__B__POOL": "5",
        "STREAMLING__POSTGRES_SINK_CONNECTIONS__C__POOL": "5",
    }
    settings = settings_from(environ, {"postgres_sink_connections": {"by.file": {"db": "f"}}})
    mine, other = postgres_server.sink_server(settings, "my-sink"), postgres_server.sink_server(settings, "a.-b")
    assert (mine.host, mine.user, mine.port) == ("mine", "ada", 5432)
    assert (other.host, other.port) == ("all", 6000)
    assert postgres_server.sink_server(settings, "by.file").database == "f"


def test_a_project_reaches_the_databases_that_settings_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stream_project.yml").write_text("project: {name: p}\n")
    monkeypatch.setenv("PENSTOCK__CLICKHOUSE_SINK__URL", "http://tables:8123")
    monkeypatch.setenv("PENSTOCK__POSTGRES_SINK__HOST", "rows")
    settings = check(tmp_path).clusters.settings
    assert clickhouse_server.sink_server(settings).server.url == "http://tables:8123"
    assert postgres_server.sink_server(settings, "any").host == "rows"


def test_what_is_said_of_a_sink_under_several_spellings_is_put_together() -> None:
    environ = {
        "STREAMLING__POSTGRES_SINK_CONNECTIONS__PG_ARCHIVE__PORT": "6000",
        "PENSTOCK__POSTGRES_SINK_CONNECTIONS__PG_ARCHIVE__PASS": "secret",
        "PENSTOCK__POSTGRES_SINK_CONNECTIONS__PG_ARCHIVE__DB": "stronger",
    }
    file = {"postgres_sink_connections": {"pg.archive": {"host": "archive", "db": "weaker"}}}
    found = postgres_server.sink_server(settings_from(environ, file), "pg-archive")
    assert (found.host, found.port, found.password, found.database) == ("archive", 6000, "secret", "stronger")


ARCHIVE = """
    sources: {a: {type: generator, columns: {id: {kind: sequence}}}}
    sinks: {archive: {type: postgres, from: a, schema: s, table: t, primary_key: id}}
"""
OF_ARCHIVE = "PENSTOCK__POSTGRES_SINK_CONNECTIONS__ARCHIVE"


def test_a_database_of_a_sink_that_is_not_there_is_pointed_out(
    pipeline: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK__POSTGRES_SINK_CONNECTIONS__ARCHVE__HOST", "elsewhere")
    monkeypatch.setenv(f"{OF_ARCHIVE}__HOST", "here")
    found = only(pipeline(ARCHIVE))
    assert (found.code, found.severity, found.path) == (
        "unknown-node",
        Severity.WARNING,
        "postgres_sink_connections.ARCHVE",
    )
    assert (found.message, found.hint) == ("there is no sink `ARCHVE`, so nothing uses this", "did you mean `ARCHIVE`?")


def test_a_wrong_word_about_the_database_of_a_sink_is_named(
    pipeline: Findings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{OF_ARCHIVE}__HOTS", "x")
    found = only(pipeline(ARCHIVE))
    assert (found.code, found.path, found.hint) == ("unknown-field", f"{OF_ARCHIVE}__HOTS", "did you mean `host`?")
    assert found.message == f"Failed to load config: there is no setting `{OF_ARCHIVE}__HOTS`"


@pytest.mark.parametrize(
    ("name", "inside"),
    [
        (OF_ARCHIVE, "HOST"),
        ("PENSTOCK__KAFKA_SOURCE", "BROKERS"),
        ("PENSTOCK__POSTGRES_SINK_CONNECTIONS", "…"),
        ("PENSTOCK__HTTP_SECRET_HEADER", "…"),
    ],
)
def test_a_section_of_settings_is_no_single_one(
    pipeline: Findings, monkeypatch: pytest.MonkeyPatch, name: str, inside: str
) -> None:
    monkeypatch.setenv(name, "x")
    found = only(pipeline(ARCHIVE))
    assert (found.code, found.path, found.hint) == ("wrong-shape", name, f"name a setting in it: `{name}__{inside}`")
    assert found.message == "Failed to load config: this is a section of settings, not a single setting"


def test_a_mistake_about_the_database_of_a_sink_stands_where_the_file_has_it(check: Check) -> None:
    text = "postgres_sink_connections:\n  my-archive: {hots: x}\n"
    found = only(check({"config.yaml": text, PIPELINE: ARCHIVE}, PIPELINE)[1])
    assert (found.code, found.path, found.hint) == (
        "unknown-field",
        "config.postgres_sink_connections.my-archive.hots",
        "did you mean `host`?",
    )
    assert found.origin == spot("config.yaml", text, "hots")


def test_every_setting_without_effect_is_a_setting_and_none_is_told_that_was_not_given() -> None:
    for name in INERT:
        section: Any = Settings()
        for step in name.split("."):
            assert step in type(section).model_fields
            section = getattr(section, step)
    assert list(ineffective_settings(Settings())) == []
    told = ineffective_settings(
        settings_from(
            {
                "STREAMLING__STATE_BACKEND__SQLITE__MAX_CONNECTIONS": "3",
                "PENSTOCK__JOB_MODE": "1",
                "PENSTOCK__PREVIEW_TOLERANT_MODE": "1",
            }
        )
    )
    assert [name for name, _ in told] == ["preview_tolerant_mode", "state_backend.sqlite.max_connections"]


@pytest.mark.parametrize(
    ("settings", "interval_ms"),
    [
        ("", None),
        ("postgres_sink: {batch_flush_interval: 2s}", 2000),
        ("clickhouse_sink: {batch_flush_interval: 3s}", 3000),
        ("postgres_sink: {batch_flush_interval: 2s}\nclickhouse_sink: {batch_flush_interval: 500ms}", 500),
    ],
)
def test_batches_begin_as_often_as_settings_say_where_their_sinks_say_nothing(
    settings: str, interval_ms: int | None, tmp_path: Path
) -> None:
    numbers = "numbers: {type: generator, columns: {id: {kind: sequence}}, primary_key: id}"
    tables = ", ".join(
        f"{name}: {{type: {name}, from: numbers, primary_key: id, table: t}}" for name in ("postgres", "clickhouse")
    )
    (tmp_path / "p.yml").write_text(f"sources: {{{numbers}}}\nsinks: {{{tables}}}\n", encoding="utf-8")
    (tmp_path / "config.yaml").write_text(settings or "{}", encoding="utf-8")
    checked = check(tmp_path / "p.yml")
    assert not [note for note in checked.notes if "interval" in note.path]
    trigger = compile_project(checked).query("numbers").trigger
    assert trigger == (None if interval_ms is None else Every(interval_ms=interval_ms))
    said = tables.replace("table: t}", "table: t, batch_flush_interval: 9s}")
    (tmp_path / "p.yml").write_text(f"sources: {{{numbers}}}\nsinks: {{{said}}}\n", encoding="utf-8")
    assert compile_project(check(tmp_path / "p.yml")).query("numbers").trigger == Every(interval_ms=9000)


def test_a_print_sink_has_the_settings_that_it_is_handed() -> None:
    settings = settings_from({"PENSTOCK__NUM_RECORDS_BEFORE_STOP": "7"})
    sink = PrintSink.model_validate({"from": "a"})
    assert sink.capabilities.most_rows is None
    assert sink.with_settings(settings, "out").capabilities.most_rows == 7


# Files

NUMBERS = """\
sources: {numbers: {type: generator, rows: 3, columns: {id: {kind: sequence}}}}
sinks: {shown: {type: print, from: numbers}}
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", "application_id: beside"),
        ("config.yml", "application_id: beside"),
        ("config.json", '{"application_id": "beside"}'),
    ],
)
def test_a_file_beside_the_pipeline_is_read(tmp_path: Path, name: str, text: str) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    (folder / "numbers.yml").write_text(NUMBERS, encoding="utf-8")
    (folder / name).write_text(text, encoding="utf-8")
    checked = check(folder / "numbers.yml")
    assert checked.settings.application_id == "beside"
    assert checked.place.namespace == "pipeline.numbers@beside/default"


@pytest.mark.parametrize("base", ["other", "other.yml"])
def test_another_file_can_be_named(tmp_path: Path, base: str) -> None:
    (tmp_path / "numbers.yml").write_text(NUMBERS, encoding="utf-8")
    (tmp_path / "config.yaml").write_text("application_id: beside", encoding="utf-8")
    (tmp_path / "other.yml").write_text("application_id: named", encoding="utf-8")
    wanted = Target(tmp_path / "numbers.yml", config=Path(base))
    assert check(wanted).settings.application_id == "named"


def test_a_file_that_is_named_must_be_there(tmp_path: Path) -> None:
    (tmp_path / "numbers.yml").write_text(NUMBERS, encoding="utf-8")
    with pytest.raises(ProjectInvalid) as refused:
        check(Target(tmp_path / "numbers.yml", config=Path("gone")))
    (found,) = refused.value.diagnostics
    assert (found.code, str(found.origin)) == ("file-unreadable", "gone")


def test_a_file_here_can_name_the_pipeline_and_goes_with_it(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "numbers.yml").write_text(NUMBERS, encoding="utf-8")
    (tmp_path / "config.yaml").write_text(
        "pipeline_definition_location: jobs/numbers.yml\nenforce_primary_keys: false\njob_mode: true\n",
        encoding="utf-8",
    )
    assert check(target(None, None)).settings.job_mode


def test_a_file_here_is_read_for_a_pipeline_elsewhere_that_has_none_beside_it(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "numbers.yml").write_text(NUMBERS, encoding="utf-8")
    (tmp_path / "config.yaml").write_text("application_id: here", encoding="utf-8")
    assert check(target(Path("jobs/numbers.yml"), None)).settings.application_id == "here"
    (tmp_path / "jobs" / "config.yaml").write_text("application_id: beside", encoding="utf-8")
    assert check(target(Path("jobs/numbers.yml"), None)).settings.application_id == "beside"


@pytest.mark.parametrize("name", ["PENSTOCK__PIPELINE_DEFINITION_LOCATION", "STREAMLING__PIPELINE_DEFINITION_LOCATION"])
def test_a_pipeline_that_a_variable_names_has_the_same_file_as_one_that_the_command_names(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "numbers.yml").write_text(NUMBERS, encoding="utf-8")
    (tmp_path / "jobs" / "config.yaml").write_text("application_id: beside", encoding="utf-8")
    (tmp_path / "config.yaml").write_text("application_id: here", encoding="utf-8")
    monkeypatch.setenv(name, "jobs/numbers.yml")
    assert check(target(None, None)).settings.application_id == "beside"
    (tmp_path / "jobs" / "config.yaml").unlink()
    assert check(target(None, None)).settings.application_id == "here"


def test_variables_in_a_file_here_name_the_pipeline_and_are_its_own_unless_it_has_such_a_file(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "numbers.yml").write_text(NUMBERS, encoding="utf-8")
    here = "PENSTOCK__PIPELINE_DEFINITION_LOCATION=jobs/numbers.yml\nPENSTOCK__APPLICATION_ID=here\n"
    (tmp_path / ".env").write_text(here, encoding="utf-8")
    (tmp_path / "config.yaml").write_text("application_id: weaker", encoding="utf-8")
    assert check(target(None, None)).settings.application_id == "here"
    (tmp_path / "jobs" / ".env").write_text("PENSTOCK__APPLICATION_ID=beside\n", encoding="utf-8")
    assert check(target(None, None)).settings.application_id == "beside"


def test_without_a_word_a_file_of_the_usual_name_is_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(NUMBERS, encoding="utf-8")
    assert check(target(None, None)).graph.name == "pipeline"
    (tmp_path / "stream_project.yml").write_text("project: {name: p}\n", encoding="utf-8")
    assert check(target(None, None)).graph.format == "project"


def test_what_is_wrong_with_settings_says_that_it_is_about_them(tmp_path: Path) -> None:
    (tmp_path / "numbers.yml").write_text(NUMBERS, encoding="utf-8")
    (tmp_path / "config.yaml").write_text("colour: red\n", encoding="utf-8")
    with pytest.raises(ProjectInvalid) as refused:
        check(tmp_path / "numbers.yml")
    assert [d.message for d in refused.value.diagnostics] == [
        "Failed to load config: a settings file has no such field"
    ]


def test_a_project_has_no_such_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "stream_project.yml").write_text("project: {name: p}\n", encoding="utf-8")
    (tmp_path / "config.yaml").write_text("colour: red\n", encoding="utf-8")
    assert check(target(None, None)).settings == Settings()


def test_clickhouse_is_on_this_machine_unless_it_is_said_otherwise() -> None:
    def found(environ: dict[str, str]) -> ClickHouseSinkServer:
        return clickhouse_server.sink_server(settings_from(environ))

    assert found({}) == ClickHouseSinkServer(ClickHouse("http://localhost:8123"), "none", 6, 100_000)
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
    assert found(environ) == ClickHouseSinkServer(
        ClickHouse("https://ours:8443", "ada", "secret", "shop"), "gzip", 0, 500
    )
    assert "secret" not in repr(found(environ))


def test_a_source_in_clickhouse_has_settings_of_its_own() -> None:
    environ = {
        "STREAMLING__CLICKHOUSE_SOURCE__URL": "https://archive:8443",
        "PENSTOCK__CLICKHOUSE_SOURCE__PASSWORD": "secret",
        "PENSTOCK__CLICKHOUSE_SOURCE__PAGE_SIZE": "500",
        "PENSTOCK__CLICKHOUSE_SOURCE__QUERY_TIMEOUT_SEC": "5",
    }
    found = clickhouse_server.source_server(settings_from(environ))
    named = "PENSTOCK__CLICKHOUSE_SOURCE"
    server = ClickHouse("https://archive:8443", "default", "secret", "default", named, 5)
    assert found == ClickHouseSourceServer(server, 500)
    assert "secret" not in repr(found)


@pytest.mark.parametrize(("word", "value"), [("COMPRESSION", "rar"), ("COMPRESSION_LEVEL", "10"), ("BATCH_SIZE", "0")])
def test_a_setting_of_clickhouse_that_cannot_be_used_is_named(word: str, value: str) -> None:
    with pytest.raises(ProjectInvalid) as caught:
        settings_from({f"PENSTOCK__CLICKHOUSE_SINK__{word}": value})
    (found,) = caught.value.diagnostics
    assert (found.code, found.path) == ("invalid-value", f"PENSTOCK__CLICKHOUSE_SINK__{word}")
