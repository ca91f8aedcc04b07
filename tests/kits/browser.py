"""Opens a page in headless Chromium without a network."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


def opened(page: Path, tmp_path: Path, *arguments: str) -> str:
    """Return the page's DOM after its scripts ran."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        remedy = "Chromium is not on PATH. On Debian and Ubuntu: sudo make browser."
        if os.environ.get("CI"):
            pytest.fail(f"{remedy} Where CI is set, this test is not skipped.")
        pytest.skip(remedy)
    command = [
        *(browser, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"),
        *(f"--user-data-dir={tmp_path / 'profile'}", "--host-resolver-rules=MAP * ~NOTFOUND", *arguments),
        page.as_uri(),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
