"""`up` and `down` with the real stack: what runs between them, and that nothing runs afterwards."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from oneslot.declaration.reading import choosing
from oneslot.errors import AlreadyRunning, HandlerFailed, LocalStackFailed, OneslotError, StaleState
from oneslot.local.launcher import down, up
from oneslot.local.mapping.event_source_mapping import PAUSED_AT
from oneslot.local.stack import in_use, local_stack, update
from oneslot.local.state import LocalState, read_state, read_statistics, start_ticks
from tests.kits.local_mapping import Source, descendants, wait_for

pytestmark = pytest.mark.embedded_aws


@pytest.fixture
def temporary_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where processes that the test starts keep temporary files: a short path, and removed although they are killed."""
    with tempfile.TemporaryDirectory(prefix="test-") as name:
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)


def synthesising(home: Path) -> list[int]:
    """Return the processes that synthesise for the local stack in this folder (where there is a /proc)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has exited, or belongs to another user
            if f"CDK_OUTDIR={home}/".encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def send(state: LocalState, body: str) -> None:
    with closing(state.connection.sqs()) as sqs:
        sqs.send_message(QueueUrl=state.outputs["QueueUrl"], MessageBody=body)


def with_handler(assembly: Path, folder: Path, line: str) -> Path:
    """Return an assembly whose handler ends with this line; the asset's new name stands for its new digest."""
    made = folder / f"edited-{len(line)}"
    shutil.copytree(assembly, made)
    (handler,) = made.glob("asset.*/handler.py")
    handler.write_text(f"{handler.read_text()}\n{line}\n")
    digest = handler.parent.name.removeprefix("asset.")
    for file in made.glob("*.json"):
        file.write_text(file.read_text().replace(f"{digest}.zip", f"{line.encode().hex()}.zip"))
    return made


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes below another one in /proc")
def test_down_leaves_nothing_running_after_up(tmp_path: Path, assembly: Path) -> None:
    said: list[str] = []
    state = up(tmp_path, progress=said.append, assembly=assembly)
    try:
        assert read_state(tmp_path) == state
        assert any("Deployed the stack Oneslot-dev" in sentence for sentence in said)
        running = {state.supervisor_pid, *descendants(state.supervisor_pid)}
        assert len(running) >= 3, "supervisor, embedded AWS, handler processes"
        assert os.getsid(state.supervisor_pid) != os.getsid(0), "a closed terminal must not end it"
        with pytest.raises(AlreadyRunning):
            up(tmp_path, progress=said.append)
        with pytest.raises(AlreadyRunning), local_stack(tmp_path, progress=said.append):
            pass
        send(state, "not JSON")
        wait_for(lambda: (now := read_statistics(tmp_path)) is not None and now.deleted == 1)
        wait_for(lambda: '"delivery"' in Path(state.log_file).read_text())

        updated = update(tmp_path, state, progress=said.append, assembly=with_handler(assembly, tmp_path, "pass"))
        assert (said[-1][:24], updated.outputs) == ("Updated ConsumerFunction", state.outputs)
        send(state, "not JSON")
        wait_for(lambda: (now := read_statistics(tmp_path)) is not None and now.deleted == 2)
        with pytest.raises(HandlerFailed, match="ZeroDivisionError"):
            update(tmp_path, state, progress=said.append, assembly=with_handler(assembly, tmp_path, "1 / 0"))
    finally:
        assert down(tmp_path) is True
    assert [pid for pid in running if start_ticks(pid) is not None] == []
    assert read_state(tmp_path) is None
    assert down(tmp_path) is False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes below another one in /proc")
def test_killed_supervisor_takes_its_children_along(tmp_path: Path, assembly: Path, temporary_folder: Path) -> None:
    state = up(tmp_path, progress=lambda _: None, assembly=assembly)
    assert list(temporary_folder.iterdir()), "what it leaves behind is removed with this folder"
    below = descendants(state.supervisor_pid)
    os.kill(state.supervisor_pid, signal.SIGKILL)
    wait_for(lambda: all(start_ticks(pid) is None for pid in below))
    with pytest.raises(StaleState):
        read_state(tmp_path)
    assert down(tmp_path) is False
    assert read_state(tmp_path) is None


@pytest.mark.parametrize(
    ("news", "code", "status"),
    [('{"error": "x", "code": "extra-missing", "status": 2}\n', "extra-missing", 2), ("", "unexpected", 70)],
)
def test_up_ends_as_its_supervisor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, news: str, code: str, status: int
) -> None:
    """It found what is missing; or it died, and left a traceback in its log."""
    monkeypatch.setattr(subprocess, "run", lambda *_, pass_fds, **__: os.write(pass_fds[0], news.encode()))
    with pytest.raises(OneslotError) as failed:
        up(tmp_path, progress=lambda _: None)
    assert (failed.value.code, failed.value.exit_code) == (code, status)


@pytest.mark.slow
def test_up_reports_a_failed_synthesis(tmp_path: Path) -> None:
    with pytest.raises(LocalStackFailed, match="'lifo'"):
        up(tmp_path, progress=lambda _: None, context={"queue": "lifo"})
    assert read_state(tmp_path) is None
    assert not in_use(tmp_path)


@pytest.mark.slow
def test_up_leaves_nothing_when_interrupted(tmp_path: Path) -> None:
    class CtrlC(BaseException):
        pass

    def interrupt(sentence: str) -> None:
        raise CtrlC(sentence)

    with pytest.raises(CtrlC):
        up(tmp_path, progress=interrupt)
    assert not in_use(tmp_path)
    assert read_state(tmp_path) is None
    wait_for(lambda: not synthesising(tmp_path), seconds=180)
    assert not list(tmp_path.glob("cdk.out/manifest.json")), "no synthesis went on to its end"


@pytest.mark.slow
def test_up_leaves_nothing_when_killed(tmp_path: Path, assembly: Path) -> None:
    program = tmp_path / "command.py"
    program.write_text(
        textwrap.dedent(f"""
        from pathlib import Path
        from oneslot.local.launcher import up
        home, assembly = Path({str(tmp_path / "home")!r}), Path({str(assembly)!r})
        up(home, assembly=assembly, progress=lambda sentence: print(sentence, flush=True))
        """)
    )
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as command:
        assert command.stdout is not None
        command.stdout.readline()
        command.kill()
        command.wait()
    wait_for(lambda: not in_use(tmp_path / "home"), seconds=180)
    assert read_state(tmp_path / "home") is None


@pytest.mark.slow
def test_up_reports_a_function_that_does_not_start(tmp_path: Path, assembly: Path) -> None:
    """Every delivery would fail otherwise, and the queue would never drain."""
    broken = with_handler(assembly, tmp_path, "import nothing_of_that_name")
    home = tmp_path / "home"
    with pytest.raises(LocalStackFailed, match="does not start: ModuleNotFoundError") as failed:
        up(home, progress=lambda _: None, processes=2, assembly=broken)
    log = home / "consumer.jsonl"
    assert str(log) in str(failed.value)
    assert "nothing_of_that_name" in log.read_text()
    wait_for(lambda: not in_use(home))
    assert read_state(home) is None


@pytest.mark.slow
def test_up_asks_for_the_outputs_of_the_chosen_consumer(tmp_path: Path, assembly: Path) -> None:
    (tmp_path / "oneslot.toml").write_text(
        'name = "orders"\nhandler = "app.handler"\nstack = "Oneslot-dev"\noutputs = "Orders"\n'
    )
    with (
        choosing(tmp_path / "oneslot.toml"),
        pytest.raises(LocalStackFailed, match="OrdersEventSourceMappingId"),
    ):
        up(tmp_path / "home", progress=lambda _: None, assembly=assembly)


@pytest.mark.slow
def test_local_stack_follows_a_pause_and_a_resume(tmp_path: Path, assembly: Path) -> None:
    with local_stack(tmp_path, progress=lambda _: None, processes=2, assembly=assembly) as stack:
        state = stack.state
        assert read_state(tmp_path) == state
        source = Source(state.connection, state.outputs["QueueUrl"], state.outputs["EventSourceMappingId"], tmp_path)
        source.send("not JSON")
        assert source.left() == 1
        stack.poller.start()
        source.until(stack.poller, lambda now: now.deleted == 1)
        assert len(stack.poller.handler_pids()) == 2
        assert Path(state.log_file).read_text().count('"delivery"') == 1
        with closing(state.connection.functions()) as functions:  # as `oneslot pause` and `resume` do
            arn = functions.get_event_source_mapping(UUID=source.mapping_id)["EventSourceMappingArn"]
            functions.tag_resource(Resource=arn, Tags={PAUSED_AT: "now"})
            wait_for(lambda: not stack.poller.running, what="the poller is paused")
            functions.untag_resource(Resource=arn, TagKeys=[PAUSED_AT])
            wait_for(lambda: stack.poller.running, what="the poller is resumed")
    assert not stack.poller.running
    assert not stack.aws.alive
    assert read_state(tmp_path) is None
    final = read_statistics(tmp_path)
    assert final is not None
    assert final.deleted == 1
