"""Names as directories."""

from penstock.clients.folders import LONGEST, folder_of, short_folder_of


def test_a_name_that_is_too_long_for_a_directory_ends_in_a_digest() -> None:
    assert short_folder_of("pipeline.orders@app") == folder_of("pipeline.orders@app")
    assert short_folder_of("a" * LONGEST) == "a" * LONGEST
    one, other = short_folder_of("a" * 5000), short_folder_of("a" * 5001)
    assert len(one) == len(other) == LONGEST
    assert one != other
