"""Damaged, foreign or unusual input: a sentence or a finding, never half an answer."""

import base64
import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from oneslot.audit import files
from oneslot.audit.conclusion import Conclusion
from oneslot.audit.errors import AuditRefused
from oneslot.audit.layout import Full, Part, item_line, write_export
from oneslot.audit.read.lines import CONTROL
from oneslot.audit.read.manifests import newest
from tests.kits.histories import START, System, World, arn, write_history
from tests.oneslot.audit.audit_answers import audit_found
from tests.oneslot.audit.damage import REFUSED, REFUSED_BY_SPARK, edit, failed, manifest, rewrite, tampered_data

pytestmark = pytest.mark.spark
Audited = Callable[..., Conclusion]


@pytest.fixture(scope="module")
def world() -> World:
    """A small correct world. Tests that change it copy it first."""
    return System(51, practices=2, slots_per_practice=8).run(25)


@pytest.fixture
def history(world: World, tmp_path: Path) -> Path:
    """The history of that world, to be damaged."""
    return write_history(world, tmp_path / "history", parts=1)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=pytest.mark.slow if kind in REFUSED_BY_SPARK else ()) for kind in REFUSED]
)
def test_audit_refuses_a_damaged_history(audited: Audited, history: Path, tmp_path: Path, kind: str) -> None:
    """The sentence has one line, and no folder is left that could pass for an answer."""
    damage, expected = REFUSED[kind]
    damage(history)
    with pytest.raises(AuditRefused, match=expected) as refusal:
        audited(history)
    assert "\n" not in str(refusal.value)
    assert "Traceback" not in str(refusal.value)
    assert not (tmp_path / "audit").exists()


def packed_file(folder: Path, content: bytes) -> str:
    path = folder / "log.jsonl.gz"
    path.write_bytes(content)
    return str(path)


MEMBER = gzip.compress(b'{"a": 1}\n', mtime=0)
GZIPS: dict[str, tuple[bytes, str | None]] = {
    "several members, and zeros": (MEMBER * 3 + b"\0" * 600, None),
    "cut in the middle": (MEMBER * 2 + MEMBER[:-9], "was cut short"),
    "cut in the header of a member": (MEMBER + MEMBER[:1], "was cut short"),
    "without bytes": (b"", "was cut short"),
    "not gzip": (b'{"a": 1}\n', "is not gzip, or is damaged"),
    "text behind": (MEMBER + b"text", "has other content behind its gzip"),
    "gzipped twice": (gzip.compress(MEMBER, mtime=0), "is gzipped twice"),
}


@pytest.mark.parametrize("kind", GZIPS)
@pytest.mark.parametrize("size", [4, files.PACKED_BYTES])
def test_gzip_file_is_read_or_refused_by_its_name(
    tmp_path: Path, kind: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PACKED_BYTES", size)
    content, expected = GZIPS[kind]
    path = packed_file(tmp_path, content)
    if expected is None:
        assert b"".join(files.blocks_of(path)) == b'{"a": 1}\n' * 3
        return
    with pytest.raises(AuditRefused, match=expected) as refusal:
        list(files.blocks_of(path))
    assert path in str(refusal.value)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda content: content, None),
        (lambda content: gzip.compress(b"changed\n"), "does not match the MD5"),
        (lambda content: content[:-9], "does not match the MD5"),
        (lambda content: content + b"text", "does not match the MD5"),
    ],
    ids=["whole", "changed", "cut short", "longer"],
)
def test_file_is_refused_when_its_md5_is_not_the_manifests(
    tmp_path: Path, damage: Callable[[bytes], bytes], expected: str | None
) -> None:
    """A damaged file has this sentence rather than that of its damage, because it names the cause."""
    path = packed_file(tmp_path, damage(MEMBER))
    md5 = base64.b64encode(hashlib.md5(MEMBER, usedforsecurity=False).digest()).decode()
    if expected is None:
        assert b"".join(files.blocks_of(path, md5)) == b'{"a": 1}\n'
        return
    with pytest.raises(AuditRefused, match=expected):
        list(files.blocks_of(path, md5))


def test_file_is_read_in_blocks_of_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever their size, a line longer than a block, and a last line without its end."""
    monkeypatch.setattr(files, "BLOCK_BYTES", 7)
    path, lines = tmp_path / "lines.jsonl", ["1", "a line longer than a block", "", "22", "333"]
    path.write_text("\n".join(lines))
    found = [*files.blocks_of(str(path))]
    assert all(block.endswith(b"\n") for block in found)
    assert b"".join(found).decode().split("\n") == [*lines, ""]
    assert len(found) > 2


@pytest.mark.slow
def test_unusual_exports_are_read(audited: Audited, world: World, tmp_path: Path) -> None:
    """As older versions, copies and repeated nights leave them: failed exports, prefixes, line ends, new attributes."""
    newer = world.copy()
    for slot in newer.slots.values():
        slot["room"] = "3"
    history = write_history(newer, tmp_path / "history", parts=1)
    failed_in = ["ledger", "appointments"]
    for table in failed_in:
        failed(history, table)
    edit(manifest(history, "ledger", "manifest-summary.json"), lambda summary: summary.pop("exportType"))
    path = manifest(history, "ledger", "manifest-files.json")
    edit(path, lambda line: line.update(dataFileS3Key=f"nightly/{line['dataFileS3Key']}"))
    path.with_suffix(".md5").write_text(f"{path.with_suffix('.md5').read_text()}\n")
    path = manifest(history, "slots", "manifest-files.json")
    path.with_suffix(".md5").unlink()
    path.write_text(f"{path.read_text()}\n")

    conclusion = audited(history)

    assert conclusion.sound, conclusion.sentence
    assert conclusion.document["items"] == sum(len(rows) for rows in world.tables().values())
    notes = conclusion.document["notes"]
    assert [note.split()[2] for note in notes if note.endswith("are left out: 1.")] == failed_in
    unknown = "Items of slots carry attributes that the audit does not know (room)"
    assert [unknown in note for note in notes].count(True) == 1
    assert audit_found(tmp_path / "audit") == set()


def test_newest_export_has_the_latest_time() -> None:
    """In whatever notation; among equal times the one that started last."""
    changes = {"exportType": "INCREMENTAL_EXPORT", "exportToTime": "2026-11-24T01:00:00+01:00"}
    exports = [("01", {"exportTime": "2026-11-24T00:00:00.500Z"}), ("02", {"exportTime": "2026-11-24T00:00:00Z"})]
    assert newest([*exports, ("03", changes)])[0] == "01"
    assert newest([exports[1], ("03", changes)])[0] == "03"


@pytest.mark.slow
def test_file_without_checksum_is_read(audited: Audited, history: Path) -> None:
    """A manifest may lack checksums."""
    tampered_data(history)
    path = manifest(history, "ledger", "manifest-files.json")
    edit(path, lambda line: line.pop("md5Checksum"))
    path.with_suffix(".md5").unlink()
    assert audited(history).sound is False  # the changed item is read and found


@pytest.mark.slow
def test_malformed_lines_are_counted_and_located(audited: Audited, history: Path, tmp_path: Path) -> None:
    """By file, line and problem. The text may be personal and is written nowhere."""
    log = history / "deliveries" / "deliveries.jsonl.gz"
    lines = gzip.decompress(log.read_bytes()).decode().splitlines()
    lines.insert(3, "")
    lines.insert(4, '{"message": "delivery", "message_id": "9990000018')
    lines.insert(
        9, json.dumps({"message": "delivery", "message_id": "x", "outcome": "eaten", "sent": 1, "finished": 2})
    )
    lines.insert(10, json.dumps({"message": "cold start", "level": "INFO"}))
    lines.append(json.dumps({"message": "delivery", "message_id": "x", "outcome": "busy", "sent": -1, "finished": 2}))
    log.write_bytes(gzip.compress("\n".join(lines).encode(), mtime=0))
    replacement = ('"consumption_count":{"N":"1"}', f'"x":{"[" * 20_000}{"]" * 20_000}', 1)
    rewrite(history, "ledger", lambda text: f"\n{text.replace(*replacement)}")
    rewrite(
        history,
        "appointments",
        lambda text: text.replace('"created":{"N":"1795', '"created":{"N":"99999999999999999999', 1),
    )
    conclusion = audited(history, tables=True)
    rejects = [json.loads(line) for line in (tmp_path / "audit" / "rejects.jsonl").read_text().splitlines()]
    found = {(Path(reject["file"]).parent.name, reject["line"], reject["problem"]) for reject in rejects}
    assert {item for item in found if item[0] == "deliveries"} == {
        ("deliveries", 5, "not_json"),
        ("deliveries", 10, "unknown_value"),
        ("deliveries", len(lines), "out_of_range"),
    }
    assert {item[2] for item in found if item[0] == "data"} == {"not_json", "out_of_range"}
    assert not conclusion.sound
    assert conclusion.document["rejects"]["lines"] == len(rejects) == 5
    assert "5 lines could not be read, more than the limit" in conclusion.sentence
    everything = b"".join(path.read_bytes() for path in (tmp_path / "audit").rglob("*") if path.is_file())
    assert b"9990000018" not in everything


@pytest.mark.slow
def test_duplicate_item_breaks_a_law_and_invalid_result_none(audited: Audited, world: World, tmp_path: Path) -> None:
    """A table has one item for a key. No law speaks of a COMPLETE row with a result that is not JSON."""
    changed = world.copy()
    twice, invalid = [row for row in changed.ledger.values() if row["status"] == "COMPLETE"][:2]
    invalid["result"] = '{"outcome": "boo'
    history = write_history(changed, tmp_path / "history", parts=1)
    shutil.rmtree(history / "ledger")
    items = [item_line(item) for item in [*changed.ledger.values(), twice]]
    write_export(history / "ledger", arn("ledger"), Full(world.now), [Part(b"".join(items), len(items))])

    conclusion = audited(history)

    found, verdicts = audit_found(tmp_path / "audit"), conclusion.document["verdicts"]
    assert ("S1", twice["message_id"]) in found
    assert invalid["message_id"] not in {subject for _, subject in found}
    assert (verdicts["duplicate_effect"], verdicts["unreadable"]) == (1, 1)


@pytest.mark.slow
def test_missing_sources_are_noted(audited: Audited, history: Path) -> None:
    """The tables alone are judged, and the notes say what stays open."""
    for name in ("deliveries", "accepted", "dead-letters", "dropped", "waiting"):
        shutil.rmtree(history / name)
    conclusion = audited(history)
    assert conclusion.sound
    assert len(conclusion.document["notes"]) == 5


@pytest.mark.slow
def test_empty_tables_are_refused_or_noted(audited: Audited, world: World, tmp_path: Path) -> None:
    """An empty history cannot be audited; one empty table can, with a note."""
    with pytest.raises(AuditRefused, match="contains no rows"):
        audited(World(), "nothing")
    conclusion = audited(World(slots={}, now=world.now, accepted=world.accepted[:1]), "lost")
    assert conclusion.document["verdicts"]["lost"] == 1
    assert "The export of slots is empty." in conclusion.document["notes"]


@pytest.mark.slow
def test_joined_lines_and_control_messages_are_read(audited: Audited, world: World, tmp_path: Path) -> None:
    """As CloudWatch Logs and Firehose may write them. Braces inside a text join nothing."""
    before = World(slots=world.slots, now=START)
    audited(before, "before")
    folder = write_history(world, tmp_path / "history", since=before)
    log = folder / "deliveries" / "deliveries.jsonl.gz"
    first, *lines = gzip.decompress(log.read_bytes()).decode().splitlines()
    lines[3] = lines[3][:-1] + ', "more": "}{"}'
    check = f"{CONTROL}: Checking health of destination Firehose."
    written = f"{check}\n{first}{check}{''.join(lines[:6])}\n{check}{''.join(lines[6:])}{first[:-9]}\n"
    log.write_bytes(gzip.compress(written.encode(), mtime=0))

    conclusion = audited(folder, previous="before")

    assert conclusion.document["sums"]["deliveries"] == len(world.deliveries)
    (reject,) = map(json.loads, (tmp_path / "audit" / "rejects.jsonl").read_text().splitlines())
    assert (reject["line"], reject["problem"]) == (3, "not_json")


def test_log_may_have_folders_in_folders(tmp_path: Path) -> None:
    """Firehose makes one for each hour by default. An audit skips what a writer has begun, or hides."""
    for name in ("2026/11/a.jsonl", "_temporary/half", ".hidden", "b"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    assert files.files_below(str(tmp_path)) == {f"{tmp_path}/{name}": 3 for name in ("2026/11/a.jsonl", "b")}
