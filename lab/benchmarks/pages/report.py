"""The page of the benchmarks: every table and plots, in one HTML file without external resources."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from lab.benchmarks.pages.tables import KILLED, RUSH, TITLES, Document, figures_of, tables_of, targets, where

WIDTH, HEIGHT = 720, 160
"""Of a plot, in its own units; it is drawn as wide as the page allows."""
SERIES = 4
"""Number of line colours; the fifth line has the first colour again."""
_STYLE = (
    ":root{color-scheme:light dark;--ink:#1c2733;--paper:#fff;--rule:#d5dde5;--ours:#1d70b8;--other:#9aa7b3;"
    "--s0:#1d70b8;--s1:#00703c;--s2:#6f777b;--s3:#d4351c}"
    "@media(prefers-color-scheme:dark){:root{--ink:#dfe6ec;--paper:#14191f;--rule:#3a4550;--ours:#5694ca;--other:#6b7883;"
    "--s0:#5694ca;--s1:#5fbf8a;--s2:#a9b3bb;--s3:#f0806c}}"
    "body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:var(--ink);"
    "background:var(--paper)}.wide{overflow-x:auto}"
    "table{border-collapse:collapse;margin:1rem 0;font-size:13px}td,th{border-bottom:1px solid var(--rule);padding:3px 9px;"
    "text-align:right}td:first-child,th:first-child{text-align:left}"
    "figure{margin:1.2rem 0;max-width:45rem;font-size:13px}figcaption{font-weight:600;font-size:15px;margin-bottom:.3rem}"
    ".bars{display:grid;grid-template-columns:minmax(0,18rem) 1fr;gap:2px 12px}"
    ".bars div{display:flex;align-items:center;gap:6px;white-space:nowrap;padding-right:6rem}"
    ".bars i{flex:none;height:13px;min-width:1px;background:var(--other)}.bars i.ours{background:var(--ours)}"
    "svg{display:block;width:100%;height:160px;border-bottom:1px solid var(--rule)}"
    "polyline{fill:none;stroke-width:2;vector-effect:non-scaling-stroke}"
    "svg+p{margin:.2rem 0}svg+p span{margin-right:1.2em;white-space:nowrap}svg+p span::before{content:'\\2014\\2002'}"
    + "".join(f".s{one}{{stroke:var(--s{one});color:var(--s{one})}}" for one in range(SERIES))
    + "@media(max-width:40rem){.bars{grid-template-columns:1fr}.bars div{margin-bottom:4px}}"
)


def page(document: Document) -> str:
    """Return all figures as one HTML page."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>",
        "<title>Oneslot: benchmarks</title>",
        f"<style>{_STYLE}</style><h1>Oneslot: benchmarks</h1>{as_html(where(document))}",
        "<p><code>lab/docs/performance.md</code>, and the modules in <code>lab/benchmarks/</code>, explain the figures.</p>",
        f"<h2>Targets</h2>{as_html(targets(document))}",
    ]
    for part, title in TITLES.items():
        if part in document["parts"]:
            parts += [f"<h2>{html.escape(title)}</h2>", *plots(document, part), as_html(tables_of(document, part))]
    return "".join(parts) + "</html>\n"


def plots(document: Document, part: str) -> Iterator[str]:
    """Yield the plots of a part; none if it has no figures."""
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
            yield lines(f"memory of {who}", series, "MB")


def bars(title: str, named: Sequence[tuple[str, float]], unit: str = "") -> str:
    """Return horizontal bars with their names and values."""
    most = max((value for _, value in named), default=0) or 1
    rows = "".join(
        f"<span>{html.escape(name)}</span><div><i{' class=ours' if 'our' in name else ''} "
        f"style='width:{value / most:.1%}'></i>{number_text(value)} {unit}</div>"
        for name, value in named
    )
    return f"<figure><figcaption>{html.escape(title)}</figcaption><div class='bars'>{rows}</div></figure>"


def lines(title: str, series: Sequence[tuple[str, Sequence[tuple[float, float]]]], unit: str) -> str:
    """Return lines over seconds as SVG, with names below. A series without points is left out."""
    drawn = [(name, each) for name, each in series if each]
    if not drawn:
        return ""
    points = [point for _, each in drawn for point in each]
    right, top = max(x for x, _ in points) or 1, max(y for _, y in points) or 1
    said = html.escape(f"{title}: 0 to {number_text(top)} {unit}, over {number_text(right)} s")
    paths, names = [], []
    for position, (name, each) in enumerate(drawn):
        path = " ".join(f"{x / right * WIDTH:.1f},{HEIGHT - y / top * (HEIGHT - 4):.1f}" for x, y in each)
        paths.append(f"<polyline class='s{position % SERIES}' points='{path}'/>")
        names.append(f"<span class='s{position % SERIES}'>{html.escape(name)}</span>")
    frame = f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' preserveAspectRatio='none' role='img' aria-label='{said}'>"
    return f"<figure><figcaption>{said}</figcaption>{frame}{''.join(paths)}</svg><p>{''.join(names)}</p></figure>"


def as_html(markdown: str) -> str:
    """Return HTML for the Markdown of the tables: tables, paragraphs, bold text and code."""
    parts = []
    for block in markdown.split("\n\n"):
        if block.startswith("|"):
            head, _, *body = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()]
            cells = "".join(f"<th>{_inline(cell)}</th>" for cell in head)
            rows = "".join("<tr>" + "".join(f"<td>{_inline(cell)}</td>" for cell in row) + "</tr>" for row in body)
            parts.append(f"<div class='wide'><table><tr>{cells}</tr>{rows}</table></div>")
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
    """Return a number with two decimals, or none from a hundred up."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.2f}"
