"""Headless Chromium: what a page looks like to it at a width, in light or dark mode."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape
from pathlib import Path

_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--virtual-time-budget=2000",
)  # fmt: skip
_PROBE = """<script>addEventListener("load", () => {
  const style = getComputedStyle(document.body);
  const seen = { width: document.documentElement.scrollWidth, window: innerWidth, paper: style.backgroundColor,
    ink: style.color, charts: [...document.querySelectorAll("svg")].map(e => e.getBoundingClientRect().width),
    texts: [...document.querySelectorAll("svg text")].map(e => e.textContent), loaded: performance
      .getEntriesByType("resource").map(e => e.name) };
  document.body.setAttribute("data-seen", JSON.stringify(seen)); });</script>"""


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What the browser made of a page; widths in pixels."""

    width: int
    window: int
    paper: str
    ink: str
    charts: list[float]
    texts: list[str]
    loaded: list[str]
    """Whatever the page fetched."""


def look(page: str, folder: Path, *, width: int, dark: bool) -> Seen:
    """Open a page at a width. The probe is added to a copy; the page itself has no script."""
    program = shutil.which("chromium")
    assert program, "chromium is missing: run make setup"
    copy = folder / "copy.html"
    copy.write_text(page.replace("</body>", f"{_PROBE}</body>"), encoding="utf-8")
    mode = [f"--blink-settings=preferredColorScheme={0 if dark else 1}"]
    command = [program, *_QUIET, *mode, f"--user-data-dir={folder / 'profile'}", f"--window-size={width},900",
               "--dump-dom", copy.as_uri()]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=True)
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found, done.stdout[-500:] + done.stderr[-500:]
    return Seen(**json.loads(unescape(found[1])))
