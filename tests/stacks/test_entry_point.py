"""`python app.py`: one template with and without the CDK CLI, and errors for invalid input."""

import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import app as entry
from stacks.application import build
from tests.kits.stacks import Stage

ROOT = Path(entry.__file__).parent


@pytest.mark.slow
def test_app_needs_no_node_docker_or_aws_on_path(stages: dict[str, Stage], tmp_path: Path) -> None:
    """Started with cdk.json's flags, as the CDK CLI does, it writes the same template as without.

    The home folder is writable by a group, as with umask 002: jsii's default cache would fail there.
    """
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o775)
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("docker", "aws", "npx"):
        (tools / name).write_text(f"#!/bin/sh\n: > {tmp_path}/called-{name}\nexit 1\n", encoding="utf-8")
        (tools / name).chmod(0o755)
    flags = json.loads((ROOT / "cdk.json").read_text(encoding="utf-8"))["context"]
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_", "JSII_"))}
    context = json.dumps({**flags, "stage": "prod"})
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={**inherited, "PATH": str(tools), "HOME": str(home), "CDK_OUTDIR": str(out), "CDK_CONTEXT_JSON": context},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "end-of-life" not in done.stderr
    assert list(tmp_path.glob("called-*")) == []
    assert json.loads((out / "Oneslot-prod.assets.json").read_text(encoding="utf-8"))["dockerImages"] == {}
    assert (out / "Oneslot-prod.template.json").read_text(encoding="utf-8") == stages["prod"].template_text


def test_app_exits_with_2_when_the_input_is_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # jsii's process read its environment at its start, so this context is an argument.
    monkeypatch.setattr(entry, "build", partial(build, context={"stage": "staging"}))
    monkeypatch.setenv("CDK_OUTDIR", str(tmp_path))
    assert entry.main() == 2
    said = "Oneslot: stage 'staging' is unknown; use -c stage= with one of: dev, prod"
    assert capsys.readouterr().err.startswith(said)
