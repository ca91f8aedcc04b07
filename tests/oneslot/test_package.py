"""`pip install .`: a typed package under one import name."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest

import oneslot

ROOT = Path(__file__).resolve().parents[2]


def python(code: str, *, executable: str = sys.executable, folder: Path = ROOT) -> str:
    done = subprocess.run(
        [executable, "-P", "-c", textwrap.dedent(code)], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_package_has_every_public_name() -> None:
    assert set(oneslot.__all__) <= set(dir(oneslot))
    for name in oneslot.__all__:
        assert hasattr(oneslot, name), name


def test_package_has_no_other_name() -> None:
    with pytest.raises(AttributeError, match="module 'oneslot' has no attribute 'Ledger'"):
        getattr(oneslot, "Ledger")  # noqa: B009 - mypy knows that it is missing


def test_package_imports_nothing_heavy_before_its_use() -> None:
    loaded = python(
        """
        import sys
        import oneslot
        oneslot.Effects({})
        names = {name.partition(".")[0] for name in sys.modules}
        print(sorted(names & {"asyncio", "boto3", "botocore", "aws_lambda_powertools"}))
        """
    )
    assert loaded == "[]"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the Python of a virtual environment with our wheel, without its dependencies."""
    folder = tmp_path_factory.mktemp("installed")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = folder.glob("oneslot-*.whl")
    environment = folder / "environment"
    venv.create(environment)
    uv = Path(sys.executable).with_name("uv")
    interpreter = environment / "bin" / "python"
    subprocess.run(
        [uv, "pip", "install", "-q", "--offline", "--no-deps", "--python", interpreter, wheel],
        check=True,
        capture_output=True,
    )
    return interpreter


@pytest.mark.slow
def test_wheel_is_typed_and_complete(installed: Path, tmp_path: Path) -> None:
    where = python("import oneslot; print(oneslot.__file__)", executable=str(installed), folder=tmp_path)
    assert "site-packages" in where
    assert (Path(where).parent / "py.typed").exists()
    beside = {path.name for path in Path(where).parents[1].glob("*") if path.suffix != ".dist-info"}
    assert beside <= {"oneslot", "pip", "setuptools", "_distutils_hack", "distutils-precedence.pth", "__pycache__"}
    told = python(
        """
        from oneslot.runtime.effects import Effects
        from oneslot import Unprocessable, Once, Put, Update
        print(Effects({"a": 1}).result)
        """,
        executable=str(installed),
        folder=tmp_path,
    )
    assert told == "{'a': 1}"


@pytest.mark.slow
def test_wheel_shows_its_types_to_mypy(installed: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(
            """
            from oneslot.runtime.handlers import make_handler_idempotent
            from oneslot.runtime.stores.memory import MemoryLedger

            def send(message: str, key: str) -> int:
                return len(message)

            handle = make_handler_idempotent(send, lambda message: message, MemoryLedger(), 30)
            reveal_type(handle)
            """
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-executable", installed, program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r'Revealed type is "def \((builtins\.)?str\) -> (builtins\.)?int"', done.stdout), done.stdout
    assert done.returncode == 0, done.stdout
