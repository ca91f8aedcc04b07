"""Each verb in each state of a stack, as people and programs read it: its exit status and all that it writes.

The expected texts are in `transcripts/`, one file a verb. To renew them after a change that you mean, and then to read
the difference:

    RENEW_TRANSCRIPTS=1 python -m pytest -p no:xdist tests/oneslot/operator/commands/test_transcripts.py
"""

import difflib
import errno
import json
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from oneslot.errors import AlreadyRunning
from oneslot.operator.target import Target
from oneslot.runtime.stores.dynamodb import DynamoDBLedger
from oneslot.runtime.values import to_attributes
from tests.kits.consumer import NHS_NUMBER, booking, cancellation, record
from tests.kits.moto_stack import NOW, MotoStack, invoke, put_one_of_each, write_failures

ROOT = str(Path(__file__).parents[4])
THIS = "HERE/tests/oneslot/operator/commands/test_transcripts.py"
FOLDER = Path(__file__).with_name("transcripts")
FAR = 4_000_000_000_000
VARYING = (  # each in the words of its output: a transcript is the same on every day and machine
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID"),
    (r"of [0-9a-f]{8}:", "of UUID:"),
    (r"\b[0-9a-f]{64}\b", "DIGEST"),
    (r"\bid-[0-9]+\b", "CLAIM"),
    (r"\b[0-9a-f]{32}\b", "CLAIM"),
    (r"20[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9:.]+(Z|\+00:00)?", "TIME"),
    (r"20[0-9]{6}T[0-9]{6}Z?(-[0-9a-f]{8})?", "NOW"),
    (r"\b1[5-9][0-9]{8}([0-9]{3})?\b", "EPOCH"),
    (r"\b[0-9]+(\.[0-9]+)? (ms|s|min|d|h)\b", "SPAN"),
    (r'("?(seconds|attempt_ms|counted_seconds_ago|rate|seconds_left)"?): [0-9][0-9.e-]*', r"\1: SPAN"),
    (r"\b999[0-9]{7}\b", "MADE-UP NUMBER"),
    (r"^! [A-Z][a-z -]+: SPAN\n", ""),  # progress of a slow machine
    (r"^! Usage: .*\n! Try '.*\n! *\n", ""),  # click's own
    (r"^(! .*\n)\1", r"\1"),
    (r"[\w.-]+@[\w.-]+\b", "OPERATOR"),
    (r"^[┌┬┐├┼┤└┴┘┏┳┓┡╇┩─━]+\n", ""),
    (r"process [0-9]+", "process NUMBER"),
    (r" +", " "),
    (r" +$", ""),
)


def nothing(stack: MotoStack) -> None:
    """No stack runs."""
    (stack.home / "state.json").unlink()


def fresh(stack: MotoStack) -> None:
    """Nothing was sent."""


def gone(stack: MotoStack) -> None:
    """The process of the local stack was killed."""
    assert stack.target.local is not None
    replace(stack.target.local, supervisor_start=1).write(stack.home)


def no_log(stack: MotoStack) -> None:
    """A message failed all its receives, and the delivery log is gone."""
    stack.put_dead_letter(booking("m-1", **NOW))


def waiting(stack: MotoStack) -> None:
    """The queue has a message."""
    stack.bench.sqs.send_message(QueueUrl=stack.target.outputs.queue_url, MessageBody=json.dumps(booking("m-1")))


def booked(stack: MotoStack) -> None:
    """A booking that was delivered twice, its cancellation, a conflict, and a request of each other outcome."""
    bad = booking("m-1", delivery_channel="Video")
    stack.bench.deliver(record(booking("m-1")), record(booking("m-1")), record(cancellation("m-1")), record(bad))
    passed = {"not_before": "2020-01-01T08:00:00Z", "not_after": "2020-01-02T08:00:00Z"}
    full = {"not_before": "2099-12-01T08:00:00Z", "not_after": "2099-12-02T08:00:00Z"}
    stack.bench.deliver(record(booking("m-2", practice="ZZZ999")), record(booking("m-3", **passed)))
    stack.bench.deliver(record(booking("m-4", **full)), record(booking("m-5", nhs_number="9990000019")))
    stack.write_log()


def forgotten(stack: MotoStack) -> None:
    """The ledger's rows of a booking, of a cancelled one and of a conflict have expired."""
    stack.bench.deliver(record(booking("m-1")), record(booking("m-3")))
    stack.bench.deliver(record(cancellation("m-3", "c-3")), record(booking("m-4")), record(cancellation("m-5", "c-5")))
    for name in ("m-1", "m-3", "m-4"):
        stack.bench.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": name}})
    stack.bench.deliver(record(booking("m-4", delivery_channel="Video")))


def archived(stack: MotoStack) -> None:
    """`oneslot send` sent one of two requests."""
    file = stack.home / "mine.ndjson"
    file.write_text(json.dumps(booking("m-1")))
    assert invoke("send", "--file", str(file)).exit_code == 0
    stack.consume()
    stack.bench.deliver(record(booking("m-2")))
    stack.write_log()


def letters(stack: MotoStack) -> None:
    """A dead letter of each outlook."""
    put_one_of_each(stack)
    stack.write_log()


def hidden(stack: MotoStack) -> None:
    """Another reader hides a dead letter."""
    stack.put_dead_letter(booking("m-1", **NOW))
    stack.bench.sqs.receive_message(QueueUrl=stack.target.outputs.dead_letter_queue_url, VisibilityTimeout=3_600)


def failing(stack: MotoStack) -> None:
    """A message failed all its receives, and another fails now. One failed once, one long ago, and one was ended since."""
    write_failures(stack, "m-1", stack.put_dead_letter(booking("m-1", **NOW)), receives=10)
    write_failures(stack, "m-2", receives=3)
    write_failures(stack, "m-3", stack.put_dead_letter(booking("m-3", **NOW)), receives=1)
    write_failures(stack, "m-4", receives=9, at_ms=int(time.time() - 3_600) * 1_000)
    write_failures(stack, "m-5", receives=3, ended="quarantined")


def claims(stack: MotoStack) -> None:
    """Consumers hold a lease, died under one, and released one."""
    ledger = DynamoDBLedger(stack.bench.dynamodb, "ledger", retention_seconds=None)
    for name, lease_until in (("leased", FAR), ("expired", 1), ("released", 0)):
        ledger.claim(name, "hash", lease_until)


def paused(stack: MotoStack) -> None:
    """An operator has paused the consumer."""
    assert invoke("pause", "--reason", "INC-12", "--yes").exit_code == 0


def without(table: str) -> Callable[[MotoStack], None]:
    def missing(stack: MotoStack) -> None:
        """A table is missing."""
        booked(stack)
        stack.put_dead_letter(booking("m-1", **NOW))
        stack.put_dead_letter(booking("m-6", **NOW))
        stack.bench.dynamodb.delete_table(TableName=table)

    return missing


def torn(stack: MotoStack) -> None:
    """A line of the log is malformed."""
    if not stack.bench.deliveries:
        booked(stack)
    assert stack.target.local is not None
    with Path(stack.target.local.log_file).open("a") as log:
        log.write('{"message": "delivery", "message_id": "m-1"}\n')


SLOT = {"practice": "A81001", "start": "2026-11-23T08:00:00Z"}


def malformed(stack: MotoStack) -> None:
    """Somebody wrote rows and a line by hand."""
    booked(stack)
    stack.put_dead_letter(booking("by-hand", **NOW))
    for table, row in (
        ("ledger", {"message_id": "by-hand", "consumption_count": 1, "updated": 1}),
        ("appointments", {**SLOT, "appointment_id": "m-9", "status": "booked", "created": 1}),
        ("slots", {**SLOT, "slot_id": "s"}),
    ):
        stack.bench.dynamodb.put_item(TableName=table, Item=to_attributes(row))
    torn(stack)


def broken(stack: MotoStack) -> None:
    """A request lost its row, and a slot is booked twice."""
    stack.bench.deliver(record(booking("m-1")), record(booking("m-2")))
    stack.write_log()
    rows = {row["appointment_id"]: row for row in stack.bench.rows("appointments")}
    place = {name: rows["m-1"][name] for name in ("practice", "slot_id", "start", "end")}
    stack.bench.dynamodb.put_item(TableName="appointments", Item=to_attributes(rows["m-2"] | place))
    stack.bench.dynamodb.delete_item(TableName="ledger", Key={"message_id": {"S": "m-1"}})


NO_LEDGER, NO_SLOTS, NO_APPOINTMENTS = (without(name) for name in ("ledger", "slots", "appointments"))
MISSING = {"no ledger": NO_LEDGER, "no slots": NO_SLOTS, "no appointments": NO_APPOINTMENTS}
STATES: dict[str, Callable[[MotoStack], None]] = {
    **{
        each.__name__: each
        for each in (nothing, fresh, gone, waiting, booked, forgotten, letters, hidden, failing, no_log, claims)
    },
    **{each.__name__: each for each in (archived, paused, torn, malformed, broken)},
    **MISSING,
}
ONCE = "--timeout 0.1"
ROWS: dict[str, list[tuple[str, str]]] = {
    "status": [
        (state, "status")
        for state in ("gone", "fresh", "waiting", "booked", "failing", "paused", "malformed", "no ledger", "no slots")
    ],
    "watch": [
        (state, f"watch {ONCE}") for state in ("waiting", "booked", "failing", "paused", "malformed", "no ledger")
    ]
    + [(state, f"watch --until-drained {ONCE}") for state in ("fresh", "waiting")],
    "env": [("nothing", "env"), ("fresh", "env")],
    "check": [
        (state, "check")
        for state in (
            *("nothing", "fresh", "waiting", "hidden", "booked", "archived"),
            *("torn", "malformed", "broken", "no ledger"),
        )
    ],
    "inspect": [
        *((state, "inspect m-1") for state in ("booked", "letters", "failing", "no ledger")),
        *(("booked", f"inspect {name}") for name in ("c-1", "m-3", "m-5")),
        *(("claims", f"inspect {name}") for name in ("leased", "expired", "released")),
        *(("forgotten", f"inspect m-{number}") for number in (4, 5)),
        ("malformed", "inspect by-hand"),
        ("malformed", "inspect m-9"),
        ("no ledger", "inspect m-3"),
        ("no ledger", "inspect unknown"),
    ],
    "dlq-list": [
        *((state, "dlq list") for state in ("fresh", "letters", "hidden", "failing", "no_log", "malformed", *MISSING)),
        ("letters", "dlq list --reason receives_exausted"),
    ],
    "dlq-redrive": [
        ("fresh", "dlq redrive --yes"),
        ("letters", "dlq redrive"),
        ("letters", "dlq redrive --yes"),
        ("letters", "dlq redrive unknown absent --yes"),
        ("letters", "dlq redrive retried unknown --yes"),
        ("letters", "dlq redrive --reason receives_exausted"),
        ("letters", "dlq redrive unknown --even-failing --yes"),
        ("hidden", "dlq redrive m-1"),
        ("no ledger", "dlq redrive --all --yes"),
    ],
    "dlq-drop": [
        ("fresh", "dlq drop --all --yes"),
        ("letters", "dlq drop"),
        ("letters", "dlq drop --all"),
        ("letters", "dlq drop --all --yes"),
        ("letters", "dlq drop retried --yes"),
        ("letters", "dlq drop duplicate retried"),
        ("letters", "dlq drop duplicate retried --yes"),
        ("letters", "dlq drop retried --accept-loss --yes"),
        ("no ledger", "dlq drop --all --accept-loss --yes"),
    ],
    "ledger-show": [
        *(("claims", f"ledger show {name}") for name in ("leased", "expired", "released", "absent")),
        ("booked", "ledger show m-1"),
        ("malformed", "ledger show by-hand"),
    ],
    "ledger-unlock": [
        *(("claims", f"ledger unlock {how}") for how in ("leased", "leased --yes", "expired --yes", "absent")),
        ("booked", "ledger unlock m-1 --yes"),
        ("malformed", "ledger unlock by-hand --yes"),
    ],
    "ledger-forget": [
        *(("booked", f"ledger forget {how}") for how in ("m-1", "m-1 --yes", "m-3")),
        *(("claims", f"ledger forget {how}") for how in ("leased --yes", "expired")),
        ("malformed", "ledger forget by-hand"),
    ],
    "pause": [
        ("fresh", "pause --reason INC-12"),
        ("fresh", "pause --reason INC-12 --yes"),
        ("paused", "pause --reason another --yes"),
        ("fresh", "pause --reason ! --yes"),
    ],
    "resume": [("fresh", "resume --yes"), ("paused", "resume"), ("paused", "resume --yes")],
    "send": [("fresh", "send"), ("nothing", "send --count 1")],
    "export": [("booked", "export --output HOME/history"), ("waiting", "export --output HOME/history")],
    "up-down": [
        ("fresh", "up"),
        ("nothing", "down"),
        ("fresh", "up --stage prod"),
    ],
}
USAGE = (
    *("fly", "check --loud", "inspect", "inspect two words", f"inspect {NHS_NUMBER}", "inspect 999-000-0018"),
    *("seed --slots few", "seed --practice no-code"),
    *("seed --practice-count 5 --slots 3", "seed --practice A81001 --practice-count 5"),
    *("send --count 0", "send --malformed 20", "send --rate 0", "send --rate nan"),
    *("send --malformed 0.99", f"send --file {THIS} --count 5", f"send --file {THIS}"),
    *("audit --memory lots", "audit --history nowhere", "watch --timeout 0", "smoke --timeout inf"),
    *("run --requests none", "audit --memory 511m"),
    *("dlq redrive --all m-1", f"dlq redrive --all --file {THIS}", f"dlq redrive --file {THIS}"),
    *("dlq drop", "dlq drop --all --reason conflict", f"ledger unlock {NHS_NUMBER}"),
    *("send", "status", "inspect m-1", "ledger show m-1", "pause --reason INC-12"),
    *("check --loud --json", "dlq drop --json", "status --json"),
)
ROWS["usage"] = [("nothing", line) for line in USAGE]
LIKE = {
    **dict.fromkeys((*MISSING, "torn", "malformed"), "booked"),
    **dict.fromkeys(("waiting", "hidden", "failing", "paused"), "fresh"),
    **{
        f"{verb} {name} (claims)": f"{verb} leased (claims)"
        for verb in ("inspect", "ledger show")
        for name in ("expired", "released")
    },
    **dict.fromkeys(("inspect m-4 (forgotten)", "inspect c-1 (booked)"), "inspect m-1 (booked)"),
    **{f"dlq list ({state})": "dlq list (no appointments)" for state in ("no ledger", "no slots")},
    "ledger forget m-3 (booked)": "ledger forget m-1 (booked)",
    "check (malformed)": "check (no ledger)",
    "check --json (malformed)": "check --json (fresh)",
    "dlq list --reason receives_exausted --json (letters)": "dlq list --json (fresh)",
    **{f"status --json ({state})": "status --json (fresh)" for state in ("booked", "malformed", "no ledger")},
    f"watch {ONCE} --json (paused)": f"watch {ONCE} --json (booked)",
}
"""States and lines that are like another one: their sections have the lines that differ, where these are fewer."""
AS_JSON = {"gone", "fresh", "booked", "letters", "malformed", "broken", "no ledger", "claims", "paused"}
"""States that are also shown as JSON: one of each shape that the documents have."""
OF_A_REQUEST = {"inspect", "ledger-show", "ledger-forget"}
REMEDIES = {"status", "watch", "check", "inspect", "dlq-list", "dlq-redrive", "ledger-show", "ledger-forget"}
"""Verbs whose sentences name a command, which on AWS names the stack."""
COMMAND = re.compile(r"\boneslot (?!docs\b|send\b)[a-z][^`.;:)│\n]*(?<! )")
"""A command that a sentence asks for, with its arguments. Only `docs` and `send` are named without their stack."""


def transcript(home: Path, line: str, *, fault: bool = False) -> str:
    """Run one command line and return what it wrote, without what differs from run to run."""
    places = {"HOME": str(home), "HERE": ROOT}
    arguments = [re.sub("HOME|HERE", lambda found: places[found[0]], each) for each in line.split()]
    result = invoke(*arguments, COLUMNS="2000")  # a line for each sentence, however long the paths in it are
    assert fault or "Unexpected" not in result.output
    assert NHS_NUMBER not in result.output
    text = result.stdout
    if line.endswith("--json"):  # a line for each name
        text = "".join(f"{name}: {json.dumps(value)}\n" for name, value in json.loads(text).items())
    text = f"[{result.exit_code}]\n{text}" + "".join(f"! {each}\n" for each in result.stderr.splitlines())
    for name, path in places.items():
        text = text.replace(path, name)
    for pattern, name in VARYING:
        text = re.sub(pattern, name, text, flags=re.MULTILINE)
    return text


def forms_of(name: str, state: str, line: str) -> list[str]:
    """Return a line as it is written for people, for programs, and for a stack on AWS."""
    forms = [line]
    if not changes(line) and name != "usage":
        # The document of a request is made at one place, of what the text shows: one request of each state is enough.
        shown = name not in OF_A_REQUEST or re.search(" (m-1|by-hand|leased|unknown)$", line)
        if shown and state in AS_JSON and "--until-" not in line:
            forms.append(f"{line} --json")
        # The others of these two verbs say no more on AWS.
        plain = ("fresh", "waiting", "no slots") if name in ("status", "watch") else ()
        if name in REMEDIES and state not in ("nothing", "gone", "failing", "paused", *plain):
            forms.append(f"{line} --stack Oneslot-prod")
    return forms


def changes(line: str) -> bool:
    return "--yes" in line or line.split(maxsplit=1)[0] in ("export", "down")


def sections(name: str) -> dict[str, str]:
    """Return the expected texts of one verb by their headings."""
    path = FOLDER / f"{name}.txt"
    parts = re.split(r"^(=== .*)\n", path.read_text() if path.exists() else "", flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def texts_of(stack: MotoStack, name: str, state: str, line: str) -> dict[str, str]:
    """Return what each form of a line writes, or how that differs from another section, whichever is shorter.

    The other section is the local stack's for a stack on AWS, as if its commands named that stack. Else it is that of
    the line without --yes, or that of the line or the state in `LIKE`.
    """
    texts = {form: transcript(stack.home, form) for form in forms_of(name, state, line)}
    expected, shown = sections(name), {}
    for form, text in texts.items():
        on_aws = form.endswith(" --stack Oneslot-prod")
        looked = f"{line.removesuffix(' --yes')} ({state})" if line.endswith(" --yes") else None
        like = LIKE.get(f"{form} ({state})", looked or f"{form} ({LIKE.get(state)})")
        base = named(texts[line]) if on_aws else expected.get(f"=== oneslot {like}", "")
        other = differences(base, text)
        shown[f"=== oneslot {form} ({state})"] = other if on_aws or other.count("\n") < text.count("\n") else text
    return shown


def named(text: str) -> str:
    """Return a text of the local stack as one of a stack on AWS, which each command names."""
    return COMMAND.sub(r"\g<0> --stack Oneslot-prod", text).replace("Oneslot-dev", "Oneslot-prod")


def differences(base: str, text: str) -> str:
    """Return the lines of a text that its base lacks, and those of the base that it lacks."""
    compared = difflib.ndiff(base.splitlines(keepends=True), text.splitlines(keepends=True))
    return "".join(each for each in compared if each[0] in "-+")


def compare(name: str, written: dict[str, str]) -> list[str]:
    """Return how these texts differ from the expected ones, which they replace if that is asked for."""
    expected = sections(name)
    if os.environ.get("RENEW_TRANSCRIPTS"):
        texts = expected | written
        (FOLDER / f"{name}.txt").write_text("".join(f"{each}\n{text}" for each, text in sorted(texts.items())))
        return []
    before = "".join(f"{each}\n{expected.get(each, '')}" for each in written).splitlines()
    after = "".join(f"{each}\n{text}" for each, text in written.items()).splitlines()
    return list(difflib.unified_diff(before, after, "expected", "written", lineterm="", n=1))


def refusal(code: str, operation: str = "SendMessageBatch") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "the message."}}, operation)


ERRORS: Sequence[Exception] = (
    EndpointConnectionError(endpoint_url="http://127.0.0.1:4566/"),
    NoCredentialsError(),
    NoRegionError(),
    UnauthorizedSSOTokenError(),
    TokenRetrievalError(provider="sso", error_msg="the message"),
    BotoCoreError(),
    *map(refusal, ("AccessDenied", "QueueDoesNotExist", "KMS.AccessDeniedException", "ExpiredTokenException")),
    refusal("ResourceNotFoundException", "Scan"),
    AlreadyRunning("The sentence of an error of ours."),
    OSError(errno.EMFILE, "Too many open files"),
    IsADirectoryError(errno.EISDIR, "Is a directory", "a.json"),
    *(
        ModuleNotFoundError(name, name=name)
        for name in ("greenlet", "time_machine.x", "yaml", "py4j.protocol", "jinja2", "aws_cdk", "own")
    ),
    ZeroDivisionError(NHS_NUMBER),
)
"""What a command may raise."""
INVALID_CREDENTIALS = refusal("InvalidClientTokenId")


def heading(error: Exception) -> str:
    code = error.response["Error"]["Code"] if isinstance(error, ClientError) else getattr(error, "name", "") or ""
    return f"=== {type(error).__name__} {code}".rstrip()


def errors_told(monkeypatch: pytest.MonkeyPatch, stack: MotoStack, error: Exception) -> str:
    """Return what `check` writes when this error ends it, and how that differs for a stack on AWS."""
    monkeypatch.setattr("oneslot.operator.commands.check.gather", Mock(side_effect=error))
    assert type(invoke("check", ONESLOT_DEBUG="1").exception) is type(error)
    text = transcript(stack.home, "check", fault=True)
    if error is INVALID_CREDENTIALS or not isinstance(error, BotoCoreError | ClientError):
        return text
    return text + differences(named(text), transcript(stack.home, "check --stack Oneslot-prod", fault=True))


@pytest.fixture
def stack(moto_stack: MotoStack, on_aws: Target, monkeypatch: pytest.MonkeyPatch) -> MotoStack:
    """The moto stack, which is also `--stack Oneslot-prod`."""
    monkeypatch.setattr("oneslot.runtime.sqs.dead_letters.SETTLING_SECONDS", 0)
    monkeypatch.setattr("oneslot.operator.commands.watch.AWS_INTERVAL", 0.1)
    return moto_stack


@pytest.mark.parametrize("state", STATES)
def test_verbs_write_their_transcripts_when_they_change_nothing(stack: MotoStack, state: str) -> None:
    STATES[state](stack)
    found = []
    for name, rows in ROWS.items():
        for line in (line for of, line in rows if of == state and not changes(line)):
            found += compare(name, texts_of(stack, name, state, line))
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("name", "state", "line"), [(name, *row) for name, rows in ROWS.items() for row in rows if changes(row[1])]
)
def test_verb_writes_its_transcript_when_it_changes_something(
    stack: MotoStack, name: str, state: str, line: str
) -> None:
    STATES[state](stack)
    found = compare(name, texts_of(stack, name, state, line))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("error", ERRORS, ids=heading)
def test_verb_writes_the_transcript_of_an_error_when_it_ends_by_one(
    stack: MotoStack, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    found = compare("errors", {heading(error): errors_told(monkeypatch, stack, error)})
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("key", "whose"), [("000000000000", "local stack"), ("AKIDEXAMPLE", "account")])
def test_error_names_the_local_credentials_when_the_shell_has_them(
    stack: MotoStack, monkeypatch: pytest.MonkeyPatch, key: str, whose: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key)
    told = errors_told(monkeypatch, stack, INVALID_CREDENTIALS)
    found = compare("errors", {f"{heading(INVALID_CREDENTIALS)} with the key of the {whose}": told})
    assert not found, "\n".join(found)


def test_transcripts_have_a_section_for_each_row_and_no_other() -> None:
    for name, rows in ROWS.items():
        wanted = {f"=== oneslot {form} ({state})" for state, line in rows for form in forms_of(name, state, line)}
        assert wanted == sections(name).keys()
    assert {path.stem for path in FOLDER.glob("*.txt") if not path.stem.startswith("refusals-")} == {*ROWS, "errors"}
