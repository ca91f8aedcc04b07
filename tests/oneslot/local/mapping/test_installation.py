"""The deployed function's code on this machine's disk."""

from __future__ import annotations

import zipfile
from pathlib import Path

from oneslot.local.mapping.installation import install


def test_code_is_unpacked_once_and_again_where_files_of_it_are_gone_or_cut_off(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "code.zip", "w") as archive:
        archive.writestr("handler.py", "def handle(): ...\n")
        archive.writestr("package/module.py", "ANSWER = 42\n")
    url = (tmp_path / "code.zip").as_uri()
    code = install(url, tmp_path / "function")
    (code / "compiled.pyc").touch()
    assert install(url, tmp_path / "function") == code
    assert (code / "compiled.pyc").exists(), "what Python has compiled there is kept"
    (code / "package" / "module.py").unlink()
    assert install(url, tmp_path / "function") == code
    assert (code / "package" / "module.py").read_text() == "ANSWER = 42\n"
    (code / "handler.py").write_text("def")
    install(url, tmp_path / "function")
    assert (code / "handler.py").read_text() == "def handle(): ...\n"
