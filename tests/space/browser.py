"""A visitor of the page: Debian's Chromium, which cannot reach anything but this machine."""

import base64
import json
import shutil
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

SECONDS = 30  # until a result must have come; other processes may use the cores
DESKTOP, PHONE = (1100, 1400), (390, 844)
LOCAL = "127.0.0.1"


class Visitor:
    """
    A browser on the page.

    Args:
        address: Of the page.
        size: Width and height of the window.
    """

    def __init__(self, address: str, size: tuple[int, int] = DESKTOP):
        self.driver = webdriver.Chrome(_options(size), webdriver.ChromeService(shutil.which("chromedriver")))
        # The window of a desktop has a smallest width; a phone's is set as the developer tools do it.
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.get(address)
        self.wait(lambda: self.driver.find_elements(By.CSS_SELECTOR, "button[role=tab]"))

    def close(self):
        self.driver.quit()

    def wait(self, condition, seconds: float = SECONDS):
        """Waits until a condition gives something."""
        wait = WebDriverWait(self.driver, seconds, 0.05, [StaleElementReferenceException])
        return wait.until(lambda _: condition())

    def open_tab(self, name: str):
        """Opens a tab; on a narrow screen it may be in the menu of those that have no room."""
        tab = next((tab for tab in self.all("button[role=tab]") if tab.text == name), None)
        if tab is None:
            self.one(".overflow-menu > button").click()
            tab = next(item for item in self.all(".overflow-dropdown button") if item.text == name)
        tab.click()
        self.wait(lambda: self.all("div[role=tabpanel] button.primary"))

    def all(self, selector: str) -> list[WebElement]:
        """The elements of a selector that can be seen."""
        return [some for some in self.driver.find_elements(By.CSS_SELECTOR, selector) if some.is_displayed()]

    def one(self, selector: str) -> WebElement:
        """The only element of a selector that can be seen."""
        (element,) = self.all(selector)
        return element

    def field(self, label: str) -> WebElement:
        """The text field with a label that begins so."""
        return next(
            some.find_element(By.CSS_SELECTOR, "textarea, input")
            for some in self.all("label")
            if some.text.startswith(label)
        )

    def write(self, label: str, text: str):
        """Replaces the text of a field; all at once, as if it were pasted."""
        field = self.field(label)
        field.click()
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(Keys.DELETE)
        if text:
            self.driver.execute_cdp_cmd("Input.insertText", {"text": text})
        assert field.get_attribute("value") == text

    def press(self, label: str):
        """Presses a button, and waits for another result."""
        button = next(button for button in self.all("button:not([role=tab])") if button.text.strip() == label)
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
        button.click()

    def answer(self, label: str, place: str) -> str:
        """Presses a button, and gives the text of the result when it has come."""
        self.clear(place)
        self.press(label)
        return self.result(place)

    def clear(self, place: str):
        """Marks the result that is there, so that the next one is recognised even if it is the same."""
        script = "document.querySelectorAll('.' + arguments[0] + ' .elmo').forEach(e => e.classList.add('seen'))"
        self.driver.execute_script(script, place)

    def result(self, place: str) -> str:
        """The text of the result, when it has come."""
        selector = f".{place} .elmo:not(.seen)"
        return self.wait(lambda: next(iter(self.all(selector)), None)).text

    def errors(self) -> list[str]:
        """The errors on the console since the last call. (Gradio warns of itself when a file is uploaded.)"""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    def foreign_hosts(self) -> set[str]:
        """The hosts other than this machine that the page has asked for something since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [some["params"]["request"]["url"] for some in messages if some["method"] == "Network.requestWillBeSent"]
        parts = [urlsplit(address) for address in sent]
        return {part.hostname or "" for part in parts if part.scheme in ("http", "https", "ws", "wss")} - {LOCAL}

    def picture(self, path: Path, height: int):
        """Saves the upper part of the page as a PNG."""
        self.driver.execute_script("window.scrollTo(0, 0); document.activeElement.blur()")
        size = {"x": 0, "y": 0, "width": DESKTOP[0], "height": height, "scale": 0.7}
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": size, "captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(shot["data"]))


def require_chromium():
    """Skips the tests where there is no Chromium."""
    if not all(map(shutil.which, ("chromium", "chromedriver"))):
        pytest.skip("the browser tests need Chromium: apt-get install chromium chromium-driver")


def _options(size: tuple[int, int]) -> webdriver.ChromeOptions:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--no-proxy-server",
        f"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE {LOCAL}",
        f"--window-size={size[0]},{size[1]}",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return options
