"""Text of visitors is shown as it is, and colours can be read."""

import html
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo_hf.space.html_parts import (
    COLOURS,
    Bar,
    background,
    bar_table,
    contrast,
    escaped,
    heat_map,
    marked,
    message,
    scatter,
    strip,
)

HOSTILE = "<script>alert(1)</script> \"'& ${alert(1)} {{value}} @children `x`"


@given(st.text())
def test_escaped_text_has_no_markup_and_no_template_and_reads_as_before(text):
    shown = escaped(text)
    assert not set("<>\"'$`{}@") & set(shown)
    assert html.unescape(shown) == html.unescape(html.escape(text))


def test_every_part_escapes_its_text():
    parts = [
        message(HOSTILE),
        marked(HOSTILE, 3, 9),
        heat_map(np.eye(1), [HOSTILE], HOSTILE),
        bar_table(HOSTILE, [HOSTILE], [Bar(HOSTILE, 0.5, [HOSTILE])]),
        strip(np.ones(2), 1.0, HOSTILE),
        scatter(np.eye(2), [HOSTILE] * 2, [0, 1], HOSTILE),
    ]
    for part in parts:
        assert "script>" not in re.sub(r"&[^;]+;", "", part)
        assert not set("${}@`") & set(part)


@given(st.floats(-1, 2))
def test_numbers_of_a_heat_map_can_be_read_at_every_value(share):
    back, text = re.findall("#[0-9a-f]{6}", background(share))
    assert contrast(back, text) >= 4.5


def test_black_text_can_be_read_on_all_colours_of_labels():
    assert min(contrast(colour, "#000000") for colour in COLOURS) >= 4.5


def test_contrast_is_that_of_wcag():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


def test_points_at_one_place_are_drawn():
    assert scatter(np.zeros((2, 2)), ["1", "2"], [0, 9], "two").count("<text") == 4
