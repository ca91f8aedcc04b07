"""The page of the benchmarks: every table, and plots of what the targets speak of. One HTML file, nothing from outside."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from benchmarks.tables import KILLED, RUSH, TITLES, Document, figures_of, tables_of, targets, where

WIDTH, BAR, LABEL, HEIGHT = 720, 18, 300, 160
COLOURS = ("#1d70b8", "#00703c", "#9aa7b3", "#d4351c")
_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#1c2733}"
    "table{border-collapse:collapse;margin:1rem 0;font-size:13px}td,th{border-bottom:1px solid #d5dde5;padding:3px 9px;"
    "text-align:right}td:first-child,th:first-child{text-align:left}text{font:12px system-ui,sans-serif;fill:#1c2733}"
)


def page(document: Document) -> str:
    """All figures as one HTML page."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Oneslot: benchmarks</title>",
        f"<style>{_STYLE}</style><h1>Oneslot: benchmarks</h1>{as_html(where(document))}",
        "<p>What each figure means is said at the top of its module in <code>benchmarks/</code>, and in",
        f" <code>docs/performance.md</code>.</p><h2>Targets</h2>{as_html(targets(document))}",
    ]
    for part, title in TITLES.items():
        if part in document["parts"]:
            parts += [f"<h2>{html.escape(title)}</h2>", *plots(document, part), as_html(tables_of(document, part))]
    return "".join(parts) + "</html>\n"


def plots(document: Document, part: str) -> Iterator[str]:
    """The plots of a part; none if it has no figures."""
    figures = figures_of(document, part)
    if not figures:
        return
    if part == "billed_time":
        for service_ms, batch in dict.fromkeys((one["service_ms"], one["batch"]) for one in figures):
            chosen = [one for one in figures if (one["service_ms"], one["batch"]) == (service_ms, batch)]
            title = f"{batch}; a call takes {service_ms:g} ms, a transaction twice that"
            yield bars(title, [(one["handler"], one["billed_ms"]) for one in chosen], "ms")
    elif part == "cold_start":
        yield bars("CPU of a start", [(name, one["cpu_ms"]) for name, one in figures[-1]["starts"].items()], "ms")
        yield bars("what is deployed", list(figures[-1]["package_kb"].items()), "KB")
    elif part == "contention":
        for way in dict.fromkeys(one["way"] for one in figures):
            named = [
                (f"{one['strategy']}, {one['free_slots']} free, {one['candidates']} candidates", one)
                for one in figures
                if one["way"] == way
            ]
            yield bars(f"{way}: retries for each booking", [(name, one["retries_per_booking"]) for name, one in named])
    elif part == "growth":
        sizes = [(f"{one['messages']:,} messages, {one['practices']:,} practices", one["cpu_ms"]) for one in figures]
        yield bars("CPU of a message, without botocore", sizes, "ms")
    elif part in (RUSH, KILLED):
        yield bars("messages a second", [(one["handler"], one["per_second"]) for one in figures])
        yield bars("from sent to booked, 99 of 100", [(one["handler"], one["p99_ms"]) for one in figures], "ms")
        process_ms = [
            (f"{one['handler']}: {process}", spent) for one in figures for process, spent in one["cpu_ms"].items()
        ]
        yield bars("CPU of a message", process_ms, "ms")
        for column, who in ((1, "the largest consumer"), (2, "the embedded AWS")):
            series = [(one["handler"], [(sample[0], sample[column]) for sample in one["memory"]]) for one in figures]
            yield lines(f"memory of {who}, MB, over seconds", series)


def bars(title: str, named: Sequence[tuple[str, float]], unit: str = "") -> str:
    """Horizontal bars with their values, as SVG."""
    most = max((value for _, value in named), default=0) or 1
    parts = [f"<h4>{html.escape(title)}</h4><svg width='{WIDTH}' height='{BAR * len(named) + 4}' role='img'>"]
    for number, (name, value) in enumerate(named):
        top = number * BAR
        length = max(1.0, value / most * (WIDTH - LABEL - 90))
        colour = COLOURS[0] if name.startswith("ours") or "our" in name else COLOURS[2]
        parts.append(
            f"<text x='0' y='{top + 13}'>{html.escape(name)}</text>"
            f"<rect x='{LABEL}' y='{top + 3}' width='{length:.1f}' height='{BAR - 5}' fill='{colour}'/>"
            f"<text x='{LABEL + length + 6:.1f}' y='{top + 13}'>{number_text(value)} {unit}</text>"
        )
    return "".join(parts) + "</svg>"


def lines(title: str, series: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> str:
    """Lines from zero, each with its name at its end, as SVG."""
    points = [point for _, each in series for point in each]
    if not points:
        return ""
    right, top = max(x for x, _ in points) or 1, max(y for _, y in points) or 1
    parts = [f"<h4>{html.escape(title)}</h4><svg width='{WIDTH}' height='{HEIGHT + 24}' role='img'>"]
    parts.append(f"<line x1='0' y1='{HEIGHT}' x2='{WIDTH}' y2='{HEIGHT}' stroke='#d5dde5'/>")
    parts.append(f"<text x='0' y='12'>{number_text(top)}</text>")
    parts.append(f"<text x='{WIDTH - 130}' y='{HEIGHT + 16}'>{number_text(right)} s</text>")
    for position, (name, each) in enumerate(one for one in series if one[1]):
        colour = COLOURS[position % len(COLOURS)]
        drawn = [(x / right * (WIDTH - 130), HEIGHT - y / top * (HEIGHT - 18)) for x, y in each]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)
        parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>")
        x, y = drawn[-1]
        parts.append(f"<text x='{x + 4:.1f}' y='{y + 4:.1f}' style='fill:{colour}'>{html.escape(name)}</text>")
    return "".join(parts) + "</svg>"


def as_html(markdown: str) -> str:
    """The little Markdown that the tables are made of: tables, paragraphs, bold sentences and code."""
    parts = []
    for block in markdown.split("\n\n"):
        if block.startswith("|"):
            head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
            cells = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
            rows = "".join("<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in row) + "</tr>" for row in body)
            parts.append(f"<table><tr>{cells}</tr>{rows}</table>")
        else:
            parts.append(f"<p>{_inline(block)}</p>")
    return "".join(parts)


def _inline(text: str) -> str:
    for mark, tag in (("**", "b"), ("`", "code")):
        pieces = text.split(mark)
        text = "".join(
            piece if number % 2 == 0 else f"\0{tag}\1{piece}\0/{tag}\1" for number, piece in enumerate(pieces)
        )
    return html.escape(text).replace("\0", "<").replace("\1", ">")


def number_text(value: float) -> str:
    """Two decimals, or none from a hundred up."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
