"""The peers as a picture: the share of schedules that break a promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from lab.figures.tables import share

WIDTH, ROW, LEFT, RIGHT, TOP = 860, 46, 300, 190, 64
_STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .small { font-size: 12px; fill: #59636e } .head { font-size: 16px; font-weight: 600 }
  .all { fill: #d1d9e0 } .bad { fill: #cf222e } .good { fill: #1a7f37 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .small { fill: #9198a1 } .all { fill: #3d444d } .bad { fill: #f85149 } .good { fill: #3fb950 }
  }
"""


def peers_picture(peers: Sequence[Mapping[str, Any]]) -> str:
    """Return an SVG with a bar for each row of the peers, readable on light and on dark."""
    height = TOP + ROW * len(peers) + 20
    span = WIDTH - LEFT - RIGHT
    title = f"Schedules that break a promise ({peers[0]['size']}: deliveries, faults, lease expiries)"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<text class="head" x="20" y="32">{escape(title)}</text>',
    ]
    for position, row in enumerate(peers):
        top = TOP + ROW * position
        violating, schedules = row["violating"], row["schedules"]
        width = round(span * violating / schedules, 1) if schedules else 0
        parts += [
            f'<text x="{LEFT - 12}" y="{top + 18}" text-anchor="end">{escape(row["subject"])}</text>',
            f'<text class="small" x="{LEFT - 12}" y="{top + 34}" text-anchor="end">'
            f"breaks {', '.join(row['laws_broken']) or 'none'}</text>",
            f'<rect class="all" x="{LEFT}" y="{top + 6}" width="{span}" height="22" rx="3"/>',
            f'<rect class="{"bad" if violating else "good"}" x="{LEFT}" y="{top + 6}" width="{width}" height="22" rx="3"/>',
            f'<text x="{LEFT + span + 12}" y="{top + 18}">{share(row)}</text>',
            f'<text class="small" x="{LEFT + span + 12}" y="{top + 34}">{violating:,} of {schedules:,}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"
