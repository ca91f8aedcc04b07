"""`oneslot.toml`, read and checked. Every error names file, field and remedy."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NoReturn

from oneslot.declaration.declaration import Declaration, DeclaredTable, Private, Tools
from oneslot.errors import DeclarationNotFound, DeclarationUntrusted, FileUnreadable, InvalidDeclaration
from oneslot.laws.schema import Outcome

FILE_NAME = "oneslot.toml"
VARIABLE = "ONESLOT_CONSUMER"
REPOSITORY = Path(__file__).resolve().parents[2]
NONE = (
    f"There is no {FILE_NAME} in {{folder}} or above it, up to its repository or your home, so the consumer is not known. "
    "Write one as `oneslot docs declaration` says, or name one with --consumer FILE."
)
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_TABLE_NAME = re.compile(r"[a-z][a-z0-9_]*")
_HANDLER = re.compile(r"[A-Za-z_][\w.]*\.[A-Za-z_]\w*")
_STACK = re.compile(r"[A-Za-z][A-Za-z0-9-]*")

_chosen: ContextVar[Path | Declaration | None] = ContextVar("consumer", default=None)


@contextmanager
def choosing(consumer: Path | Declaration) -> Iterator[None]:
    """Use this file, or what was read from it, in place of the one in the current folder."""
    token = _chosen.set(consumer)
    try:
        yield
    finally:
        _chosen.reset(token)


def declared() -> Declaration:
    """Return the declaration of the consumer that the tools work for. Raises `BadInput` if there is none."""
    declaration = find_declaration()
    if declaration is None:
        raise DeclarationNotFound(NONE.format(folder=Path.cwd()))
    return declaration


def find_declaration() -> Declaration | None:
    """Return the declaration of `--consumer`, `ONESLOT_CONSUMER`, the current folder or one above it; None without one.

    The search ends at the root of the repository, or at the user's home. A file names code that is imported, so one that
    was found, and not named, must be the user's. Raises `BadInput` if it is not. Elsewhere a checkout of Oneslot uses its
    own, and a package of the audit's job the one inside it.
    """
    chosen = _chosen.get() or os.environ.get(VARIABLE)
    if isinstance(chosen, Declaration):
        return chosen
    if chosen:
        return read_declaration(Path(chosen))
    for folder in _folders_to_search(Path.cwd()):
        if (path := folder / FILE_NAME).is_file():
            _refuse_others_file(path)
            return read_declaration(path)
    if (path := REPOSITORY / FILE_NAME).is_file():
        return read_declaration(path)
    packed = files("oneslot") / FILE_NAME
    return parse_declaration(packed.read_text(encoding="utf-8"), None) if packed.is_file() else None


def _folders_to_search(here: Path) -> Iterator[Path]:
    """Yield the folder and those above it, up to the root of its repository or the user's home."""
    try:
        home = Path.home().resolve()
    except RuntimeError:  # a container's user without a home
        home = None
    for folder in (here, *here.parents):
        yield folder
        if folder == home or (folder / ".git").exists():
            return


def _refuse_others_file(path: Path) -> None:
    """Raise `BadInput` if another user wrote or can write the file or its folder. The system's administrator is trusted."""
    for each in (path, path.parent):
        about = each.stat()
        if about.st_uid not in (os.geteuid(), 0):
            problem = "belongs to another user"
        elif about.st_mode & stat.S_IWOTH:
            problem = "can be written by every user"
        else:
            continue
        raise DeclarationUntrusted(
            f"{each} {problem}, and {FILE_NAME} names code to run. If you trust it, name it: --consumer {path}."
        )


def read_declaration(path: Path) -> Declaration:
    """Read a file. Raises `BadInput`."""
    path = path.resolve()
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise FileUnreadable(f"{path} cannot be read: {error.strerror}. Name a consumer's {FILE_NAME}.") from error


@lru_cache(16)
def _read(path: Path, _written: int) -> Declaration:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileUnreadable(f"{path} is not UTF-8 text. Save it as UTF-8.") from error
    return parse_declaration(text, path)


def parse_declaration(text: str, path: Path | None) -> Declaration:
    """Return the declaration in a file's text. Raises `BadInput`."""
    where = str(path or FILE_NAME)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidDeclaration(f"{where} is not TOML: {error}. Correct that line.") from error
    top = Section(where, "", document)
    reasons, tools = top.part("reasons"), top.part("tools")
    declaration = Declaration(
        name=top.matching("name", _NAME, "small letters, digits, - and _"),
        path=path,
        handler=top.matching("handler", _HANDLER, "module.function, as Lambda does, e.g. app.handler"),
        stack=top.matching("stack", _STACK, "the name of its CDK stack, e.g. Orders"),
        entry=top.text("entry", "."),
        outputs=top.text("outputs", ""),
        twice=top.text("twice", Declaration.twice),
        declared_tables={name: _table(name, part) for name, part in top.parts("tables")},
        outcomes={
            name: Outcome(
                name,
                part.text("request", None),
                part.text("names", None),
                part.text("sentence", ""),
                part.text("forgotten", ""),
            )
            for name, part in top.parts("outcomes")
        },
        law_names=top.texts("laws"),
        verbs=top.texts("verbs"),
        reasons={name: reasons.text(name, "") for name in reasons.content},
        private=_private(top),
        tools=Tools(**{each.name: tools.text(each.name, None) for each in fields(Tools)}),
    )
    for name, table in declaration.declared_tables.items():
        if unknown := [each for each in table.outcomes if declaration.outcomes and each not in declaration.outcomes]:
            raise InvalidDeclaration(
                f"{where}: tables.{name}.outcomes has {unknown[0]!r}, which is not one of [outcomes]. "
                f"Use {', '.join(declaration.outcomes)}, or add [outcomes.{unknown[0]}]."
            )
    if path and not (path.parent / declaration.entry).is_dir():
        raise InvalidDeclaration(
            f"{where}: entry is {declaration.entry!r}, which is not a folder. Name the folder of the handler."
        )
    top.refuse_unknown()
    return declaration


class Section:
    """A table of the file, whose values are checked as they are taken."""

    def __init__(self, where: str, name: str, content: Mapping[str, Any]) -> None:
        self.where = where
        self.name = name
        self.content = content
        self._taken: set[str] = set()
        self._inner: list[Section] = []

    def refuse(self, name: str, remedy: str) -> NoReturn:
        """Raise `BadInput` about one value."""
        value = self.content.get(name)
        is_what = "is missing" if value is None else f"is {value!r}"
        raise InvalidDeclaration(f"{self.where}: {self._full(name)} {is_what}. Write {remedy}.")

    def take(self, name: str, default: Any, fits: Callable[[Any], bool], remedy: str) -> Any:
        """Return a value, or `default` if it is missing and None is not."""
        self._taken.add(name)
        value = self.content.get(name, default)
        if value is not default and not fits(value):
            self.refuse(name, remedy)
        return value

    def text(self, name: str, default: Any) -> Any:
        """Return a text."""
        return self.take(name, default, lambda value: isinstance(value, str), "text in quotes")

    def matching(self, name: str, pattern: re.Pattern[str], remedy: str) -> str:
        """Return a text that must be there."""
        value = self.text(name, None)
        if value is None or not pattern.fullmatch(value):
            self.refuse(name, remedy)
        return str(value)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; a single text is a list of one."""

        def fits(value: Any) -> bool:
            return isinstance(value, str) or (isinstance(value, list) and all(isinstance(each, str) for each in value))

        value = self.take(name, [], fits, 'a list of texts, e.g. ["order_id"]')
        return (value,) if isinstance(value, str) else tuple(value)

    def part(self, name: str) -> Section:
        """Return a table inside this one; empty if it is missing."""
        content = self.take(name, {}, lambda value: isinstance(value, dict), f"a table, [{self._full(name)}]")
        inner = Section(self.where, self._full(name), content)
        self._inner.append(inner)
        return inner

    def parts(self, name: str) -> list[tuple[str, Section]]:
        """Return the tables inside a table, by name."""
        outer = self.part(name)
        return [(each, outer.part(each)) for each in outer.content]

    def refuse_unknown(self) -> None:
        """Raise `BadInput` for a name that was not asked for."""
        if unknown := sorted(self.content.keys() - self._taken):
            known = ", ".join(sorted(self._taken)) or "nothing"
            raise InvalidDeclaration(f"{self.where}: {self._full(unknown[0])} is not a known name. Use {known}.")
        for inner in self._inner:
            inner.refuse_unknown()

    def _full(self, name: str) -> str:
        return f"{self.name}.{name}" if self.name else name


def _table(name: str, part: Section) -> DeclaredTable:
    if not _TABLE_NAME.fullmatch(name) or name == "ledger":
        raise InvalidDeclaration(
            f"{part.where}: tables.{name} is not a valid name of a table. "
            "Use small letters, digits and underscores, and not 'ledger'."
        )
    declared = DeclaredTable(
        key=part.texts("key"),
        request=part.text("request", None),
        time=part.text("time", None),
        rows=part.take("rows", None, lambda value: type(value) is int and value > 0, "a whole number above 0"),
        outcomes=part.texts("outcomes"),
        by_request=part.take("by_request", False, lambda value: isinstance(value, bool), "true or false"),
        attributes=part.texts("attributes"),
        names=part.texts("names"),
        lacking=part.text("lacking", None),
    )
    if not 1 <= len(declared.key) <= 2:  # noqa: PLR2004 - a partition key, and a sort key
        part.refuse("key", 'the one or two attributes of the table\'s key, e.g. ["order_id"]')
    if declared.request is None and (declared.rows or declared.time or declared.by_request):
        part.refuse("request", "the attribute that names a row's request, or a function's dotted name")
    if declared.outcomes and declared.rows is None:
        part.refuse("rows", "the number of rows that a request with one of these outcomes has, e.g. 1")
    if declared.attributes and (left_out := sorted({*declared.needed} - {*declared.attributes})):
        raise InvalidDeclaration(
            f"{part.where}: {part.name}.attributes leaves out {left_out[0]}, which the laws need. "
            "Add it, or remove attributes to read all."
        )
    return declared


def _private(top: Section) -> Private | None:
    part = top.part("private")
    if not part.content:
        return None
    names = ("find", "name", "pattern")
    found = {name: part.text(name, None) for name in names}
    for name in names:
        if found[name] is None:
            part.refuse(name, "text: find and pattern name a function and its pattern, name calls it in a sentence")
    return Private(**found)
