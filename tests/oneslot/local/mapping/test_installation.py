"""The deployed function's code on this machine's disk."""

from __future__ import annotations

import zipfile
from pathlib import Path

from oneslot.local.mapping.installation import install


def test_install_unpacks_the_same_code_once(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.writestr("package/module.py", "ANSWER = 42\n")
    url = (tmp_path / "code.zip").as_uri()
    code = install(url, tmp_path / "function")
    (code / "compiled.pyc").touch()

    again = install(url, tmp_path / "function")

    assert again == code
    assert (code / "package" / "module.py").read_text() == "ANSWER = 42\n"
    assert (code / "compiled.pyc").exists(), "Python's bytecode is kept"
