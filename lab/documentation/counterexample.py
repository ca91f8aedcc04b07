"""Draw how a usual handler books twice after one lost response, beside ours in the same case, from the explorer's paths.

`python -m lab.documentation.counterexample` writes the pictures' source, a counterexample that
`python -m lab.explore --replay` takes, to lab/results, and the picture to docs/images.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from lab.documentation.site import DOCUMENTATION, REPOSITORY
from lab.explore.scenarios import ONE_REQUEST
from lab.peers.peers import CONTROL, PEERS
from oneslot.explorer.counterexample import Counterexample, Replay, counterexample, replay
from oneslot.explorer.execution.process import capture_logs
from oneslot.explorer.explorer import BrokenLaws, Explorer
from oneslot.explorer.system import System

KEPT = REPOSITORY / "lab" / "results" / "booked-twice.json"
PICTURE = DOCUMENTATION / "images" / "booked-twice.svg"
USUAL = next(peer.subject for peer in PEERS if peer.subject.name == "get, then put, with conditions")
FAULT = "response lost; the SDK sends it again"
SCENARIO = replace(ONE_REQUEST, deliveries=((0,), (0,)), faults=1, expiries=0)

_COLUMN, _LINE, _TOP = 520, 21, 92
_STYLE = """
  text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328 }
  .head { font: 600 16px system-ui, sans-serif } .note { font: 13px system-ui, sans-serif; fill: #59636e }
  .state { fill: #59636e } .fault { fill: #9a6700; font-weight: 600 } .bad { fill: #cf222e; font-weight: 600 }
  .good { fill: #1a7f37; font-weight: 600 } .line { stroke: #d1d9e0 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .state, .note { fill: #9198a1 } .fault { fill: #d29922 } .bad { fill: #f85149 }
    .good { fill: #3fb950 } .line { stroke: #3d444d }
  }
"""


def usual_path() -> Counterexample:
    """Return the first path on which the usual handler breaks a law."""
    explorer = Explorer(SCENARIO, USUAL)
    return counterexample(explorer.system, explorer.run(True, lambda *_: None).breaches[0])


@capture_logs()
def our_path() -> Counterexample:
    """Return our path in the same case: the response to the write of the slot, which is the commit, is lost once."""
    system = System(SCENARIO, CONTROL)
    state, lost = system.start, False
    path = [system.canonical(state)]
    while steps := [step for step in system.steps(state) if step.delivery == 0]:
        losses = [step for step in steps if step.name == FAULT and _writes_a_slot(system, step.call)]
        plain = [step for step in steps if step.name in {"invoked", "performed", "message deleted"}]
        chosen = losses if losses and not lost else plain
        if not chosen:
            break
        lost |= chosen is losses
        state = chosen[0].state
        path.append(system.canonical(state))
    return counterexample(system, BrokenLaws((), tuple(path), ""))


def _writes_a_slot(system: System, call: int) -> bool:
    return call >= 0 and "transact_write_items" in system.requests.texts[call]


def replays() -> tuple[Replay, Replay]:
    """Return both paths, replayed on the current code."""
    return replay(usual_path(), SCENARIO, USUAL), replay(our_path(), SCENARIO, CONTROL)


def picture(usual: Replay, ours: Replay) -> str:
    """Return the SVG of both paths side by side, readable on light and on dark."""
    columns = [_lines(usual.lines), _lines(ours.lines)]
    height = _TOP + _LINE * max(map(len, columns)) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * _COLUMN} {height}" role="img" aria-label="'
        'One lost response: the usual handler books two slots, Oneslot one">',
        f"<style>{_STYLE}</style>",
        '<text class="head" x="16" y="28">The usual handler: look, take a slot, then mark</text>',
        f'<text class="head" x="{_COLUMN + 16}" y="28">Oneslot: slot and mark in one transaction</text>',
        '<text class="note" x="16" y="50">No crash. DynamoDB takes the slot, and its response is lost.</text>',
        f'<text class="note" x="{_COLUMN + 16}" y="50">The same case: DynamoDB commits, and its response is lost.</text>',
        f'<line class="line" x1="{_COLUMN}" y1="12" x2="{_COLUMN}" y2="{height - 12}"/>',
    ]
    for column, lines in enumerate(columns):
        for number, (kind, text) in enumerate(lines):
            x, y = 16 + column * _COLUMN, _TOP + _LINE * number
            parts.append(f'<text class="{kind}" x="{x}" y="{y}" xml:space="preserve">{escape(text)}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _lines(told: Sequence[str]) -> list[tuple[str, str]]:
    """Return class and text of each line: steps numbered, the rows that they change below them, shortened and wrapped."""
    lines: list[tuple[str, str]] = []
    for line in told[told.index(next(one for one in told if "before" in one)) + 1 :]:
        text = re.sub(r"A81001/\d{8}T(\d\d)(\d\d)Z-01", r"\1:\2", line.rstrip()).replace("slots ", "slot ")
        text = re.sub(r"^( *\d+)  A  ", r"\1  ", text).replace("update slot", "take slot")
        kind = "state" if text.startswith("      ") else "step"
        if "lost" in text:
            kind = "fault"
        if text.startswith("  =>"):
            kind, text = ("good", "  => holds one slot") if "no law" in text else ("bad", text)
        while len(text) > _WIDTH:
            cut = text.rfind(" ", 0, _WIDTH)
            lines.append((kind, text[:cut]))
            text = "      " + text[cut + 1 :]
        lines.append((kind, text))
    return lines


_WIDTH = 62


def main() -> None:
    """Write counterexample and picture."""
    KEPT.write_text(usual_path().to_json(), encoding="utf-8")
    PICTURE.write_text(picture(*replays()), encoding="utf-8")
    sys.stderr.write(f"Wrote {KEPT.name} and {PICTURE.name}.\n")


if __name__ == "__main__":
    main()
