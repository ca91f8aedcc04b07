"""The page's plots: their lengths, and the page on a phone and in dark mode."""

from __future__ import annotations

from html import escape
from pathlib import Path

import pytest

from lab.benchmarks.pages.report import bars, lines, page
from tests.kits.browser import opened
from tests.lab.benchmarks.test_report import DOCUMENT


def test_bar_is_as_long_as_its_value() -> None:
    drawn = bars("<CPU>", [("(a) Powertools", 400.0), ("the group's calls alone", 25.0), ("ours", 31.25)], "ms")
    assert "<figcaption>&lt;CPU&gt;</figcaption>" in drawn
    assert "<span>(a) Powertools</span><div><i style='width:100.0%'></i>400 ms</div>" in drawn
    assert "<span>the group&#x27;s calls alone</span><div><i style='width:6.2%'></i>25.00 ms</div>" in drawn
    assert "<span>ours</span><div><i class=ours style='width:7.8%'></i>31.25 ms</div>" in drawn


def test_bar_has_no_length_when_its_value_is_zero() -> None:
    assert "width:0.0%" in bars("retries", [("random", 0.0)])
    assert "<i" not in bars("nothing", [])


def test_lines_share_their_axes() -> None:
    drawn = lines("memory", [("a", [(1.0, 50.0), (2.0, 100.0)]), ("b", []), ("c & d", [(4.0, 25.0)])], "MB")
    assert "aria-label='memory: 0 to 100 MB, over 4.00 s'" in drawn
    assert "<polyline class='s0' points='180.0,82.0 360.0,4.0'/><polyline class='s1' points='720.0,121.0'/>" in drawn
    assert "<span class='s0'>a</span><span class='s1'>c &amp; d</span>" in drawn
    assert lines("memory", [("b", [])], "MB") == ""


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "paper"), [("1", "rgb(255, 255, 255)"), ("0", "rgb(20, 25, 31)")])
def test_page_fits_a_phone_and_follows_dark_mode(tmp_path: Path, scheme: str, paper: str) -> None:
    ask = (
        "const inside = document.querySelector('iframe').contentDocument;"
        "const root = inside.documentElement;"
        "document.title = [root.scrollWidth - root.clientWidth, inside.querySelectorAll('polyline').length,"
        " getComputedStyle(inside.body).backgroundColor].join(' | ')"
    )
    phone = tmp_path / "phone.html"
    phone.write_text(
        f"<title></title><iframe width=360 height=700 style='border:0' srcdoc='{escape(page(DOCUMENT))}'></iframe>"
        f"<script>onload = () => {{{ask}}}</script>"
    )
    dom = opened(phone, tmp_path, "--dump-dom", f"--blink-settings=preferredColorScheme={scheme}")
    # Two plots of memory, of two handlers in one rush and one in the other.
    assert f"<title>0 | 6 | {paper}</title>" in dom
