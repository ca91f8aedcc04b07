"""`new`: the folder of a consumer that works, to change into your own."""

import re
from pathlib import Path

import click

from oneslot.errors import FolderExists, InvalidName
from oneslot.operator.options import json_option
from oneslot.operator.terminal import Terminal

STARTER = Path(__file__).resolve().parents[2] / "starter"
EXAMPLE = "orders"
"""The name in the starter's files that a consumer's own name replaces."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
TAKEN = ("ledger", "stock")
"""Tables of the starter beside the one that has the consumer's name."""


@click.command(short_help="Write the folder of a new consumer: handler, stack, tests, laws.")
@click.argument("name")
@json_option
def new(name: str, as_json: bool) -> None:
    """Write a consumer to the folder NAME: handler, CDK stack, tests, laws, oneslot.toml and README.

    Its tests pass, and `oneslot up` deploys it. NAME is also the name of its table and, in capitals, of its stack.
    """
    terminal = Terminal(as_json)
    written = write_starter(name, Path.cwd() / name)
    commands = [f"cd {name} && pip install -r requirements.txt", "pytest", "oneslot up"]
    terminal.result({"folder": str(Path.cwd() / name), "files": written, "commands": commands})
    terminal.lines(f"{name}/ has {len(written)} files. Next:\n")
    for command in commands:
        terminal.plain(command)


def write_starter(name: str, folder: Path) -> list[str]:
    """Write the starter's files under a consumer's name, and return their paths.

    Raises `BadInput` for a name that a table cannot have, and for a folder that is not empty.
    """
    if not NAME.fullmatch(name) or name in TAKEN:
        raise InvalidName(
            f"{name!r} is not a valid name of a consumer. Use 1 to 40 small letters, digits and underscores, "
            f"with a letter first, and not {' or '.join(map(repr, TAKEN))}; e.g. {EXAMPLE}."
        )
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise FolderExists(f"{folder} exists and is not an empty folder. Choose another name, or remove it.")
    spellings = {EXAMPLE: name, EXAMPLE.title(): name.title().replace("_", ""), EXAMPLE.upper(): name.upper()}
    pattern = re.compile("|".join(spellings))
    paths = [path.relative_to(STARTER) for path in STARTER.rglob("*") if path.is_file()]
    # Without the caches that tools leave there.
    written = sorted(path for path in paths if not any(part.startswith((".", "__")) for part in path.parts[:-1]))
    for path in written:
        text = (STARTER / path).read_text(encoding="utf-8")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(pattern.sub(lambda found: spellings[found[0]], text), encoding="utf-8")
    return [str(path) for path in written]
