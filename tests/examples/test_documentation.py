"""The documentation: its Python examples run, its links and names exist, and its indexes are complete."""

import json
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from oneslot.operator.commands.docs import section_of
from tests.kits.consumer import NHS_NUMBER, bench, booking, record
from tests.kits.valkey_server import ValkeyServer

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENTATION = REPOSITORY / "docs"
PICTURED = ("do/write-a-consumer.md", "do/choose-a-store.md", "do/keep-order.md", "do/run-a-worker.md")
PAGES = (
    "do/write-a-consumer.md",
    "do/choose-a-store.md",
    "do/send.md",
    "do/make-a-handler-idempotent.md",
    "do/identify-messages.md",
)
ALL_PAGES = sorted(DOCUMENTATION.rglob("*.md"))
LINKING = sorted(
    file
    for pattern in ("*.md", ".github/*.md", "docs/**/*.md", "examples/**/*.md", "lab/**/*.md", "oneslot/**/*.md")
    for file in REPOSITORY.glob(pattern)
)
NEEDS_VALKEY = ("do/choose-a-store.md",)
LONG_WAYS = {
    "oneslot.cdk",
    "oneslot.explorer.handlers.templates",
    "oneslot.runtime.powertools",
    "oneslot.runtime.stores.valkey",
    "oneslot.runtime.sqs.lambda_event",
}
"""The modules that a page may import from: those of an extra, and the one that stands in for Lambda in a test."""
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def text(page: str) -> str:
    return (DOCUMENTATION / page).read_text(encoding="utf-8")


def links(page: Path) -> list[str]:
    return re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8"))


RUN = "import sys\nfor code in sys.argv[1:]:\n    exec(code, {'__name__': '__main__'})"
"""Each block has names of its own; one process a page, because the imports take most of the time."""


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.valkey] if page in NEEDS_VALKEY else []) for page in PAGES]
)
def test_examples_of_page_run(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert FENCE.findall(text(page))
    with ExitStack() as stack:
        if page in NEEDS_VALKEY:
            server = stack.enter_context(ValkeyServer(tmp_path))
            monkeypatch.setenv("VALKEY_URL", f"redis://127.0.0.1:{server.port}")
        command = [sys.executable, "-W", "error", "-c", RUN, *FENCE.findall(text(page))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [REPOSITORY / "README.md", *ALL_PAGES], ids=lambda page: page.name)
def test_page_imports_its_names_from_oneslot(page: Path) -> None:
    imported = re.findall(r"^from (oneslot\.[\w.]+) import", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert set(imported) <= LONG_WAYS


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_fence_names_a_language_and_at_most_a_title(page: Path) -> None:
    """The site shows a fence with other words as prose, and no test finds its commands."""
    opened = re.findall(r"^ *```(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [words for words in opened if not re.fullmatch(r'[a-z]+( title="[^"]+")?', words)] == []


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_to_files(page: Path) -> None:
    assert [link for link in links(page) if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_anchors_lead_to_headings(page: Path) -> None:
    anchors = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8"))
    missing = [f"{link}#{anchor}" for link, anchor in anchors if anchor not in headings(page.parent / link, page)]
    assert missing == []


def test_pages_that_the_code_names_exist() -> None:
    """An error at night sends an operator to a section."""
    folders = ("oneslot", "stacks", "lambda_src", "demo", ".github")
    endings = (".py", ".yml", ".j2")
    files = [file for folder in folders for file in (REPOSITORY / folder).rglob("*") if file.suffix in endings]
    code = "".join(file.read_text(encoding="utf-8") for file in files)
    named = set(re.findall(r"\b((?:docs|lab)/[a-z/-]+\.md)(?:#([a-z-]+))?", code))
    by_command = re.findall(r"oneslot docs ([a-z-]+(?:#[a-z-]+)?)", code)
    assert len(named) + len(by_command) > 15
    assert [page for page in by_command if not section_of(page)] == []
    missing = [page for page, _ in named if not (REPOSITORY / page).exists()]
    assert missing == []
    anchored = [(REPOSITORY / page, anchor) for page, anchor in named if anchor]
    assert [f"{page}#{anchor}" for page, anchor in anchored if anchor not in headings(page, page)] == []


def headings(target: Path, page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = (page if target.is_dir() else target).read_text(encoding="utf-8")
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)]
    return {heading.strip().replace(" ", "-") for heading in plain}


def test_tests_that_the_pages_name_exist() -> None:
    named = {name for page in LINKING for name in re.findall(r"(?:`|::)(test_\w+)`", page.read_text(encoding="utf-8"))}
    files = [*(REPOSITORY / "tests").rglob("test_*.py")]
    defined = {
        name
        for file in files
        for name in re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named
    assert named - defined == set()


@pytest.mark.parametrize("page", PICTURED)
def test_page_has_a_picture(page: str) -> None:
    assert any(link.endswith(".svg") for link in links(DOCUMENTATION / page))


def test_glossary_is_sorted() -> None:
    words = re.findall(r"^- \*\*(.+?)\*\*", text("look-up/glossary.md"), re.MULTILINE)
    assert len(words) > 20
    assert words == sorted(words)


def test_log_makes_a_span_of_each_attempt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Two deliveries of a booking, traced as X-Ray and as W3C do, and one that fails, whose producer traces nothing."""
    provider, ended = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(ended))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    names: dict[str, Any] = {}
    exec(FENCE.findall(text("look-up/logs.md"))[0], names)  # noqa: S102 - the page's own
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_VERSION", "7")
    first = record(booking("m-1"))
    first["attributes"]["AWSTraceHeader"] = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
    traced = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    with bench() as made:
        consumer = made.another_consumer(log=names["log"])
        made.deliver(first, record(booking("m-1"), attributes=traced), consumer=consumer)
        made.dynamodb.delete_table(TableName="ledger")
        made.deliver(record(booking("m-2")), consumer=consumer)
    assert {json.loads(line)["function_version"] for line in capsys.readouterr().out.splitlines()} == {"7"}
    spans = ended.get_finished_spans()
    assert [(str((span.attributes or {})["oneslot.outcome"]), span.status.status_code.name) for span in spans] == [
        ("booked", "UNSET"),
        ("duplicate", "UNSET"),
        ("failed", "ERROR"),
    ]
    assert [[(f"{link.context.trace_id:x}", f"{link.context.span_id:x}") for link in span.links] for span in spans] == [
        [("5759e988bd862e3fe1be46a994272793", "53995c3f42cd8ad8")],
        [("4bf92f3577b34da6a3ce929d0e0e4736", "f067aa0ba902b7")],
        [],
    ]
    assert not [span for span in spans if NHS_NUMBER in span.to_json() or "A81001" in span.to_json()]
