"""Numbers in the documentation are those of `benchmarks/results`."""

import pytest

from benchmarks import tables


@pytest.mark.parametrize("path", list(tables.documents()), ids=lambda path: path.name)
def test_the_tables_of_a_document_are_those_of_the_results(path):
    text = path.read_text("utf-8")
    assert tables.updated(text) == text, "run `python -m benchmarks.tables`"


def test_a_changed_result_is_seen(monkeypatch):
    monkeypatch.setattr(
        tables, "read_results", lambda _: {"processor": "P", "threads": 2, "speed_with_trick": {"t": {"full 1": 1.234}}}
    )
    text = "before\n<!-- numbers: trick t -->\nold\n<!-- /numbers -->\nafter\n"
    assert "| 1.23x |" in tables.updated(text)
    assert tables.updated(tables.updated(text)) == tables.updated(text)


def test_a_table_of_no_known_kind_is_an_error():
    with pytest.raises(KeyError):
        tables.updated("<!-- numbers: nosuch -->\n<!-- /numbers -->")
