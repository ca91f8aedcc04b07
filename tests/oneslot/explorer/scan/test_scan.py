"""The scan of a template: each function's verdict, and what comes out for people, CI and pull requests."""

import ast
import json
import os
import re
import subprocess
import sys
import zipfile
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oneslot.errors import InvalidScenario
from oneslot.explorer.handlers.given import Given
from oneslot.explorer.handlers.templates.sources import SNS, FunctionSource
from oneslot.explorer.handlers.verdict import Result
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.scan import judging, report
from oneslot.explorer.scan.judging import NO_TEST, Row, Verdict
from oneslot.explorer.scan.replayed import Replay
from oneslot.explorer.scan.scan import Scan, scan
from oneslot.explorer.scan.written_test import SHOWS_NOTHING, Tracked, why_not, written_test
from oneslot.operator.commands.explore.scan import scan as command
from tests.oneslot.explorer.scan.shop import row_of, written


@pytest.fixture(scope="module")
def scanned(tmp_path_factory: pytest.TempPathFactory) -> Scan:
    return scan(written(tmp_path_factory.mktemp("shop")), budget=120)


def test_a_breach_is_written_as_a_test_when_a_scenario_names_the_tables(tmp_path: Path) -> None:
    (folder := tmp_path / "events").mkdir()
    (folder / "Counter.py").write_text('tables = {"Table": "id"}')

    (row,) = scan(written(tmp_path), only=["Counter"], events=folder).rows

    assert (row.verdict, "def test_" in row.test) == ("breaks", True)


@pytest.mark.parametrize(
    ("function", "verdict", "word"),
    [
        ("Orders", "holds", "every level"),
        ("Counter", "breaks", "Lambda delivers some messages twice"),
        ("Api", "holds", "every level"),
        ("Grouped", "holds", "every level"),
        ("Picky", "always refuses", "--events"),
        ("Careful", "holds", "every level"),
        ("Subscribed", "holds", "every level"),
        ("Hashed", "breaks", "2 rows"),
        ("Leave", "breaks", "SystemExit: 1"),
        ("Report", "holds", "holds at every level"),
        ("Node", "refused", "nodejs22.x"),
        ("Missing", "refused", "sam build"),
        ("Alexa", "refused", "AlexaSkill"),
        ("Once", "refused", "no Retry"),
        ("Nameless", "refused", "no Handler"),
        ("Inline", "always refuses", "it answers 400"),
    ],
)
def test_each_function_has_a_verdict_and_others_go_on(scanned: Scan, function: str, verdict: str, word: str) -> None:
    row = row_of(scanned, function)

    assert row.verdict == verdict
    assert word in row.why


def test_sentence_names_only_options_that_scan_has(scanned: Scan) -> None:
    sentences = [*(row.why for row in scanned.rows), *(one.sentence for one in scanned.findings)]
    options = {option for parameter in command.params for option in parameter.opts}

    assert set(re.findall(r"--[a-z-]+", " ".join(sentences))) <= options


def test_row_that_holds_names_the_lines_that_no_schedule_ran(scanned: Scan) -> None:
    (text,) = row_of(scanned, "Careful").reached
    line = 1 + (Path(scanned.template).parent / "src" / "app.py").read_text().splitlines().index("        return")

    assert text == f"No schedule runs: app.py:{line}."
    assert text in report.markdown(scanned)


def test_first_events_grow_and_assumed_values_are_named(scanned: Scan) -> None:
    orders, careful, grouped = (row_of(scanned, name) for name in ("Orders", "Careful", "Grouped"))

    assert json.loads(orders.first) == {"order": "order-1", "count": 1}
    assert json.loads(careful.first) == json.loads(grouped.first) == {"order": "order-1"}
    assert orders.assumed == ("Stage=stage", "BANK_URL=https://bank-url", "LOG_LEVEL=INFO")


def test_a_breach_has_its_path_and_the_line_of_its_call(scanned: Scan) -> None:
    counter = row_of(scanned, "Counter")
    file, _, line = counter.line.rpartition(":")

    found = [one in counter.path for one in ("ignore=", "update Table id-1")]
    assert (counter.steps > 0, *found) == (True, False, True)  # to ignore it would hide the breach
    assert counter.story(verbose=False) == f'made event: {{"customer": {{"id": "id-1"}}}}\n{counter.short}'
    assert Path(file).read_text().splitlines()[int(line) - 1].strip().startswith("table.update_item(")


@pytest.mark.parametrize(("function", "why"), [("Hashed", "reads a hash"), ("Leave", "breaks without a fault")])
def test_row_says_why_its_breach_has_no_test(scanned: Scan, function: str, why: str) -> None:
    said = row_of(scanned, function).test

    assert said.startswith(NO_TEST)
    assert why in said


def test_an_event_of_a_folder_replaces_the_made_one(tmp_path: Path) -> None:
    event = {"Records": [{"Sns": {"Message": json.dumps({"customer": {"id": "c-7"}})}}]}
    (tmp_path / "Counter.json").write_text(json.dumps(event))

    (row,) = scan(written(tmp_path), only=["Counter"], events=tmp_path).rows

    assert "update Table c-7" in row.path
    assert row.first == ""


def test_a_row_that_the_handler_reads_is_made_or_given(tmp_path: Path) -> None:
    template, folder = written(tmp_path), tmp_path / "events"
    folder.mkdir()
    (without,) = scan(template, only=["Reader"], events=folder).rows
    (folder / "Reader.py").write_text('rows = {"Table": [{"id": "id-1"}]}')
    (given,) = scan(template, only=["Reader"], events=folder).rows

    assert (without.verdict, given.verdict) == ("holds", "holds")
    assert json.loads(without.first) == {"payload": {"id": "id-1"}, "rows": {"Table": [{"id": "id-1"}]}}
    assert json.loads(given.first) == {"id": "id-1"}


@pytest.mark.parametrize(
    ("name", "text", "field"),
    [
        ("Reader.json", '{"Records": 5}', "event"),
        ("Reader.json", "null", "event"),
        ("Reader.json", "{", "is not JSON"),
        ("Reader.py", "nonsense = 1", "nonsense"),
        ("Reader.py", "batch = 0", "batch"),
        ("Reader.py", "raise ValueError", "raised ValueError"),
        ("Reader.py", 'rows = {"Table": [{"x": 1}]}', "lacks the key id"),
        ("Reader.py", 'tables = {"T1": "id"}; rows = {"Table": []}', "rows has the table Table"),
    ],
)
def test_a_file_of_events_is_refused_by_the_field_when_it_is_not_valid(
    name: str, text: str, field: str, tmp_path: Path
) -> None:
    template = written(tmp_path)
    (tmp_path / name).write_text(text)
    arguments = [str(template), "--function", "Reader", "--events", str(tmp_path)]

    result = CliRunner().invoke(command, arguments, standalone_mode=False)

    assert isinstance(result.exception, InvalidScenario)
    assert field in str(result.exception)


BOMB = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
"""Aliases of YAML that stand for 10 ** 29 values."""


@pytest.mark.parametrize(
    ("text", "word", "options"),
    [
        (None, "Absent", {"only": ["Absent"]}),
        (None, r"no parameter Nope\. Name one of Stage\.", {"parameters": {"Stage": "prod", "Nope": "1"}}),
        ("Resources: {A: {Type: AWS::SQS::Queue}}", "no function", {}),
        ("{}", "Resources", {}),
        ("a: [", "cannot be read", {}),
        ("[" * 1_500 + "]" * 1_500, "more than 100 levels", {}),
        (BOMB, "more than 1,000,000 values", {}),
        ("Resources: {F: [1]}", "F is not a resource", {}),
        ("Resources: {F: {Type: AWS::SQS::Queue, Properties: [1]}}", "F is not a resource", {}),
        ("\udcff", "cannot be read", {}),
    ],
)
def test_a_scan_is_refused_when_template_and_options_leave_nothing_to_scan(
    tmp_path: Path, text: str | None, word: str, options: dict[str, Any]
) -> None:
    template = written(tmp_path)
    if text is not None:
        template.write_text(text, errors="surrogateescape")

    with pytest.raises(NotExplorable, match=word):
        scan(template, **options)


def test_packages_of_each_function_are_installed_apart(tmp_path: Path) -> None:
    resources: dict[str, Any] = {"Topic": {"Type": "AWS::SNS::Topic"}}
    for name, version in (("First", "1.0"), ("Second", "2.0"), ("Broken", "")):
        orders = {"Orders": {"Type": "SNS", "Properties": {"Topic": {"Ref": "Topic"}}}}
        properties = {"Runtime": "python3.12", "Handler": "app.handler", "CodeUri": name, "Events": orders}
        resources[name] = {"Type": "AWS::Serverless::Function", "Properties": properties}
        (folder := tmp_path / name).mkdir()
        (folder / "app.py").write_text(f"import rates\ndef handler(event, _): assert rates.VERSION == '{version}'")
        rates = f"rates-{version}"
        (folder / "requirements.txt").write_text("--no-index\n--find-links .\n-r more.txt\n")  # equal, of its folder
        (folder / "more.txt").write_text("rates\n")
        if version:
            with zipfile.ZipFile(folder / f"{rates}-py3-none-any.whl", "w") as packed:
                packed.writestr("rates.py", f"VERSION = '{version}'")
                info = f"{rates}.dist-info"
                packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: rates\nVersion: {version}\n")
                packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
                packed.writestr(f"{info}/RECORD", "")
    (tmp_path / "template.json").write_text(json.dumps({"Resources": resources}))
    rows = scan(tmp_path / "template.json", packages=tmp_path / "packages").rows
    (tmp_path / "Second/more.txt").write_text("rates==99.0\n")
    again = scan(tmp_path / "template.json", packages=tmp_path / "packages", only=["Second"]).rows

    assert [row.verdict for row in rows] == ["holds", "holds", "refused"]
    assert [row.why for row in (rows[2], *again)] == [
        f"pip cannot install {tmp_path}/{name}/requirements.txt: Could not find a version that satisfies the requirement "
        f"{wanted}. Correct it, or scan without --packages."
        for name, wanted in (("Broken", "rates"), ("Second", "rates==99.0"))
    ]


def test_replay_keeps_packages_below_the_handlers_folder() -> None:
    Replay(handler="", folders=[sys.prefix], event=0, env={}, resources=(), reads_failures=False)._forget_modules()
    assert "moto.core" in sys.modules


@pytest.mark.parametrize("option", ["--sarif", "--summary", "--write-baseline", "--write-test", "--baseline"])
def test_command_is_refused_before_the_scan_when_an_option_names_a_wrong_place(tmp_path: Path, option: str) -> None:
    template, file = written(tmp_path), tmp_path / "file"
    file.write_text("no folder")

    done = CliRunner().invoke(command, [str(template), option, str(file / "below")])

    assert (done.exit_code, f"'{option}'" in done.stderr, done.stdout) == (2, True, "")


def test_sarif_places_breaches_in_the_handler_and_rules_in_the_template(scanned: Scan) -> None:
    results = report.sarif(scanned)["runs"][0]["results"]
    at = {one["ruleId"]: one["locations"][0]["physicalLocation"] for one in reversed(results)}

    assert at[report.BREACH_RULE]["artifactLocation"]["uri"].endswith("src/app.py")
    line = at["no-failure-destination"]["region"]["startLine"]
    named = Path(scanned.template).read_text().splitlines()[line - 1].strip()
    assert named in {f"{row.function}:" for row in scanned.rows}


def test_a_known_breach_is_marked_and_does_not_fail(scanned: Scan, tmp_path: Path) -> None:
    (baseline := tmp_path / "baseline.json").write_text(report.baseline_text(scanned))
    known = report.read_baseline(baseline)

    broken = [one for one in report.failures(scanned) if isinstance(one, Row) and one.verdict == "breaks"]
    assert [report.key_of(one) for one in broken] == [
        f"{report.BREACH_RULE} {function} SNS Topic: {cause}"
        for function, cause in {
            "Counter": "as-if-once: Table.n; at update_item Table",
            "Hashed": "as-if-once: Table; at put_item Table",
            "Leave": "fails without a fault: SystemExit",
        }.items()
    ]
    assert report.failures(scanned, known) == []
    assert "breaks (known)" in report.markdown(scanned, known)
    assert not any(one["new"] for one in report.document(scanned, known)["functions"])


def test_breach_is_new_when_another_one_of_its_function_is_known(scanned: Scan, tmp_path: Path) -> None:
    template, source = written(tmp_path), tmp_path / "src" / "app.py"
    known = {report.key_of(one) for one in report.failures(scanned)}
    source.write_text(f"\n\n{source.read_text()}")
    moved = scan(template, only=["Counter"])
    source.write_text(source.read_text().replace("ADD n :one", "ADD points :one"))
    changed = scan(template, only=["Counter"])

    assert report.failures(moved, known) == []
    assert [report.key_of(one) for one in report.failures(changed, known)] == [
        f"{report.BREACH_RULE} Counter SNS Topic: as-if-once: Table.points; at update_item Table"
    ]


def test_command_fails_for_a_new_breach_and_writes_what_ci_reads(tmp_path: Path) -> None:
    template, sarif, summary, baseline = (
        written(tmp_path),
        *(tmp_path / name for name in ("s.sarif", "s.md", "known.json")),
    )
    scanning = [str(template), "--function", "Counter"]
    run = CliRunner().invoke

    first = run(command, [*scanning, "--sarif", str(sarif), "--summary", str(summary)], standalone_mode=False)
    writing = run(command, [*scanning, "--json", "--write-baseline", str(baseline)], standalone_mode=False)
    second = run(command, [*scanning, "--baseline", str(baseline)], standalone_mode=False)

    assert (first.return_value, writing.return_value, second.return_value) == (1, 0, 0)
    assert [row["function"] for row in json.loads(writing.stdout)["functions"]] == ["Counter"]
    assert json.loads(sarif.read_text())["version"] == "2.1.0"
    assert "| Counter | SNS Topic | breaks |" in summary.read_text()


def test_scan_fails_for_each_function_without_a_verdict_that_the_baseline_does_not_name(scanned: Scan) -> None:
    row = row_of(scanned, "Picky")
    verdicts: list[Verdict] = ["holds", "breaks", "fault", "refused", "not finished"]
    rows = {one: replace(row, function=letter, verdict=one) for letter, one in zip("ABCDE", verdicts, strict=True)}

    def status(*given: Row) -> int:
        return report.status(Scan(scanned.template, given, ()))

    assert [status(rows["holds"], one) for one in (row, *rows.values())] == [4, 0, 1, 70, 4, 3]
    assert status(row, *rows.values()) == 1
    assert report.status(Scan(scanned.template, (row,), ()), {report.key_of(row)}) == 0
    assert report.conclusion(Scan(scanned.template, (row, *rows.values()), ())) == (
        "judged 2 of 6; 1 breaks: B; 1 always refuses: Picky; 1 is refused: D; 1 is not finished: E; "
        "1 met a fault in Oneslot: C"
    )
    known = {report.key_of(one) for one in (row, replace(rows["breaks"], cause="fixed"))}
    assert report.conclusion(Scan(scanned.template, (rows["breaks"],), ()), known).endswith(": fixed")


def test_row_says_that_a_fault_is_oneslots_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(given: Any) -> Any:
        raise AttributeError("no such attribute")

    monkeypatch.setattr(judging, "exploration_of", failing)

    (row,) = scan(written(tmp_path), only=["Orders"]).rows

    assert (row.verdict, "fault in Oneslot" in row.why, "no such attribute" in row.path) == ("fault", True, True)


HOSTILE = 'C:\\Users\\x""" + print("run") + """'


def test_what_a_scan_writes_shows_a_hostile_value_as_it_is(tmp_path: Path, scanned: Scan) -> None:
    path = f"put Table {HOSTILE}\n```\n# heading"
    row = replace(row_of(scanned, "Counter"), path=path, why="breaks\n# heading", line=f"{tmp_path}/a b%.py:1")
    result = Result("app.f", "breaks", HOSTILE, path)

    shown = report.markdown(Scan(scanned.template, (row,), ()))
    written = written_test(
        "Counter", FunctionSource(SNS, "Topic"), Given("app.f", event={}, path=tmp_path, tables={}, env={}), result
    )
    (found,) = report.sarif(Scan(scanned.template, (row,), ()))["runs"][0]["results"]

    assert "\n# heading\n````\n" in shown
    assert "\n# heading" not in shown.partition("````")[0]
    assert [path in str(ast.get_docstring(ast.parse(written))), "print" in written.partition("import")[2]] == [
        True,
        False,
    ]
    assert found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].endswith("/a%20b%25.py")
    assert found["partialFingerprints"].keys() == {"oneslotCause/v1"}


def test_file_of_a_build_is_named_by_its_tracked_copy(tmp_path: Path) -> None:
    for folder in ("src/shop", "build/F/shop"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "app.py").write_text("def handler(): ...\n")
    for verb in (["init", "-q"], ["add", "src"]):
        subprocess.run(["git", "-C", str(tmp_path), *verb], check=True)  # noqa: S607

    tracked = Tracked.around(tmp_path / "build")

    assert tracked.file(tmp_path / "build/F/shop/app.py") == tmp_path / "src/shop/app.py"
    assert tracked.file(tmp_path / "src/shop/app.py") == tmp_path / "src/shop/app.py"
    assert tracked.folder(tmp_path / "build/F", Path("shop/app.py")) == tmp_path / "src"
    assert Tracked.around(tmp_path / "none").folder(tmp_path / "build/F", Path("shop/app.py")) == tmp_path / "build/F"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def test(): assert [] == [1]", ""),
        ("def test(): pass", "it passes on moto"),
        ("def test(): raise KeyError('order')", "KeyError: 'order'"),
        (f"def test(): assert 0, {SHOWS_NOTHING!r}", SHOWS_NOTHING),
    ],
)
def test_written_test_is_kept_when_it_fails_at_a_last_assertion(text: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "test_one.py").write_text(text)

    found = why_not(tmp_path / "test_one.py")

    assert (why in found, bool(found)) == (True, bool(why))


ELSEWHERE = """
        boto3.client("s3").put_object(Bucket="literal-bucket", Key="k", Body=b"x")
        boto3.client("sns").publish(TopicArn="arn:aws:sns:eu-west-2:444455556666:literal.fifo", Message="m",
                                    MessageGroupId="g", MessageDeduplicationId="d")
        boto3.client("sqs").send_message(
            QueueUrl="https://sqs.eu-west-2.amazonaws.com/111122223333/literal", MessageBody="m"
        )
        entry = {"EventBusName": "literal", "Source": "s", "DetailType": "d", "Detail": "{}"}
        boto3.client("events").put_events(Entries=[entry])
"""
"""Calls that name what is not in the template."""
LEASE = """
        now, free = int(time.time()), "attribute_not_exists(id) OR ended < :now"
        try:
            table.put_item(Item={"id": "lease", "ended": now + 60}, ConditionExpression=free,
                           ExpressionAttributeValues={":now": now})
        except table.meta.client.exceptions.ConditionalCheckFailedException:
            if "is_done" not in table.get_item(Key={"id": "lease"})["Item"]:
                raise
            continue
"""
"""A row that refuses a retry until it has expired, as that of Powertools does after a crash."""
DONE = '        table.put_item(Item={"id": "lease", "ended": 10**11, "is_done": True})\n'


@pytest.mark.slow
def test_a_written_test_fails_on_moto_alone_until_the_handler_is_correct(tmp_path: Path) -> None:
    template = written(tmp_path)
    source = tmp_path / "src" / "app.py"
    last = '            ExpressionAttributeValues={":one": 1},\n        )\n'
    text = source.read_text().replace(last, last + ELSEWHERE + DONE).replace('["customer"]\n', '["customer"]' + LEASE)
    source.write_text(f"import time\n{text}")
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:oneslot", "-p", "no:cacheprovider", "tests"]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def outcome() -> str:
        return subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False).stdout

    with chdir(tmp_path):
        CliRunner().invoke(command, [template.name, "--function", "Counter", "--write-test", "tests"])
    before = outcome()
    fixed = source.read_text().replace("ADD n :one", "SET n = :one, changed = :at")  # with a time of its own
    source.write_text(fixed.replace('":one": 1}', '":one": 1, ":at": str(time.time())}'))
    after = outcome()
    source.write_text(source.read_text().replace("now + 60", "now + 10**9"))
    stuck = outcome()

    assert "oneslot" not in "".join(file.read_text().partition("import")[2] for file in tmp_path.glob("tests/*.py"))
    assert "Decimal('2')" in before
    assert "1 passed" in after
    assert "the event is never done" in stuck
