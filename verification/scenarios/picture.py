"""The museum as a table and as a picture, from measured figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from oneslot.explorer.explorer import Exploration
from verification.mutation.guards import GUARDS
from verification.mutation.mutants import BY_WHOM
from verification.scenarios.exploration import Proof

WIDTH, ROW, LEFT, RIGHT, TOP = 860, 46, 300, 190, 64
_STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1f2328 }
  .small { font-size: 12px; fill: #59636e } .head { font-size: 16px; font-weight: 600 }
  .all { fill: #d1d9e0 } .bad { fill: #cf222e } .good { fill: #1a7f37 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc } .small { fill: #9198a1 } .all { fill: #3d444d } .bad { fill: #f85149 } .good { fill: #3fb950 }
  }
"""


def museum_table(explorations: Sequence[Exploration]) -> str:
    """Markdown: a row for each handler."""
    lines = ["| handler | schedules | violating | share | laws broken |", "|---|---:|---:|---:|---|"]
    for one in explorations:
        lines.append(
            f"| {one.subject} | {one.schedules:,} | {one.violating:,} | {_share(one)} |"
            f" {', '.join(one.laws_broken) or 'none'} |"
        )
    return "\n".join(lines) + "\n"


def explorations_table(explorations: Sequence[Exploration]) -> str:
    """Markdown: a row for each of our scenarios."""
    lines = [
        "| scenario | budget | schedules | violating | states | executions | seconds |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for one in explorations:
        lines.append(
            f"| {one.scenario} | {one.size} | {one.schedules:,} | {one.violating:,} | {one.states:,} |"
            f" {one.executions:,} | {one.seconds:,.1f} |"
        )
    return "\n".join(lines) + "\n"


def page(proof: Proof) -> str:
    """The whole page of figures, for the docs to quote."""
    totals = proof.document["totals"]
    size = proof.museum[0].exploration.size if proof.museum else ""
    mutants = proof.document.get("mutants")
    return (
        "# Explored\n\n"
        "Written by `make explore`, or with small budgets by `oneslot prove --short --no-mutants --write docs/proof`.\n"
        "Budgets: deliveries (K), faults (F) and lease expiries (T) in one schedule.\n\n"
        f"{totals['schedules']:,} schedules, {totals['violating']:,} of them violating, through {totals['states']:,} states,"
        f" with {totals['executions']:,} executions of the handler, in {proof.seconds:,.0f} seconds.\n\n"
        f"{explorations_table([one.exploration for one in proof.ours])}\n"
        f"## The museum ({size})\n\n"
        f"{museum_table([one.exploration for one in proof.museum])}"
        + (f"\n## Mutants\n\n{mutants_score(mutants)}\n\n{guards_table()}" if mutants else "")
    )


def mutants_score(counts: Mapping[str, int]) -> str:
    """A sentence: how many there are, and who notices them."""
    told = ", ".join(f"{counts[who]} {how}" for who, how in BY_WHOM.items() if counts.get(who))
    return f"{sum(counts.values())} mutants of the core: {told}."


def guards_table() -> str:
    """Markdown: a row for each guard that explains why mutants live."""
    lines = ["| guard | mutants | why they change nothing |", "|---|---:|---|"]
    lines += [f"| {name} | {len(guard.mutants)} | {guard.sentence} |" for name, guard in GUARDS.items()]
    return "\n".join(lines) + "\n"


def museum_picture(explorations: Sequence[Exploration]) -> str:
    """SVG: for each handler the share of its schedules that break a law. Readable on light and on dark."""
    size = explorations[0].size
    height = TOP + ROW * len(explorations) + 20
    span = WIDTH - LEFT - RIGHT
    title = f"Schedules that break a promise ({size}: deliveries, faults, lease expiries)"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">',
        f"<style>{_STYLE}</style>",
        f'<text class="head" x="20" y="32">{escape(title)}</text>',
    ]
    for position, one in enumerate(explorations):
        top = TOP + ROW * position
        width = round(span * one.violating / one.schedules, 1) if one.schedules else 0
        verdict = "good" if not one.violating else "bad"
        laws = ", ".join(one.laws_broken) or "none"
        parts += [
            f'<text x="{LEFT - 12}" y="{top + 18}" text-anchor="end">{escape(one.subject)}</text>',
            f'<text class="small" x="{LEFT - 12}" y="{top + 34}" text-anchor="end">breaks {laws}</text>',
            f'<rect class="all" x="{LEFT}" y="{top + 6}" width="{span}" height="22" rx="3"/>',
            f'<rect class="{verdict}" x="{LEFT}" y="{top + 6}" width="{width}" height="22" rx="3"/>',
            f'<text x="{LEFT + span + 12}" y="{top + 18}">{_share(one)}</text>',
            f'<text class="small" x="{LEFT + span + 12}" y="{top + 34}">{one.violating:,} of {one.schedules:,}</text>',
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _share(one: Exploration) -> str:
    if not one.violating:
        return "0 %"
    share = 100 * one.violating / one.schedules
    return f"{share:.1f} %" if share >= 1 else f"{share:.2f} %"
