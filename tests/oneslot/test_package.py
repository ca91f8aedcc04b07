"""The package's names, and what importing it loads."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import oneslot


def test_package_has_every_public_name() -> None:
    assert set(oneslot.__all__) <= set(dir(oneslot))
    for name in oneslot.__all__:
        assert hasattr(oneslot, name), name


def test_package_has_no_other_name() -> None:
    with pytest.raises(AttributeError, match="module 'oneslot' has no attribute 'Ledger'"):
        getattr(oneslot, "Ledger")  # noqa: B009 - mypy knows that it is missing


def test_package_imports_nothing_heavy_before_its_use() -> None:
    program = "import sys, oneslot; oneslot.Effects({}); print(*{name.partition('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "oneslot" in loaded
    assert loaded & {"asyncio", "boto3", "botocore", "aws_lambda_powertools"} == set()


def test_scan_action_installs_hashed_lists_alone() -> None:
    action = (Path(__file__).parents[2] / ".github/actions/scan/action.yml").read_text(encoding="utf-8")
    listed, built = re.findall(r"pip install --quiet (.*)", action)
    assert listed == '--require-hashes -r "$ONESLOT/requirements/explorer.txt"'
    assert built == '--no-deps --no-build-isolation "$ONESLOT"'
