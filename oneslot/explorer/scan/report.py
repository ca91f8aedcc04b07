"""What a scan leaves for people and machines: a table, Markdown, SARIF, and a baseline of known breaches."""

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from oneslot import __version__
from oneslot.errors import Unexpected
from oneslot.explorer.handlers import verdict
from oneslot.explorer.handlers.templates.template import template_file
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.scan.judging import JUDGED, Row, Verdict
from oneslot.explorer.scan.mapping_rules import Finding
from oneslot.explorer.scan.scan import Scan

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
BREACH_RULE, UNJUDGED_RULE = "effects-more-than-once", "not-judged"
ABOUT_UNJUDGED = "The explorer could not run this handler to a verdict, so nothing is said about it."
ABOUT_BREACHES = "A delivery, fault or repeat exists after which the handler's effects are not as if once."
STATUSES: Mapping[Verdict, int] = {
    "breaks": verdict.STATUSES["breaks"],
    "fault": Unexpected.exit_code,
    **dict.fromkeys(("needs an event", "always refuses", "refused"), verdict.STATUSES["needs an event"]),
    "not finished": verdict.STATUSES["not finished"],
}
"""The exit status of what fails a scan, the worst first."""

_COUNTED = {
    "breaks": ("breaks", "break"),
    "needs an event": ("needs an event", "need an event"),
    "always refuses": ("always refuses", "always refuse"),
    "refused": ("is refused", "are refused"),
    "not finished": ("is not finished", "are not finished"),
    "fault": ("met a fault in Oneslot", "met a fault in Oneslot"),
}
"""What the last line says of one function, and of several."""
_HEADINGS = ("function", "source", "verdict", "steps", "why")


def key_of(one: Row | Finding) -> str:
    """Return the name of a breach, a finding or a function without a verdict in a baseline: the cause's, if it has one."""
    if isinstance(one, Finding):
        return f"{one.rule} {one.function} {one.source}"
    if one.verdict not in JUDGED:
        return f"{UNJUDGED_RULE} {one.function} {one.source}"
    return f"{BREACH_RULE} {one.function} {one.source}: {one.cause}"


def failures(scan: Scan, known: Collection[str] = ()) -> list[Row | Finding]:
    """Return what the baseline does not name: breaches, functions without a verdict, findings of severity "error"."""
    found: list[Row | Finding] = [row for row in scan.rows if row.verdict != "holds"]
    found += [finding for finding in scan.findings if finding.severity == "error"]
    return [one for one in found if key_of(one) not in known]


def status(scan: Scan, known: Collection[str] = ()) -> int:
    """Return the exit status: that of the worst failure, where a new breach comes first."""
    found = {one.verdict if isinstance(one, Row) else "breaks" for one in failures(scan, known)}
    return next((status for verdict, status in STATUSES.items() if verdict in found), 0)


def conclusion(scan: Scan, known: Collection[str] = ()) -> str:
    """Return the last line: how many functions are judged, which ones are not, and what the baseline names in vain."""
    named: dict[str, list[str]] = {}
    for row in scan.rows:
        named.setdefault(row.verdict, []).append(row.function)
    judged = sum(row.verdict in JUDGED for row in scan.rows)
    parts = [f"judged {judged} of {len(scan.rows)}"]
    for kind, (one, several) in _COUNTED.items():
        functions = named.get(kind, [])
        said = f"{len(functions)} {one if len(functions) == 1 else several}: {', '.join(dict.fromkeys(functions))}"
        parts += [said] if functions else []
    scanned = {f"{one.function} {one.source}" for one in scan.rows}
    gone = set(known) - {key_of(one) for one in failures(scan)}
    stale = sorted(one for one in gone if one.partition(" ")[2].partition(": ")[0] in scanned)
    return "; ".join([*parts, *([f"remove from the baseline: {', '.join(stale)}"] if stale else [])])


def baseline_text(scan: Scan) -> str:
    """Return the baseline that accepts what this scan found."""
    return json.dumps({"known": sorted(map(key_of, failures(scan)))}, indent=2) + "\n"


def read_baseline(file: Path) -> set[str]:
    """Return the names in a baseline. Raises `NotExplorable` if the file is not one."""
    try:
        return {str(one) for one in json.loads(file.read_text())["known"]}
    except (OSError, RecursionError, ValueError, KeyError, TypeError) as error:
        raise NotExplorable(f"{file} is not a baseline. Write one with --write-baseline {file}.") from error


def document(scan: Scan, known: Collection[str] = ()) -> dict[str, Any]:
    """Return the scan as JSON."""
    new = {key_of(one) for one in failures(scan, known)}
    return {
        "template": scan.template,
        "conclusion": conclusion(scan, known),
        "functions": [{**asdict(row), "new": key_of(row) in new} for row in scan.rows],
        "mappings": [{**asdict(one), "new": key_of(one) in new} for one in scan.findings],
    }


def markdown(scan: Scan, known: Collection[str] = ()) -> str:
    """Return a job's summary: the table, the mappings, and the shortest path of each breach that is not known."""
    lines = [f"## Which handlers of {scan.template} survive?", ""]
    lines += [f"| {' | '.join(_HEADINGS)} |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(map(_cell, cells_of(row, known)))} |" for row in scan.rows]
    if scan.findings:
        lines += ["", "| mapping | rule | why |", "|---|---|---|"]
        for one in scan.findings:
            severity = "known" if key_of(one) in known else one.severity
            rule = f"[{one.rule}]({one.page}) ({severity})"
            lines.append(f"| {_cell(f'{one.function}: {one.source}')} | {rule} | {_cell(one.sentence)} |")
    for row in scan.rows:
        if row.path and key_of(row) not in known:
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", row.path)), default=0))
            title = f"### {_cell(row.function)}: {_cell(row.source)}"
            lines += ["", title, "", _cell(row.why), "", f"{fence}text", row.path, fence]
    lines += ["", conclusion(scan, known)]
    return "\n".join(lines) + "\n"


def cells_of(row: Row, known: Collection[str] = ()) -> tuple[str, str, str, str, str]:
    """Return a row of the table: function, source, verdict, steps of the path, why."""
    why = row.why if row.verdict != "holds" else " ".join(row.reached)
    twice = "; ".join(row.outside)
    why += f"{' ' if why else ''}May go out twice: {twice}." if twice else ""
    verdict = "breaks (known)" if row.verdict == "breaks" and key_of(row) in known else row.verdict
    return row.function, row.source, verdict, str(row.steps or ""), why


def _cell(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return re.sub(r"([\\`<>|\[\]])", r"\\\1", " ".join(text.split("\n")))


def sarif(scan: Scan, known: Collection[str] = ()) -> dict[str, Any]:
    """Return the scan in SARIF 2.1.0: breaches at the handler's line, findings at the function's line in the template."""
    about = {BREACH_RULE: ABOUT_BREACHES, UNJUDGED_RULE: ABOUT_UNJUDGED}
    rules: dict[str, dict[str, Any]] = {
        rule: {"id": rule, "shortDescription": {"text": text}} for rule, text in about.items()
    }
    results = [*_breaches(scan, known)]
    for one in scan.findings:
        about_rule = {"text": one.rule.replace("-", " ")}
        rules[one.rule] = {"id": one.rule, "shortDescription": about_rule, "helpUri": one.page}
        text, at = f"{one.function}, {one.source}: {one.sentence}", _in_template(scan, one.function)
        results.append(_result(one.rule, one.severity, text, at, known=known, key=key_of(one)))
    driver = {"name": "Oneslot", "version": __version__, "rules": list(rules.values())}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _breaches(scan: Scan, known: Collection[str]) -> Iterator[dict[str, Any]]:
    for row in scan.rows:
        if row.verdict == "breaks":
            file, _, line = row.line.rpartition(":")
            at = _location(file, int(line)) if file else _in_template(scan, row.function)
            text = f"{row.function}, {row.source}: {row.why}\n{row.path}"
            yield _result(BREACH_RULE, "error", text, at, known=known, key=key_of(row))
        elif row.verdict not in JUDGED:
            text, at = f"{row.function}, {row.source}: {row.verdict}. {row.why}", _in_template(scan, row.function)
            yield _result(UNJUDGED_RULE, "warning", text, at, known=known, key=key_of(row))


def _result(
    rule: str, level: str, text: str, at: dict[str, Any], *, known: Collection[str], key: str
) -> dict[str, Any]:
    return {
        "ruleId": rule,
        "level": level,
        "message": {"text": text},
        "locations": [at],
        "partialFingerprints": {"oneslotCause/v1": hashlib.sha256(key.encode()).hexdigest()[:32]},
        "baselineState": "unchanged" if key in known else "new",
    }


def _in_template(scan: Scan, function: str) -> dict[str, Any]:
    file = template_file(Path(scan.template))
    own_line = re.compile(rf'\s*"?{re.escape(function)}"?\s*:')
    lines = file.read_text().splitlines()
    return _location(str(file), next((number for number, text in enumerate(lines, 1) if own_line.match(text)), 1))


def _location(file: str, line: int) -> dict[str, Any]:
    return {
        "physicalLocation": {"artifactLocation": {"uri": quote(Path(file).as_posix())}, "region": {"startLine": line}}
    }
