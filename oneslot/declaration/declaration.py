"""The declaration of one consumer, typed and frozen. `oneslot.declaration.reading` reads it from a file."""

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

from oneslot.errors import InvalidDeclaration, NotImportable, how_to_install, name_fault
from oneslot.laws.evidence import Breach, Evidence, Law, check
from oneslot.laws.form import ID, TIME, Form
from oneslot.laws.ledger import EFFECT_ROWS, join_laws
from oneslot.laws.schema import Effect, Outcome, Row, Schema, Table, text_of


@dataclass(frozen=True)
class DeclaredTable:
    """A table as the file writes it; `Table` is the same with its functions.

    `request` is an attribute, or the dotted name of a function from row to the requests that it names: ids or `Effect`s.
    `time` is the attribute with the time of the commit (epoch ms). `lacking` is the dotted name of a function. `names` are
    further subjects that a row is about, as in `Table`.
    """

    key: tuple[str, ...]
    request: str | None = None
    time: str | None = None
    rows: int | None = None
    outcomes: tuple[str, ...] = ()
    by_request: bool = False
    attributes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    lacking: str | None = None

    @property
    def needed(self) -> tuple[str, ...]:
        """The attributes that the tools need in any case."""
        by_name = (self.request,) if self.request and "." not in self.request else ()
        parts = (part.partition(".")[0] for name in self.names for part in name.split("/"))
        return tuple(dict.fromkeys([*self.key, *by_name, *((self.time,) if self.time else ()), *parts]))


@dataclass(frozen=True)
class Private:
    """Text that no id and no tool's output may hold, such as a patient's number.

    `find` is the dotted name of a function from text to bool, `pattern` of the compiled pattern of its candidates: ten digits
    with a check digit by Modulus 11. `name` calls it in a sentence: "an NHS number".
    """

    find: str
    name: str
    pattern: str


@dataclass(frozen=True)
class Tools:
    """Dotted names of functions of the consumer that a verb calls; each may be missing.

    Attributes:
        identity: a record → the message's id, as `Consumer.identity`.
        parse: `(message_id, payload_hash, body)` → the message, as `Consumer.parse`.
        foresee: what a redrive of a message would do; see `oneslot.operator.repair.forecast.Foresight`.
        story: the rows of a request → `(time, event, sentence)` for `oneslot inspect`.
        next_steps: what `oneslot up` prints; see `oneslot.operator.commands.stack`.
        audit: this declaration → the `oneslot.audit.model.Model` by which the Spark audit judges; see `demo/audit`.
    """

    identity: str | None = None
    parse: str | None = None
    foresee: str | None = None
    story: str | None = None
    next_steps: str | None = None
    audit: str | None = None


@dataclass(frozen=True)
class Declaration:
    """A consumer, as the tools see it.

    Attributes:
        name: of the consumer, in sentences.
        path: the file; None for a declaration inside a package.
        handler: the function in `entry`, as Lambda writes it.
        entry: the folder with the handler, from the file's folder.
        stack: the name of its CDK stack.
        outputs: the prefix of the stack's outputs, where a stack has several consumers.
        twice: how check, run and the audit call a request that took effect twice.
        laws: dotted names of the consumer's own laws: functions, `Law`s, or sequences of them.
        verbs: dotted names of its own verbs: click commands, or functions from a list of arguments to an exit status.
        reasons: what an operator does about a dead letter, by its reason.
    """

    name: str
    path: Path | None
    handler: str
    stack: str
    entry: str = "."
    outputs: str = ""
    twice: str = "done twice"
    declared_tables: Mapping[str, DeclaredTable] = field(default_factory=dict)
    outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    law_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    private: Private | None = None
    tools: Tools = field(default_factory=Tools)

    @property
    def folder(self) -> Path:
        """The folder of the file."""
        return self.path.parent if self.path else Path.cwd()

    @cached_property
    def schema(self) -> Schema:
        """The tables and outcomes, with the tables' functions. Raises `BadInput` for a name that cannot be imported."""
        tables = {name: self._table(name, declared) for name, declared in self.declared_tables.items()}
        return Schema(tables, self.outcomes)

    @cached_property
    def laws(self) -> tuple[Law, ...]:
        """The ledger's laws and the consumer's own. Raises `BadInput` for a name that is not a law's."""
        own: list[Law] = []
        for name in self.law_names:
            found = self.load(name, "laws")
            own += [self._law(name, each) for each in (found if isinstance(found, list | tuple) else (found,))]
        if any(table.rows is not None for table in self.declared_tables.values()):
            own.insert(0, EFFECT_ROWS)
        return join_laws(own)

    @property
    def judged(self) -> list[Law]:
        """The laws that a history can show."""
        return [law for law in self.laws if law.is_judged]

    def check(self, evidence: Evidence) -> list[Breach]:
        """Return all breaches, in the order of the laws."""
        return check(evidence, self.laws)

    def evidence(self, *, ledger: Mapping[str, Row] | None = None, **parts: Any) -> Evidence:
        """Return evidence about this consumer. Rows of its tables are given by the tables' names."""
        tables = {name: parts.pop(name) for name in self.declared_tables if name in parts}
        return Evidence(ledger=ledger or {}, tables=tables, schema=self.schema, **parts)

    def is_private(self, text: str) -> bool:
        """Return whether the text holds what must not be shown."""
        return self.private is not None and bool(self.load(self.private.find)(text))

    def stack_of(self, stage: str) -> str:
        """Return the name of a stage's stack: `Orders-dev` is `Orders-prod` in prod; a name without -dev is the same in all."""
        return re.sub(r"-dev$", f"-{stage}", self.stack)

    def output(self, name: str) -> str:
        """Return the name of one of the stack's outputs: `QueueUrl`, after the declared prefix."""
        return f"{self.outputs}{name}"

    def tool(self, name: str) -> Callable[..., Any] | None:
        """Return one of `Tools`, None if it is not declared. Raises `BadInput` if it cannot be imported."""
        dotted = getattr(self.tools, name)
        return None if dotted is None else self._function(dotted, f"tools.{name}")

    def load(self, dotted: str, field_name: str = "") -> Any:
        """Import what a dotted name names. Raises `BadInput`, which names field and remedy."""
        for folder in (self.folder / self.entry, self.folder):
            if self.path and str(folder.resolve()) not in sys.path:
                sys.path.insert(0, str(folder.resolve()))
        module, _, name = dotted.rpartition(".")
        return load_name(
            f"{self.path or 'oneslot.toml'}: {field_name or 'a name'} is {dotted!r}",
            module,
            name,
            f"Write module.name, importable from {self.folder} or its entry {self.entry!r}.",
        )

    def _function(self, dotted: str, field_name: str) -> Callable[..., Any]:
        found = self.load(dotted, field_name)
        if not callable(found):
            raise InvalidDeclaration(
                f"{self.path}: {field_name} is {dotted!r}, which is of type {type(found).__name__}. Name a function."
            )
        function: Callable[..., Any] = found
        return function

    def _table(self, name: str, declared: DeclaredTable) -> Table:
        effects = self._effects(name, declared)
        needed = () if not declared.request or "." in declared.request else (declared.request,)
        # A row that names no request, such as a counter beside the requests' rows, is judged by no request.
        attributes = dict.fromkeys(needed, ID) | ({declared.time: TIME} if declared.time else {})
        lacking = self._function(declared.lacking, f"tables.{name}.lacking") if declared.lacking else None
        if isinstance(lacking, Form):
            attributes, lacking = {**attributes, **lacking.attributes}, None
        return Table(
            name,
            declared.key,
            self.output(f"{name.title().replace('_', '')}TableName"),
            declared.attributes,
            effects,
            declared.rows,
            declared.outcomes,
            declared.by_request or declared.key == needed,
            declared.attributes,
            declared.names,
            Form(attributes).needs(*declared.key),
            lacking,
        )

    def _effects(self, name: str, declared: DeclaredTable) -> Callable[[Row], Iterable[Effect]] | None:
        request, time = declared.request, declared.time
        if request is None:
            return None
        if "." not in request:
            return lambda row: (Effect(row[request], int(row.get(time or "", 0))),) if request in row else ()
        function = self._function(request, f"tables.{name}.request")

        def effects(row: Row) -> Iterator[Effect]:
            named = function(row)
            for each in (named,) if isinstance(named, str | Effect) else named or ():
                effect = each if isinstance(each, Effect) else Effect(each, int(row.get(time or "", 0)))
                yield effect._replace(request=text_of(effect.request or ""))

        return effects

    def _law(self, dotted: str, found: Any) -> Law:
        if isinstance(found, Law):
            return found
        if not callable(found):
            raise InvalidDeclaration(
                f"{self.path}: laws names {dotted!r}, which is of type {type(found).__name__}. "
                "Name a function from the evidence to (subject, detail) for each breach."
            )
        name = str(getattr(found, "__name__", dotted))
        sentence = re.sub(r"\s+", " ", (found.__doc__ or "").strip().partition("\n\n")[0])
        return Law(name, sentence or f"{name.replace('_', ' ').capitalize()}.", found)


def load_name(subject: str, module: str, name: str, remedy: str) -> Any:
    """Return `name` of `module`. Whatever the module raises becomes `NotImportable`, which begins with `subject`.

    `remedy` is a sentence for a module or a name that does not exist.
    """
    if not module or module.startswith("."):
        raise NotImportable(f"{subject}: it names no module. {remedy}")
    try:
        imported = import_module(module)
    except ImportError as error:
        missing = (error.name or "") if isinstance(error, ModuleNotFoundError) else ""
        if missing.partition(".")[0] not in ("", module.partition(".")[0]):
            remedy = how_to_install(error) or f"Install {missing}."
        raise NotImportable(f"{subject}: {error}. {remedy}") from error
    except (Exception, SystemExit) as error:
        raise NotImportable(
            f"{subject}: importing it raised {name_fault(error)}. Correct the module, or its environment: the command "
            "has none of the function's variables."
        ) from error
    if not hasattr(imported, name):
        raise NotImportable(f"{subject}: {getattr(imported, '__file__', None) or module} has no {name}. {remedy}")
    return getattr(imported, name)
