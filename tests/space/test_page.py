"""The page in a real browser: all tabs, all examples, bad input, a phone, two visitors at once."""

import os
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from elmo_hf.space.convert_tab import write_example
from elmo_hf.space.page import TABS
from tests.conftest import ROOT
from tests.space.browser import PHONE, Visitor, require_chromium

pytestmark = pytest.mark.slow

PLACES = {name: name.lower().replace(" ", "-") + "-result" for name in TABS}
BUTTONS = dict(zip(TABS, ("Compare", "Search", "Mix", "Read", "Tag", "Convert"), strict=True))
FIELDS = {"Senses": "Word", "Neighbours": "Sentence", "Mix": "Sentence", "Language model": "Sentence", "Tag": "Text"}
WORDS = ("bank", "bat", "match", "palm", "spring")
# With ELMO_HF_SCREENSHOTS=1 the pictures of docs/space.md are made again.
SHOWN = ("Senses", "Mix", "Language model", "Tag")
SCREENSHOTS = ROOT / "docs" if os.environ.get("ELMO_HF_SCREENSHOTS") == "1" else None
HOSTILE = "<img src=x onerror=\"document.title='broken'\"> <b>bold</b> ${1+1} {{value}} @children"
# The smallest contrast of all visible text with what is behind it, and where.
CONTRAST = """
const light = c => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
const parse = text => text.match(/[\\d.]+/g).map(Number);
const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
let worst = [21, ""];
for (const element of document.querySelectorAll("body *")) {
  const texts = [...element.childNodes].filter(node => node.nodeType === 3 && node.textContent.trim());
  if (!texts.length || !element.checkVisibility({checkOpacity: true, checkVisibilityCSS: true})) continue;
  if (element.closest("svg, style, script")) continue;
  let behind = element, colour = [255, 255, 255];
  for (; behind; behind = behind.parentElement) {
    const found = parse(getComputedStyle(behind).backgroundColor);
    if (found.length < 4 || found[3] > 0.5) { colour = found; break; }
  }
  const [high, low] = [luminance(parse(getComputedStyle(element).color)), luminance(colour)].sort((a, b) => b - a);
  const contrast = (high + 0.05) / (low + 0.05);
  if (contrast < worst[0]) worst = [contrast, element.outerHTML.slice(0, 200)];
}
return worst;
"""
UNNAMED = """
return [...document.querySelectorAll("button, input, textarea, [role=tab]")]
  .filter(element => element.checkVisibility() && element.type !== "file")
  .filter(element => !(element.innerText || element.labels?.length || element.getAttribute("aria-label")
                       || element.title || element.getAttribute("aria-labelledby")))
  .map(element => element.outerHTML.slice(0, 200));
"""


@pytest.fixture(scope="module")
def visitor(address):
    visitor = Visitor(address)
    yield visitor
    visitor.close()


@pytest.fixture(autouse=True, scope="module")
def chromium():
    require_chromium()


def examples(visitor: Visitor) -> list[str]:
    """The labels of the examples of the open tab."""
    return [button.text for button in visitor.all("div[role=tabpanel] button.sm")]


@pytest.mark.parametrize("tab", [*TABS])
def test_every_example_of_every_tab_shows_its_result_at_one_click(visitor, tab):
    visitor.open_tab(tab)
    labels = examples(visitor)
    assert labels
    for label in labels:
        text = visitor.answer(label, PLACES[tab])
        assert EXPECTED[tab](text, label), text
        assert not visitor.all(f".{PLACES[tab]} [role=alert]")
    if SCREENSHOTS and tab in SHOWN:
        visitor.answer(labels[0], PLACES[tab])
        visitor.picture(SCREENSHOTS / f"space-{tab.lower().replace(' ', '-')}.png", 900)
    assert visitor.errors() == []
    assert visitor.foreign_hosts() == set()
    assert visitor.driver.execute_script(CONTRAST)[0] >= 4.5, visitor.driver.execute_script(CONTRAST)
    assert visitor.driver.execute_script(UNNAMED) == []


EXPECTED = {
    "Senses": lambda text, word: all(name in text for name in ("cluster 1", "layer 0", "layer 2", f" {word} ")),
    "Neighbours": lambda text, label: text.count(label.split("**")[1]) >= 10,
    "Mix": lambda text, label: f"1.00 · {label.removeprefix('Only ')}" in text and "Nearest words" in text,
    "Language model": lambda text, label: (
        "Surprise" in text and ("In place of the marked word" in text) == ("*" in label)
    ),
    "Tag": lambda text, label: any(name in text for name in ("person", "location", "corporation", "NOUN", "O")),
    "Convert": lambda text, label: "Converted." in text and "projection_size 8" in text,
}


@pytest.mark.parametrize("tab", [*FIELDS])
def test_empty_long_and_hostile_input_gets_an_answer_and_is_shown_as_text(visitor, tab):
    visitor.open_tab(tab)
    label, place = FIELDS[tab], PLACES[tab]
    visitor.write(label, "")
    assert "is empty: write something, or click on an example" in visitor.answer(BUTTONS[tab], place)
    visitor.write(label, "a" * 10_000)
    assert "has 10,000 characters; this page accepts at most" in visitor.answer(BUTTONS[tab], place)
    text = HOSTILE + (" **bank**" if tab in ("Neighbours", "Mix", "Language model") else "")
    visitor.write(label, text)
    if tab == "Senses":
        visitor.write("Sentences", f"{HOSTILE} bank\n{HOSTILE} bank")
        visitor.write(label, "bank")
    answer = visitor.answer(BUTTONS[tab], place)
    shown = answer.replace("\n", "") if tab in ("Tag", "Language model") else answer
    if tab != "Neighbours":  # which shows sentences of the text only
        assert "img" in shown
        assert "value" in shown
        assert "@" in shown
        assert "$" in shown
    assert not visitor.all(f".{place} img, .{place} b")
    assert visitor.driver.title != "broken"
    assert visitor.errors() == []


def test_uploaded_files_are_converted_deleted_and_the_result_can_be_downloaded(visitor, temporary_files, tmp_path):
    visitor.open_tab("Convert")
    assert "Two files are needed" in visitor.answer("Convert", PLACES["Convert"])
    inputs = visitor.driver.find_elements("css selector", "div[role=tabpanel] input[type=file]")[-2:]
    for field, path in zip(inputs, write_example(tmp_path), strict=True):
        field.send_keys(path)
        visitor.wait(lambda name=Path(path).name: [row for row in visitor.all(".file") if name[:5] in row.text])
    assert "Converted." in visitor.answer("Convert", PLACES["Convert"])
    assert [*temporary_files.rglob("options.json"), *temporary_files.rglob("weights.hdf5")] == []
    link = visitor.wait(lambda: visitor.all(".convert-download a[href]"))[0].get_attribute("href")
    script = """
        const [link, done] = arguments;
        fetch(link).then(answer => answer.arrayBuffer()).then(bytes => done([...new Uint8Array(bytes)]));
    """
    (tmp_path / "elmo.zip").write_bytes(bytes(visitor.driver.execute_async_script(script, link)))
    assert "elmo/model.safetensors" in zipfile.ZipFile(tmp_path / "elmo.zip").namelist()
    assert visitor.errors() == []


def test_sliders_change_the_mix_at_once_and_work_with_the_keyboard(visitor):
    visitor.open_tab("Mix")
    visitor.answer("Only layer 0", PLACES["Mix"])
    slider = visitor.all("div[role=tabpanel] input[type=range]")[2]
    visitor.clear(PLACES["Mix"])
    slider.send_keys(Keys.END)
    assert "0.50 · layer 0 + 0.00 · layer 1 + 0.50 · layer 2" in visitor.result(PLACES["Mix"])


def test_the_keyboard_alone_is_enough(visitor):
    visitor.driver.refresh()
    visitor.wait(lambda: visitor.all("button[role=tab]"))
    visitor.all("button[role=tab]")[0].send_keys(Keys.TAB)
    for _ in range(10):
        focused = visitor.driver.switch_to.active_element
        if focused.tag_name == "input":
            break
        focused.send_keys(Keys.TAB)
    assert focused.get_attribute("value") == "bat"
    focused.send_keys(Keys.ENTER)
    assert "cluster 1" in visitor.result(PLACES["Senses"])


def test_on_a_phone_every_tab_can_be_opened_and_nothing_is_wider_than_the_screen(address):
    visitor = Visitor(address, PHONE)
    try:
        for tab in TABS:
            visitor.open_tab(tab)
            text = visitor.answer(examples(visitor)[0], PLACES[tab])
            assert EXPECTED[tab](text, examples(visitor)[0]), text
            assert visitor.driver.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
        assert visitor.errors() == []
    finally:
        visitor.close()


def test_text_can_be_read_in_dark_mode_too(address):
    visitor = Visitor(f"{address}?__theme=dark")
    try:
        for tab in TABS:
            visitor.open_tab(tab)
            visitor.answer(examples(visitor)[0], PLACES[tab])
            assert visitor.driver.execute_script(CONTRAST)[0] >= 4.5, visitor.driver.execute_script(CONTRAST)
    finally:
        visitor.close()


def test_two_visitors_at_once_both_get_their_own_answers(address, visitor):
    other = Visitor(address)

    def visit(who: Visitor, words: Sequence[str]) -> dict[str, str]:
        who.open_tab("Neighbours")
        answers = {}
        for word in words:
            who.write("Sentence", f"There is a **{word}** here.")
            answers[word] = who.answer("Search", PLACES["Neighbours"])
        return answers

    try:
        with ThreadPoolExecutor(2) as pool:
            texts = list(pool.map(visit, (visitor, other), (WORDS, WORDS[::-1])))
        assert texts[0] == texts[1]
        assert all(text.count(word) >= 10 for word, text in texts[0].items())
        assert visitor.errors() == other.errors() == []
    finally:
        other.close()
