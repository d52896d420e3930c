import pytest
from pydantic import TypeAdapter, ValidationError

from penstock.config import Duration, FrozenModel, Names

durations = TypeAdapter(Duration)
names = TypeAdapter(Names)


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("500ms", 500), ("5s", 5000), ("2m", 120_000), ("1h", 3_600_000), ("1d", 86_400_000), ("1h 30m", 5_400_000),
     ("1h30m", 5_400_000), (" 5 s ", 5000), ("0s", 0), (250, 250), ("0", 0), ("1min", 60_000), ("5sec", 5000),
     ("30 seconds", 30_000), ("1 second", 1000), ("2hours", 7_200_000), ("1day", 86_400_000), ("7msec", 7),
     ("1week", 604_800_000), ("1M", 2_630_016_000), ("1y", 31_557_600_000), ("2days 3hrs 1m", 183_660_000)],
)  # fmt: skip
def test_a_duration_is_milliseconds(text: object, milliseconds: int) -> None:
    assert durations.validate_python(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("100us", 1), ("1ns", 1), ("1500µs", 2), ("1s 1usec", 1001), ("0ns", 0)]
)
def test_less_than_a_millisecond_counts_as_a_whole_one(text: str, milliseconds: int) -> None:
    assert durations.validate_python(text) == milliseconds


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 parsecs", "-5s", "1.5h", "5s and more", "1 5s", "1S", "٣s", None, [5]]
)
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
    class Thing(FrozenModel):
        size: int = 1

    with pytest.raises(ValidationError):
        Thing.model_validate({"size": 1, "colour": "red"})
    with pytest.raises(ValidationError):
        Thing().size = 2  # type: ignore[misc]
