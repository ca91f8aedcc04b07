"""Write the pages of docs/look-up that are made from the code."""

from __future__ import annotations

import sys

from lab.documentation.reference.pages import LOOK_UP, PAGES, current

for name in PAGES:
    (LOOK_UP / name).write_text(current(name), encoding="utf-8")
sys.stderr.write(f"Wrote {len(PAGES)} pages in docs/look-up.\n")
