import pytest
from pydantic import TypeAdapter, ValidationError

from penstock.config import Duration, Frozen, Names, settings_from
from penstock.errors import ProjectInvalid

durations = TypeAdapter(Duration)
names = TypeAdapter(Names)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500ms", 500), ("5s", 5000), ("2m", 120_000), ("1h", 3_600_000), ("1d", 86_400_000), ("1h 30m", 5_400_000),
     ("1h30m", 5_400_000), (" 5 s ", 5000), ("0s", 0), (250, 250)],
)  # fmt: skip
def test_a_duration_is_milliseconds(text: object, milliseconds: int) -> None:
    assert durations.validate_python(text) == milliseconds


@pytest.mark.parametrize("text", ["", "5", "s", "5 parsecs", "-5s", "1.5h", "5s and more", None, [5]])
def test_what_is_no_duration_is_refused(text: object) -> None:
    with pytest.raises(ValidationError):
        durations.validate_python(text)


def test_a_duration_is_written_so_that_it_reads_the_same() -> None:
    written = durations.dump_python(5_400_000)
    assert durations.validate_python(written) == 5_400_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [("id", ("id",)), ("a, b,c", ("a", "b", "c")), ("", ()), (" , ", ()), (["a", "b"], ("a", "b"))],
)
def test_names_are_separated_by_commas(text: object, expected: tuple[str, ...]) -> None:
    assert names.validate_python(text) == expected
    assert names.validate_python(names.dump_python(expected)) == expected


def test_a_document_drops_no_key_and_does_not_change() -> None:
    class Thing(Frozen):
        size: int = 1

    with pytest.raises(ValidationError):
        Thing.model_validate({"size": 1, "colour": "red"})
    with pytest.raises(ValidationError):
        Thing().size = 2  # type: ignore[misc]


def test_settings_come_from_the_environment() -> None:
    settings = settings_from({"PENSTOCK__PRINT_SINK__SAMPLE_EVERY": "10", "STREAMLING__UNKNOWN": "x", "HOME": "/"})
    assert settings.print_sink.sample_every == 10
    assert settings.pipeline_definition_location is None


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("PENSTOCK__PRINT_SINK__SAMPLE_EVRY", "2", "unknown-field"),
        ("PENSTOCK__PRINT_SINK__SAMPLE_EVERY", "often", "invalid-value"),
        ("PENSTOCK__PRINT_SINK__SAMPLE_EVERY", "0", "invalid-value"),
    ],
)
def test_a_setting_that_means_nothing_is_refused_by_its_name(name: str, value: str, code: str) -> None:
    with pytest.raises(ProjectInvalid) as refused:
        settings_from({name: value})
    (found,) = refused.value.diagnostics
    assert (found.code, found.path) == (code, name)


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


def test_a_level_that_is_also_a_value_does_not_stop_the_rest() -> None:
    settings = settings_from({"STREAMLING__PRINT_SINK": "x", "PENSTOCK__PRINT_SINK__SAMPLE_EVERY": "3"})
    assert settings.print_sink.sample_every == 3
