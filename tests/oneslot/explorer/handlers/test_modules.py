"""The handler's modules: what is made for each environment, and what is left to Python."""

import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from oneslot.explorer.handlers.exploration import explore
from oneslot.explorer.handlers.modules import Code

HANDLER = """
import boto3
import {package}

def handler(event, context):
    boto3.client("dynamodb").put_item(TableName="orders", Item={{"id": {{"S": {package}.__name__}}}})
"""


@pytest.mark.parametrize("package", ["charset_normalizer", "markupsafe", pytest.param("yaml", marks=pytest.mark.slow)])
def test_layer_is_explored_when_it_has_a_compiled_package(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    installed = Path(spec.origin).parent
    shutil.copytree(installed, tmp_path / "layer" / package)
    for beside in installed.parent.glob("*__mypyc*.so"):  # what charset_normalizer is compiled into
        shutil.copy(beside, tmp_path / "layer")
    assert list((tmp_path / "layer").rglob("*.so"))
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, name)  # a user's process has not imported it
    (tmp_path / "app.py").write_text(HANDLER.format(package=package))

    result = explore("app.handler", messages=["o-1"], tables=["orders:id"], path=[tmp_path, tmp_path / "layer"])

    assert result.verdict == "holds at every level"


@pytest.mark.parametrize(("keeps", "is_imported_again"), [("pass", False), ("seen.append(1)", True)])
def test_module_is_imported_again_when_an_invocation_has_changed_it(
    keeps: str, is_imported_again: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    imports: list[str] = []
    execute = Code.exec_module

    def counted(code: Code, module: ModuleType) -> None:
        imports.append(module.__name__)
        execute(code, module)

    monkeypatch.setattr(Code, "exec_module", counted)
    (tmp_path / "app.py").write_text(
        "import boto3\n\ntable = boto3.resource('dynamodb').Table('orders')\nseen = []\n\n"
        f"def handler(event, context):\n    {keeps}\n    table.put_item(Item={{'id': 'n'}})\n    return seen[:0]\n"
    )

    result = explore("app.handler", messages=["m"], tables={"orders": "id"}, path=tmp_path, reports_failures=False)

    assert result.holds
    assert (len(imports) > 3) is is_imported_again  # the explorer learns from three fresh environments


def test_library_finds_no_asynchronous_client_when_it_looks_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """X-Ray's `patch_all` imports each client that is installed, and the handler may call none."""
    (tmp_path / "libraries").mkdir()
    (tmp_path / "libraries" / "looking.py").write_text(
        "try:\n    import aiobotocore\nexcept ModuleNotFoundError:\n    aiobotocore = None\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "libraries")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "app.py").write_text(HANDLER.format(package="looking"))

    result = explore("app.handler", messages=["o-1"], tables=["orders:id"], path=tmp_path / "code")

    assert result.verdict == "holds at every level"


def test_variable_of_openblas_is_set_before_numpy_sets_it(tmp_path: Path) -> None:
    """numpy calls `os.putenv` at its import unless the variable is there, and no handler may."""
    (tmp_path / "app.py").write_text(
        "import os\nif 'OPENBLAS_MAIN_FREE' not in os.environ:\n    os.putenv('OPENBLAS_MAIN_FREE', '1')\n"
        + HANDLER.format(package="math")
    )

    result = explore("app.handler", messages=["o-1"], tables=["orders:id"], path=tmp_path)

    assert result.verdict == "holds at every level"
