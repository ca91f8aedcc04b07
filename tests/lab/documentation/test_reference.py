"""The pages of docs/look-up say what the code does: each name, default, range and variable."""

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from lab.documentation.reference import LOOK_UP, PAGES, current
from oneslot.cdk.metrics import deliveries_metric
from oneslot.cdk.numbers import FOREVER, LOG_RETENTION_DAYS, Numbers, Thresholds
from oneslot.runtime.record import Delivery
from oneslot.runtime.sqs.queue import Deferral
from oneslot.worker.log import NAMESPACE
from stacks.context import KINDS, OVERRIDABLE, default_of
from stacks.settings import QUEUE_KINDS, RANGES, THRESHOLDS
from stacks.shared.measures import LATENCY_METRIC, OUTCOMES, VIOLATIONS_METRIC, namespace

REPOSITORY = LOOK_UP.parents[1]


def section(page: str, heading: str) -> str:
    """Return the text of a page from a heading to the next of any level."""
    text = (LOOK_UP / f"{page}.md").read_text(encoding="utf-8")
    return re.split(r"^#+ ", text.split(f"# {heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the rows of the tables below a heading."""
    lines = re.findall(r"^\| (`.*) \|$", section(page, heading), re.MULTILINE)
    return [line.split(" | ") for line in lines]


def listed(page: str, heading: str) -> list[str]:
    """Return the names that the list below a heading explains."""
    heads = re.findall(r"^- (`[^:]+): ", section(page, heading), re.MULTILINE)
    return [name for head in heads for name in re.findall(r"`(\w+)`", head)]


def code_of(folder: str) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((REPOSITORY / folder).rglob("*.py")))


@pytest.mark.parametrize("name", PAGES)
def test_page_is_the_current_codes(name: str) -> None:
    assert current(name) == (LOOK_UP / name).read_text(encoding="utf-8"), "run: make figures"


def test_messages_page_has_every_reason_of_the_code() -> None:
    """Those of the consumer's code and of its domain."""
    raised = {*re.findall(r'Unprocessable\(\s*"(\w+)"', code_of("lambda_src") + code_of("oneslot/runtime"))}
    text = (LOOK_UP / "messages.md").read_text(encoding="utf-8")
    known = set(re.findall(r"^\| `(\w+)` \|", text.split("## Reasons")[1], re.MULTILINE))
    others = {"unknown_envelope"}  # of the library; the appointments unpack none
    assert raised - others <= known


@pytest.mark.parametrize("kind", ["book", "cancel"])
def test_messages_page_has_the_fields_of_the_schema(kind: str) -> None:
    schema = json.loads((LOOK_UP / "schemas" / f"{kind}.json").read_text(encoding="utf-8"))
    expected = [[f"`{name}`", each["description"], form(each)] for name, each in schema["properties"].items()]
    assert rows("messages", kind) == expected


def form(field: Mapping[str, Any]) -> str:
    if "format" in field:
        return "RFC 3339 `date-time`"
    if "const" in field or "enum" in field:
        return ", ".join(f"`{value}`" for value in field.get("enum", [field.get("const")]))
    return f"`{field['pattern'].strip('^$')}`"


def test_settings_page_has_each_setting_with_its_default_and_range() -> None:
    numbers = [each.name for each in fields(Numbers)]
    others = [name for name in OVERRIDABLE if name not in numbers]
    for heading, names in (("Numbers of a consumer", numbers), ("Other settings of a stage", others)):
        assert [row[:2] for row in rows("settings", heading)] == [
            [f"`{name}`", default_and_range(name)] for name in names
        ]


def default_and_range(name: str) -> str:
    dev, prod = default_of("dev", name), default_of("prod", name)
    default = f"`{dev or '(empty)'}`" if dev == prod else f"`{dev}`, prod `{prod}`"
    if name in RANGES:
        limit, _ = RANGES[name]
        return f"{default} ({limit[0]:,} to {limit[-1]:,})"
    if name == "log_retention_days":
        return f"{default} ({LOG_RETENTION_DAYS[0]} to {LOG_RETENTION_DAYS[-1]:,})"
    if name == "queue":
        return f"{default} ({', '.join(f'`{kind}`' for kind in QUEUE_KINDS)})"
    return f"{default} (or `{FOREVER}`)" if str(KINDS[name]) == "int | None" else default


def test_construct_page_has_each_threshold_with_its_default() -> None:
    expected = [[f"`{each.name}`", f"`{getattr(THRESHOLDS, each.name)}`"] for each in fields(Thresholds)]
    assert [row[:2] for row in rows("construct", "Alarms")] == expected


WRITTEN = {"ONESLOT_LOCAL_ASSET", "ONESLOT_DELIVERY_LOG", "ONESLOT_WORKER_THREADS", "AWS_LAMBDA_FUNCTION_VERSION"}
"""Variables that Lambda or our programs set for others, and no user does."""


def test_settings_page_has_each_variable_that_the_code_reads() -> None:
    text = code_of("oneslot") + code_of("lambda_src") + code_of("stacks")
    read = {
        *re.findall(r'"(ONESLOT_[A-Z_]+|LEDGER_FORGOTTEN_BEFORE)"', text),
        *re.findall(r'(?:number\(environment, |environment\.get\()"([A-Z]+_[A-Z_]+)"\)', text),
        *(f"ONESLOT_{each.name.upper()}" for each in fields(Deferral)),
    }
    read = {re.sub(r"^ONESLOT_(TABLE|KEY|SEND)_.*", r"ONESLOT_\1_NAME", name) for name in read - WRITTEN}
    assert set(listed("settings", "Environment variables")) == read


def test_logs_page_has_each_field_and_outcome_of_a_delivery() -> None:
    assert listed("logs", "The delivery log") == [each.name for each in fields(Delivery)]
    assert listed("logs", "Outcomes") == list(OUTCOMES)


def test_logs_page_has_each_event_and_metric() -> None:
    code = code_of("oneslot/worker")
    events = {*re.findall(r'\.event\(\s*"(\w+)"', code), *re.findall(r'"(\w+)" if [^\n]* else "\w+",\n', code)}
    assert set(listed("logs", "Events of a worker")) == events
    counters = {name.title().replace("_", "") for name in re.findall(r"\.count\(\s*(\w+)=", code)}
    assert {*re.findall(r"`Worker(\w+)`", section("logs", "Metrics"))} == counters
    own = [deliveries_metric(""), deliveries_metric(OUTCOMES[0]), LATENCY_METRIC, VIOLATIONS_METRIC]
    spaces = {f"`{namespace('STAGE')}`": own, f"`{NAMESPACE}`": ["Worker"]}
    table = re.findall(r"^\| [^`]*`(\w+)`[^|]* \| (`[^|]+`) \|", section("logs", "Metrics"), re.MULTILINE)
    assert table == [(name, space) for space, names in spaces.items() for name in names]
