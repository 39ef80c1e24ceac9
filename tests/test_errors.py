"""How messages about a user's mistakes are worded."""

import pytest

from elmo_hf.errors import counted, did_you_mean, in_one_line


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [("cudo", " (did you mean 'cuda'?)"), ("CUDA", " (did you mean 'cuda'?)"), ("cuda", ""), ("abacus", "")],
)
def test_a_close_name_is_suggested_but_never_the_name_itself(name, suggestion):
    assert did_you_mean(name, iter(["cpu", "cuda", "mps"])) == suggestion


def test_one_is_singular():
    assert [counted(count, "file") for count in (0, 1, 2, 2000)] == ["0 files", "1 file", "2 files", "2,000 files"]
    assert counted(2, "entry", "entries") == "2 entries"


def test_an_error_is_one_line_that_is_never_empty():
    assert in_one_line(ValueError("a\n  b")) == "a b"
    assert in_one_line(ValueError()) == "ValueError"
    assert len(in_one_line("x" * 1000)) == 300
