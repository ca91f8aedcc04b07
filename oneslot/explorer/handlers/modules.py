"""The handler's modules: fresh for each environment, and out of sight of all others."""

import ast
import importlib
import importlib.machinery
import importlib.util
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from oneslot.explorer.execution.process import RunningInvocation
from oneslot.explorer.handlers.asked import Asked
from oneslot.explorer.handlers.memory.memory import Shared
from oneslot.explorer.handlers.memory.visible import LOOP, Loop, Visible
from oneslot.explorer.handlers.reached import RAN, Reached, ran
from oneslot.explorer.handlers.surroundings.chance import HASH, hashed
from oneslot.explorer.handlers.surroundings.environment import is_installed
from oneslot.explorer.refusal import NotExplorable
from oneslot.explorer.world import ApiCall

_OURS = str(Path(__file__).parents[2])
_COMPILABLE = (importlib.machinery.SourceFileLoader, importlib.machinery.SourcelessFileLoader)
"""The loaders of modules that can be made again for each environment. An extension module is left to Python, which
loads it once in a process."""

_OF_TESTS = ("tests", "test_", "conftest", "__main__")
_ASYNCHRONOUS = ("aioboto3", "aiobotocore")
_AWAIT_REMEDY = "Call boto3 in the coroutine, or await asyncio.to_thread with its call."

RECORDS, RECEIVES = "Records", "ApproximateReceiveCount"
"""The names of the event that the code under test may look up. `followed` notes it."""


class Code:
    """A handler by name: "app.handler", or "app:handler". Its modules are those below `roots`: its folder and layers."""

    def __init__(self, handler: str, roots: Sequence[Path]) -> None:
        module, _, function = handler.replace(":", ".").replace("/", ".").rpartition(".")
        if not module:
            raise ValueError(f'handler: "{handler}" names no function. Write it as Lambda does: "app.handler".')
        self.name, self.module, self.function = handler, module, function
        self.roots = [root.resolve() for root in roots]
        self._folders = tuple(f"{root}/" for root in self.roots)
        self.follows = True
        self.asked: Asked | None = None
        """What the invocation asks of a made event, while one grows."""
        self.is_watched = False
        self.last_words = ("", "")
        """The last invocation's last exception, if it is watched, and its last line of output."""
        self.invalid_answer = ""
        """Why Lambda took a whole batch as failed, although the handler reported failures."""
        self.status = 0
        """The HTTP status of the last answer; 0 if no client reads it."""
        self.names: set[Any] = set()
        """The constants, the attributes' names and the packages in its modules, among them the errors that it tells apart."""
        self.reached = Reached(self.roots, self.names)
        self.forget_reads()
        self.visible = Visible()
        self.shared = Shared()
        self.unchanged: list[Any] = []
        """The ended invocations whose environments are as their import made them. The next ones run there."""
        self.unseen = ""
        """What an environment holds whose state cannot be seen."""
        self._compiled: dict[str, tuple[CodeType, Any]] = {}

    def forget_reads(self) -> None:
        """Forget that an invocation has read the clock, an id or its event, what it drew, and what it reached."""
        self.reads_clock = self.reads_identity = self.reads_environment = False
        self.draws = 0
        self.reached.forget()
        self.looked_up = set() if self.follows else {RECEIVES, RECORDS}

    @property
    def reads_receives(self) -> bool:
        """Whether an invocation has read how often its message was delivered."""
        return RECEIVES in self.looked_up

    def note_clock(self) -> None:
        """Note that time makes a difference to the code."""
        self.reads_clock = True

    def note_call(self, call: ApiCall, frame: FrameType | None) -> None:
        """Note a call, with the line that makes it."""
        if call.text in self.reached.calls:
            return
        while frame is not None and not self.is_own(frame.f_code.co_filename):
            frame = frame.f_back
        line = "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
        self.reached.calls[call.text] = (call.parts[0], line)

    def load(self) -> Any:
        """Return the function of the running environment, imported where it is not yet; None if there is none."""
        return getattr(importlib.import_module(self.module), self.function, None)

    def is_own(self, origin: str | None) -> bool:
        """Return whether a file is the handler's."""
        path = origin or ""
        if not path.startswith(self._folders):  # of thousands of modules, few are
            return False
        root = next(str(root) for root in self.roots if path.startswith(f"{root}/"))
        if path.startswith(_OURS) and not root.startswith(_OURS):
            return False
        return not is_installed(path[len(root) :])

    @contextmanager
    def importable(self) -> Iterator[None]:
        """Put the roots first on the path, and hide what is imported of them, or under their names, already."""
        entries = {entry.name for root in self.roots if root.is_dir() for entry in root.iterdir()}
        hidden: dict[str, ModuleType] = {}
        for name, module in sys.modules.items():
            file, first = getattr(module, "__file__", None), name.partition(".")[0]
            # A module of another folder may have the name of one of ours, such as another service's `app`.
            is_other = file is not None and not file.startswith(_OURS) and not is_installed(file)
            has_our_name = is_other and not entries.isdisjoint((f"{first}.py", first))
            is_hidden = name.startswith(_ASYNCHRONOUS) or self.is_own(file) or has_our_name
            if is_hidden and not name.startswith(_OF_TESTS):
                hidden[name] = module
        for name in hidden:
            del sys.modules[name]
        sys.path[:0] = map(str, self.roots)
        sys.meta_path.insert(0, self)
        importlib.invalidate_caches()
        try:
            yield
        finally:
            sys.meta_path.remove(self)
            for root in self.roots:
                sys.path.remove(str(root))
            sys.modules.update(hidden)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of an own module, whose code is compiled once; None for all others."""
        process: Any = RunningInvocation.running
        if process is None:
            return None
        if name in _ASYNCHRONOUS:
            if self.is_own(_importer()):
                process.refuse(f"The handler imports {name}, whose calls the explorer cannot schedule. {_AWAIT_REMEDY}")
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)  # X-Ray patches whatever is installed
        if name not in self._compiled:
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            if spec is None or not isinstance(spec.loader, _COMPILABLE) or not self.is_own(spec.origin):
                return None
            self._compiled[name] = (self._code(name, spec), spec)
        process.environment.modules[name] = None
        _, known = self._compiled[name]
        spec = importlib.machinery.ModuleSpec(name, self, origin=known.origin)  # type: ignore[arg-type]
        spec.submodule_search_locations = known.submodule_search_locations
        spec.has_location = True
        return spec

    def _code(self, name: str, spec: Any) -> CodeType:
        source = spec.loader.get_source(name)
        if source is None:
            return spec.loader.get_code(name)  # type: ignore[no-any-return]
        tree = self.visible.parsed(source, spec.origin)
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self.names |= {one.name.partition(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom):
                self.names.add((node.module or "").partition(".")[0])
            elif isinstance(node, ast.Attribute | ast.Constant):
                self.names.add(node.attr if isinstance(node, ast.Attribute) else node.value)
        tree = self.reached.marked(tree, spec.origin)
        return compile(tree, spec.origin, "exec", dont_inherit=True)

    def create_module(self, spec: Any) -> None:
        """Let Python make the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the code of a module."""
        code, _ = self._compiled[module.__name__]
        vars(module).update({LOOP: Loop, HASH: hashed, RAN: ran})
        exec(code, vars(module))  # noqa: S102 - it is the code under test

    def get_data(self, path: str) -> bytes:
        """Return what a file beside a module holds, for `pkgutil`."""
        return Path(path).read_bytes()

    def get_resource_reader(self, name: str) -> Any:
        """Return the reader of a package's files, for `importlib.resources`."""
        return self._compiled[name][1].loader.get_resource_reader(name)


def _importer() -> str:
    """Return the file of the code whose import is under way."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_code.co_filename if frame is not None else ""


def found(handler: str, roots: Sequence[Path]) -> Code:
    """Return the handler. Raises `NotExplorable` if its module is in none of the folders."""
    code = Code(handler, roots)
    first = code.module.partition(".")[0]
    if not any((root / candidate).exists() for root in code.roots for candidate in (f"{first}.py", first)):
        folders = ", ".join(map(str, code.roots))
        raise NotExplorable(f"{folders}: no module {first}. Name the folder that has it: path=...")
    return code


class _Followed(str):
    """A key of the event. A dict compares its keys with the name that code looks up, also in C, as for pydantic.

    Its state is its text alone, so that an event can be copied.
    """

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        equal = str.__eq__(self, other)
        code = getattr(RunningInvocation.running, "code", None)
        if equal is True and code is not None:
            code.looked_up.add(str(self))
        return equal

    def __ne__(self, other: object) -> bool:
        return not self == other


def followed(event: str) -> Any:
    """Return an event, from its JSON, whose lookups of `RECORDS` and `RECEIVES` are noted in `Code.looked_up`."""
    names = {name: _Followed(name) for name in (RECORDS, RECEIVES)}
    return json.loads(event, object_pairs_hook=lambda pairs: {names.get(name, name): value for name, value in pairs})
