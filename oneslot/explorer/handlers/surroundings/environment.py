"""What an environment of Lambda keeps outside of its modules: its variables, its /tmp and where it looks for modules.

Each environment finds its own, however the explorer interleaves them. Whatever else a handler would change on this
machine is seen by Python's audit events, and refused by name.
"""

import contextlib
import functools
import gc
import hashlib
import itertools
import os
import re
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from pathlib import Path
from threading import get_ident
from types import FrameType, ModuleType
from typing import Any, ClassVar, NoReturn
from unittest import mock

from oneslot.explorer.refusal import NotExplorable, Stop

_HOME = Path.home()
TMP = "/tmp"  # noqa: S108 - Lambda's own name for it
"""The one folder that Lambda lets a function write to."""

_STREAMS = ("/dev/stdout", "/dev/stderr")
"""Files that end in a log."""

_FOLLOWED, _ITSELF = True, False
_CHANGES: dict[str, tuple[tuple[int, int | None, bool], ...]] = {
    "os.chmod": ((0, 2, _FOLLOWED),),
    "os.chown": ((0, 3, _FOLLOWED),),
    "os.link": ((0, 2, _FOLLOWED), (1, 3, _ITSELF)),
    "os.mkdir": ((0, 2, _ITSELF),),
    "os.remove": ((0, 1, _ITSELF),),
    "os.removexattr": ((0, None, _FOLLOWED),),
    "os.rename": ((0, 2, _ITSELF), (1, 3, _ITSELF)),
    "os.rmdir": ((0, 1, _ITSELF),),
    "os.setxattr": ((0, None, _FOLLOWED),),
    "os.symlink": ((1, 2, _ITSELF),),
    "os.truncate": ((0, None, _FOLLOWED),),
    "os.utime": ((0, 3, _FOLLOWED),),
}
"""The events that change files: the place of each path, and of the folder that it is relative to, among their values."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

_PROVIDERS = "aws_lambda_powertools.utilities.parameters.base"
"""The module of Powertools that keeps the parameters and secrets which were read."""

_SOCKET = ("a socket that is not of HTTP", "Let the test replace that client")
SUBPROCESS = ("a subprocess", "Let the test replace it")
_SIGNAL = ("a signal to a process", "Let the test replace it")
_REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("socket.bind", "socket.connect", "socket.sendmsg", "socket.sendto"), _SOCKET),
    **dict.fromkeys(("socket.getaddrinfo", "socket.gethostbyaddr", "socket.gethostbyname"), _SOCKET),
    **dict.fromkeys(("os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"), SUBPROCESS),
    **dict.fromkeys(("pty.spawn", "subprocess.Popen"), SUBPROCESS),
    **dict.fromkeys(("os.kill", "os.killpg", "signal.pthread_kill"), _SIGNAL),
}
"""What no environment may do, with the remedy, by the event."""

_OF_C = re.compile(
    "system|popen|v?fork|exec.*|posix_spawn.*|socket|connect|send.*|kill|open.*|creat|unlink|rename|syscall"
)
"""The functions of C by which ctypes would leave the environment."""

_OURS, _REPLACING = str(Path(__file__).parents[2]), "surroundings/takeover.py"
_INSTALLED = ("site-packages", "dist-packages", "lib/python")


@functools.lru_cache(maxsize=10_000)
def is_installed(path: str) -> bool:
    """Return whether a file is of an installed package, or of Python."""
    return any(part in path for part in _INSTALLED)


@dataclass(eq=False)
class LambdaEnvironment:
    """One environment, while its code does not run.

    Attributes:
        modules: the handler's modules; what the import has reached and read is in `imported` and `read_at_import`.
        variables: its environment variables, if they are not those of the start; `path`: the same of `sys.path`.
        folder: where its /tmp is kept, if something is in it.
        working: its working directory, relative to /tmp, once it has changed that.
        providers: the parameters and secrets that Powertools keeps for it.
        random: the random numbers of the module `random`, once they are used.
        context: the values of context variables, as its last invocation left them.
        umask: what it has set, for itself alone.
        number: what tells it from others by its host and its process, once it is read.
        seed: what tells it from others by the hashes of texts, once it is read.
        state: a text that changes with all of these.
    """

    modules: dict[str, ModuleType | None] = field(default_factory=dict)
    imported: Any = None
    read_at_import: tuple[Any, ...] = ()
    variables: dict[str, str] | None = None
    path: list[str] | None = None
    folder: Path | None = None
    working: str | None = None
    providers: dict[str, Any] = field(default_factory=dict)
    state: str = ""
    random: Any = None
    number: int | None = None
    seed: int | None = None
    context: Context = field(default_factory=Context)
    umask: int = 0o022


class LambdaEnvironments:
    """The environments of one exploration. `/tmp` is a folder that holds the files of the one whose code runs.

    `running` returns the process that runs, which may refuse. `own` are the folders of the handler.
    """

    current: ClassVar["LambdaEnvironments | None"] = None

    def __init__(self, running: Callable[[], Any], base: Path, own: Sequence[Path] = ()) -> None:
        self._base = base.resolve()
        self.tmp = self._base / "tmp"
        self.tmp.mkdir()
        self._started_ns = self.tmp.stat().st_mtime_ns
        found = {*(str(one.resolve()) for one in own), sys.prefix, sys.base_prefix, *sys.path}
        self._not_moved = tuple(f"{one}/" for one in (str(self._base), *found) if one.startswith(f"{TMP}/"))
        self._is_own = TMP in found
        self._running = running
        self._variables = dict(os.environ)
        self._path: list[str] = []
        self._own = [one.resolve() for one in own]
        self._outside = Path.cwd()
        self._directory = self._own[0] if self._own else self._outside
        self._variables_changed = self._files_changed = self._directory_changed = self._looks = False
        self._count = itertools.count()
        self._folders = tuple(f"{one}/" for one in self._own)
        self._here = get_ident()
        self.opened: weakref.WeakSet[Any] = weakref.WeakSet()
        """The files that the handler has opened. Python warns when it collects an open one, perhaps in a later test."""
        self.refusal = ""
        """What was refused while no invocation ran, such as in a destructor."""

    def acting(self) -> Any:
        """Return what refuses for the code that runs: its process, this object for the handler's code beside one, or None."""
        process = self.process()
        if process is not None or self._looks or get_ident() != self._here:
            return process
        frame: FrameType | None = sys._getframe(3)  # what the audit hook, or a replaced function, was called by
        while frame is not None:
            file = frame.f_code.co_filename
            if file.startswith(_OURS) and not file.endswith(_REPLACING):
                return None
            if any(file.startswith(one) and not is_installed(file[len(one) :]) for one in self._folders):
                return self
            frame = frame.f_back
        return None

    def refuse(self, sentence: str) -> NoReturn:
        """Refuse what the handler's code does while no invocation runs."""
        self.refusal = sentence
        raise Stop(sentence)

    def process(self) -> Any:
        """Return the process whose code runs at this moment; None within the explorer's own code."""
        return None if self._looks else self._running()

    def moved(self, path: Any) -> Any:
        """Return where a path of Lambda's /tmp is on this machine; every other path as it is."""
        if isinstance(path, int) or path is None:
            return path
        text = os.fsdecode(path)
        if text in _STREAMS:
            return os.devnull
        if text != TMP and not text.startswith(f"{TMP}/"):
            return path
        with self._looking():
            if f"{text}/".startswith(self._not_moved) or (self._is_own and os.path.lexists(text)):
                return path
        text = f"{self.tmp}{text[len(TMP) :]}"
        return os.fsencode(text) if isinstance(path, bytes) else text

    def named(self, place: str) -> str:
        """Return the name that a place on this machine has for the code that runs."""
        if self.process() is None or not Path(place).is_relative_to(self.tmp):
            return place
        return f"{TMP}{place[len(str(self.tmp)) :]}"

    def enter(self, environment: LambdaEnvironment) -> None:
        """Put in place what an environment has of its own."""
        sys.modules.update({name: module for name, module in environment.modules.items() if module is not None})
        self._path = list(sys.path)
        self._variables_changed = environment.variables is not None
        self._files_changed = bool(environment.folder)
        if environment.variables is not None:
            _set_variables(environment.variables)
        if environment.path is not None:
            sys.path[:] = environment.path
        if environment.providers:
            _providers().update(environment.providers)
        if environment.folder:
            self.tmp.rmdir()
            environment.folder.rename(self.tmp)
            environment.folder = None
        self._directory_changed = environment.working is not None
        os.chdir(self._directory if environment.working is None else self.tmp / environment.working)

    def leave(self, environment: LambdaEnvironment, now_ms: int) -> None:
        """Keep what an environment has of its own, and put back what was before."""
        environment.state = self.state(environment, now_ms)
        if self._directory_changed:
            environment.working = os.path.relpath(Path.cwd(), self.tmp)
        os.chdir(self._outside)
        environment.variables = environment.path = environment.folder = None
        if self._variables_changed:
            environment.variables = dict(os.environ)
            _set_variables(self._variables)
        if sys.path != self._path:
            environment.path = list(sys.path)
            sys.path[:] = self._path
        environment.providers = dict(_providers())
        _providers().clear()
        if self._files_changed and any(self.tmp.iterdir()):
            environment.folder = self.tmp.rename(self._base / str(next(self._count)))
            self.tmp.mkdir()
            weakref.finalize(environment, shutil.rmtree, environment.folder, True)
        self._variables_changed = self._files_changed = False
        for name in environment.modules:
            environment.modules[name] = sys.modules.pop(name, None)

    def state(self, environment: LambdaEnvironment, now_ms: int) -> str:
        """Return a text that changes with what an environment, whose code runs, has of its own."""
        others = "" if sys.path == self._path else repr(sys.path)
        others += "" if environment.umask == LambdaEnvironment.umask else repr(environment.umask)
        if self._directory_changed:
            with self._looking():
                others += f"in {Path.cwd()}"
        if environment.number is not None:
            others += f"number {environment.number}"
        if environment.seed is not None:
            others += f"seed {environment.seed}"
        others += "".join(f"{name} {one.store}" for name, one in _providers().items())
        if environment.random is not None and environment.random.is_seeded:
            others += hashlib.blake2b(repr(environment.random.getstate()).encode()).hexdigest()
        if self._variables_changed:
            others += repr(sorted(set(os.environ.items()) ^ set(self._variables.items())))
        if self._files_changed:
            with self._looking():
                others += repr([self._file(path, now_ms) for path in sorted(self.tmp.rglob("*"))])
        return others

    def _file(self, path: Path, now_ms: int) -> tuple[Any, ...]:
        """Return what a file holds. One that was written since the last look gets the time of the exploration."""
        found = path.lstat()
        if found.st_mtime_ns >= self._started_ns:
            with contextlib.suppress(OSError):
                os.utime(path, ns=(now_ms * 1_000_000,) * 2, follow_symlinks=False)
            found = path.lstat()
        held = bytes(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
        content = hashlib.blake2b(held, digest_size=16).hexdigest()
        return str(path), found.st_mode, found.st_mtime_ns, content

    def timed(self, found: os.stat_result) -> os.stat_result:
        """Return what `stat` says of a file in the explorer's time, if the file was written during the exploration."""
        process = self.process()
        if process is None or found.st_ctime_ns < self._started_ns:
            return found
        written = found.st_mtime_ns
        if written >= self._started_ns:
            written = process.read_clock() * 1_000_000
        names = ("st_atime", "st_mtime", "st_ctime")
        times = {**dict.fromkeys(names, written / 1e9), **{f"{name}_ns": written for name in names}}
        others = {"st_blksize": found.st_blksize, "st_blocks": found.st_blocks, "st_rdev": found.st_rdev}
        return os.stat_result((*tuple(found)[:7], *(written // 1_000_000_000,) * 3), {**others, **times})

    def check(self, event: str, values: tuple[Any, ...]) -> None:
        """Refuse an event that reaches out of the environment of the code that runs.

        Processes, sockets and signals are refused to all code of this thread: a destructor's as well.
        """
        process = self.process()
        if event in _REFUSED and not self._looks and get_ident() == self._here:
            what, remedy = _REFUSED[event]
            (process or self).refuse(f"The handler uses {what}, which the explorer cannot schedule. {remedy}.")
        if event == "open" and not values[2] & _WRITING:
            if process is not None and isinstance(values[0], str) and "/." in values[0]:
                self._refuse_secrets(process, values[0])
            return
        process = process or self.acting()
        if process is None:
            return
        if event == "ctypes.dlsym":
            if isinstance(values[1], str) and _OF_C.fullmatch(values[1]):
                process.refuse(f"The handler calls {values[1]} of C, which Python cannot see. Let the test replace it.")
            return
        if event in ("os.putenv", "os.unsetenv"):
            self._variables_changed = True
            caller = sys._getframe(2).f_code.co_filename
            if caller != os.__file__ and not caller.startswith("<frozen os"):
                process.refuse(f"The handler calls {event}, which Python cannot see again. Use os.environ.")
            return
        self._check_files(process, event, values)

    def _check_files(self, process: Any, event: str, values: tuple[Any, ...]) -> None:
        if event == "os.chdir":
            with self._looking():
                place = _place(values[0], -1, _FOLLOWED)
            if not any(place.is_relative_to(one) for one in (self.tmp, *self._own)):
                process.refuse(
                    f"The handler uses {place} as its working directory. Give the paths of files in full, or use /tmp."
                )
            self._directory_changed = True
            return
        for path, folder, followed in _changed(event, values):
            with self._looking():
                place = _place(path, folder, followed)
            if place.is_relative_to(self._base):
                self._files_changed = True
            elif str(place) != os.devnull:
                process.refuse(
                    f"The handler writes {place if isinstance(path, int) or folder >= 0 else os.fsdecode(path)}, "
                    "and Lambda lets it write to /tmp alone. Write there, or let the test replace it."
                )

    def _refuse_secrets(self, process: Any, path: str) -> None:
        """Refuse to read what a developer keeps at home under a name with a dot, such as ~/.aws."""
        with self._looking():
            place = Path(path).resolve()
        if _HOME in place.parents and place.relative_to(_HOME).parts[0].startswith("."):
            found = (*self._own, *map(Path, (sys.prefix, sys.base_prefix)), *(Path(one) for one in sys.path if one))
            if not any(place.is_relative_to(one) for one in found):
                process.refuse(
                    f"The handler reads {path}, which Lambda does not have. Give it in the handler's folder."
                )

    @contextlib.contextmanager
    def _looking(self) -> Iterator[None]:
        before, self._looks = self._looks, True
        try:
            yield
        finally:
            self._looks = before


def _providers() -> dict[str, Any]:
    return getattr(sys.modules.get(_PROVIDERS), "DEFAULT_PROVIDERS", {})


def _set_variables(wanted: dict[str, str]) -> None:
    for name in [name for name in os.environ if name not in wanted]:
        del os.environ[name]
    os.environ.update({name: value for name, value in wanted.items() if os.environ.get(name) != value})
    time.tzset()


def _changed(event: str, values: tuple[Any, ...]) -> Iterator[tuple[Any, int, bool]]:
    """Yield each path that an event changes, the folder that it is relative to (-1: the current one), and `_FOLLOWED`."""
    if event == "open":
        path, _, flags = values
        if flags & _WRITING and path is not None and not isinstance(path, int):
            yield path, -1, _FOLLOWED
    elif event == "sqlite3.connect":
        path = os.fsdecode(values[0]).removeprefix("file:")
        if path and ":memory:" not in path and "mode=memory" not in path and "mode=ro" not in path:
            yield path.partition("?")[0], -1, _FOLLOWED
    else:
        for path, folder, followed in _CHANGES[event]:
            yield values[path], -1 if folder is None else values[folder], followed


def open_file(number: int) -> Path:
    """Return the path of an open file or folder."""
    return Path(f"/proc/self/fd/{number}").resolve()


def _place(path: Any, folder: int, followed: bool) -> Path:
    """Return the path of a file without links; of a link itself unless it is followed."""
    if isinstance(path, int):
        return open_file(path)
    place = Path(os.fsdecode(path))
    if folder >= 0:
        place = open_file(folder) / place
    return place.resolve() if followed else place.parent.resolve() / place.name


_OTHERS = ("open", "os.chdir", "sqlite3.connect", "os.putenv", "os.unsetenv", "ctypes.dlsym")
_WATCHED = frozenset({*_CHANGES, *_REFUSED, *_OTHERS})


def _watch(event: str, values: tuple[Any, ...]) -> None:
    if event not in _WATCHED:
        return
    if LambdaEnvironments.current is not None:
        LambdaEnvironments.current.check(event, values)
    elif _sealed and event in _REFUSED:
        raise PermissionError(f"{event}: this process explores a handler, and starts nothing else")


_watches: list[bool] = []
_sealed: list[bool] = []


@contextlib.contextmanager
def sealed() -> Iterator[None]:
    """Refuse processes, sockets and signals, also after an exploration, whose objects may outlive it."""
    _add_watch()
    _sealed.append(True)
    try:
        yield
        gc.collect()
    finally:
        _sealed.pop()


def _add_watch() -> None:
    if not _watches:  # Python keeps an audit hook for good
        sys.addaudithook(_watch)
        _watches.append(True)


@contextlib.contextmanager
def separate_environments(running: Callable[[], Any], own: Sequence[Path] = ()) -> Iterator[LambdaEnvironments]:
    """Give each environment of the processes that `running` returns its own variables and /tmp."""
    _add_watch()
    outer, writes_nothing, providers = LambdaEnvironments.current, sys.dont_write_bytecode, dict(_providers())
    with tempfile.TemporaryDirectory(prefix="oneslot-explore-") as base, mock.patch.object(tempfile, "tempdir", TMP):
        _providers().clear()
        LambdaEnvironments.current = LambdaEnvironments(running, Path(base), own)
        # Neither Python nor pytest, which compiles some modules itself, keeps bytecode beside a library: Lambda cannot.
        sys.dont_write_bytecode = True
        try:
            yield LambdaEnvironments.current
            if LambdaEnvironments.current.refusal:
                raise NotExplorable(LambdaEnvironments.current.refusal)
        finally:
            for file in LambdaEnvironments.current.opened:
                with contextlib.suppress(OSError, ValueError):
                    file.close()
            LambdaEnvironments.current = outer
            sys.dont_write_bytecode = writes_nothing
            _providers().update(providers)
