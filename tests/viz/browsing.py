"""A page in Debian's Chromium: opened from a file, with everything that it complains about or asks for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's browser, without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--force-prefers-reduced-motion"]
        )
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, file: Path, link: str = "", width: int = 1280, ready: str = "html"
) -> Iterator[Page]:
    """The page of a file at `link`, once `ready` is there; it may not complain, nor fetch anything."""
    page = browser.new_page(viewport={"width": width, "height": 800})
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text) if message.type != "log" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    try:
        page.goto(f"{file.as_uri()}{link}")
        page.wait_for_selector(ready, state="attached")
        yield page
        assert complaints == []
        assert [url for url in requests if not url.startswith(file.as_uri())] == []
    finally:
        page.close()
