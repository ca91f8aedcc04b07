"""A mark that a handler keeps outside of its tables: found where Lambda keeps it, and refused where Lambda would not."""

import gc
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from oneslot.explorer.handlers import exploration
from oneslot.explorer.handlers.surroundings import environment
from oneslot.explorer.handlers.verdict import Result
from oneslot.explorer.refusal import NotExplorable

HANDLER = """
import json
import gc
import os

import boto3

table = boto3.resource("dynamodb").Table("orders")
{top}

def marked(order):
    {look}

def mark(order):
    {keep}

def handler(event, context):
    for record in event["Records"]:
        order = json.loads(record["body"])["order"]
        if marked(order):
            continue
        mark(order)
        table.update_item(Key={{"id": "n"}}, UpdateExpression="ADD n :one", ExpressionAttributeValues={{":one": 1}})
"""

WHERE_LAMBDA_KEEPS_IT = {
    "a variable": ("", 'return os.environ.get("LAST") == order', 'os.environ["LAST"] = order'),
    "a file": ("", 'return os.path.exists(f"/tmp/{order}")', 'open(f"/tmp/{order}", "w").close()'),
    "a descriptor": (
        "",
        'return order in os.listdir("/tmp")',
        'os.close(os.open(f"/tmp/{order}", os.O_CREAT | os.O_WRONLY))',
    ),
    "a folder": ("", 'return os.path.isdir(f"/tmp/{order}")', 'os.makedirs(f"/tmp/{order}")'),
    "the folder for temporary files": (
        "import tempfile",
        "return order in os.listdir(tempfile.gettempdir())",
        "os.rename(tempfile.mkstemp()[1], os.path.join(tempfile.gettempdir(), order))",
    ),
    "a database": (
        "import sqlite3",
        'return list(sqlite3.connect("/tmp/d").execute("SELECT name FROM sqlite_master WHERE name = ?", (order,)))',
        """with sqlite3.connect("/tmp/d") as d: d.execute(f'CREATE TABLE "{order}" (id)')""",
    ),
    "a log file": (
        "import logging",
        'return os.path.exists("/tmp/log") and order in open("/tmp/log").read()',
        'f = logging.FileHandler("/tmp/log"); f.emit(logging.makeLogRecord({"msg": order})); f.close()',
    ),
    "memory of a file": (
        "import mmap",
        'return os.path.exists("/tmp/m") and open("/tmp/m").read() == order',
        'f = open("/tmp/m", "w+b"); f.write(b"...."[:len(order)]); f.flush(); '
        "mmap.mmap(f.fileno(), 0)[:] = order.encode()",
    ),
    "a context variable": (
        "from contextvars import ContextVar\nlast = ContextVar('last', default='')",
        "return last.get() == order",
        "last.set(order)",
    ),
    "a class": ("class Seen: last = ''", "return Seen.last == order", "Seen.last = order"),
    "a closure": (
        "def made():\n    seen = []\n    return seen.append, lambda: seen\nadd, seen = made()",
        "return order in seen()",
        "add(order)",
    ),
    "a function": ("def first(): ...", "return hasattr(mark, order)", "setattr(mark, order, 1)"),
    "a slot": (
        "class Seen:\n    __slots__ = ('last',)\nseen = Seen()\nseen.last = ''",
        "return seen.last == order",
        "seen.last = order",
    ),
    "a queue": ("from collections import deque\nseen = deque()", "return order in seen", "seen.append(order)"),
    "a count": ("import itertools\ncount = itertools.count()", "return next(count) % 2", "pass"),
    "the seed of random numbers": (
        "import random",
        "random.seed(1) if order == 'first' else None; return random.getstate() == random.Random(2).getstate()",
        "random.seed(2)",
    ),
    "where modules are found": ("import sys", "return order in sys.path", "sys.path.append(order)"),
    "the working directory": ("", "return os.getcwd() == '/tmp'", "os.chdir('/tmp')"),
    "this thread": (
        "import threading\nlocal = threading.local()",
        "return getattr(local, 'last', '') == order",
        "local.last = order",
    ),
}
"""What a warm environment keeps, and a cold one does not: a copy in a cold one adds again, so the handler breaks."""

_ADDED = "return order in seen()", "seen().add(order)"

WHERE_IT_HIDES = {
    "a private slot": (
        "class Seen:\n    __slots__ = ('__last',)\n    def __init__(self): self.__last = ''\n"
        "    def is_last(self, order): return self.__last == order\n    def keep(self, order): self.__last = order\n"
        "seen = Seen()",
        "return seen.is_last(order)",
        "seen.keep(order)",
    ),
    "deep in dicts": (
        "held = {1: {2: {3: {4: {5: {6: {7: set()}}}}}}}\ndef seen(): return held[1][2][3][4][5][6][7]",
        *_ADDED,
    ),
    "the value of a cache": ("from functools import cache\n@cache\ndef seen(): return set()\nseen()", *_ADDED),
    "a method of a set": (
        "held = set()\nhas, add = held.__contains__, held.add\ndel held",
        "return has(order)",
        "add(order)",
    ),
    "a generator": (
        "def generated():\n    held, answer = set(), None\n    while True:\n        order = yield answer\n"
        "        answer = order in held\n        held.add(order)\nseen = generated()\nnext(seen)",
        "return seen.send(order)",
        "pass",
    ),
    "a text buffer": ("import io\nf = io.StringIO()", "return order in f.getvalue()", "f.write(order)"),
    "a spooled file": (
        "import tempfile\nf = tempfile.SpooledTemporaryFile(mode='w+')",
        "f.seek(0); return order in f.read()",
        "f.write(order)",
    ),
    "the position in a file": ("f = open(__file__)", "return f.tell() > 0", "f.read(5)"),
    "the position of an iterator": ("numbers = iter([1, 2, 3, 4, 5, 6])", "return next(numbers) > 1", "pass"),
    "a namespace": (
        "from types import SimpleNamespace\nn = SimpleNamespace(last='')",
        "return n.last == order",
        "n.last = order",
    ),
    "a simple queue": ("import queue\nq = queue.SimpleQueue()", "return not q.empty()", "q.put(order)"),
    "anonymous memory": (
        "import mmap\nm = mmap.mmap(-1, 16)",
        "return m[:len(order)] == order.encode()",
        "m[:len(order)] = order.encode()",
    ),
    "memory of C": (
        "import ctypes\nm = ctypes.create_string_buffer(16)",
        "return m.value == order.encode()",
        "m.value = order.encode()",
    ),
    "an array": (
        "import array\na = array.array('b')",
        "return order.encode() in a.tobytes()",
        "a.frombytes(order.encode())",
    ),
    "a view of bytes": ("m = memoryview(bytearray(16))", "return m[0] == 1", "m[0] = 1"),
    "an attribute of a table": ("", "return getattr(table, 'last', '') == order", "table.last = order"),
    "a filter of an own logger": (
        "import logging\nlogger = logging.Logger('own')",
        "return bool(logger.filters)",
        "logger.addFilter(print)",
    ),
    "a digest": (
        "import hashlib\nh = hashlib.sha256()",
        "return h.digest() != hashlib.sha256().digest()",
        "h.update(order.encode())",
    ),
    "a compressor": (
        "import zlib\nz = zlib.compressobj()\nn = len(z.copy().flush())",
        "return len(z.copy().flush()) > n",
        "z.compress(order.encode() * 50)",
    ),
    "a dict of weak references": (
        "import weakref\nclass Key: pass\nkey = Key()\nheld = weakref.WeakKeyDictionary()\nheld[key] = set()\n"
        "def seen(): return held[key]",
        *_ADDED,
    ),
    "the code of a function": (
        "def no(): return False\ndef yes(): return True",
        "return no()",
        "no.__code__ = yes.__code__",
    ),
    "an attribute of a text": (
        "class Text(str): pass\nt = Text()",
        "return getattr(t, 'last', '') == order",
        "t.last = order",
    ),
    "a lock": ("import threading\nlock = threading.RLock()", "return 'unlocked' not in repr(lock)", "lock.acquire()"),
    "an element": (
        "import xml.etree.ElementTree as ET\ne = ET.Element('a')",
        "return e.get('last') == order",
        "e.set('last', order)",
    ),
    "random numbers of its own": (
        "import random\nr = random.Random(1)",
        "return r.random() != random.Random(1).random()",
        "pass",
    ),
    "the order of a dict": (
        "from collections import OrderedDict\nd = OrderedDict(a=1, b=2)",
        "return next(iter(d)) == 'b'",
        "d.move_to_end('a')",
    ),
    "a database in memory": (
        "import sqlite3\nd = sqlite3.connect(':memory:')\nd.execute('CREATE TABLE s (i)')",
        "return list(d.execute('SELECT i FROM s'))",
        "d.execute('INSERT INTO s VALUES (1)')",
    ),
}
"""Where a mark is hard to see."""


def written(tmp_path: Path, channel: tuple[str, str, str]) -> Path:
    top, look, keep = channel
    (tmp_path / "app.py").write_text(HANDLER.format(top=top, look=look, keep=keep))
    return tmp_path


def explored(path: Path, **options: Any) -> Result:
    given: dict[str, Any] = {"messages": [{"order": "o-1"}], "tables": {"orders": "id"}, "path": path, **options}
    return exploration.explore("app.handler", **given)


@pytest.mark.parametrize("channel", WHERE_LAMBDA_KEEPS_IT)
def test_mark_breaks_when_another_environment_lacks_it(channel: str, tmp_path: Path) -> None:
    result = explored(written(tmp_path, WHERE_LAMBDA_KEEPS_IT[channel]))

    assert (result.holds, result.level) == (False, "twice")
    assert "orders n: n is 2" in result.verdict


KINDS = (
    *("a variable", "a file", "a folder", "a database", "memory of a file", "a context variable", "a class", "a count"),
    *("the seed of random numbers", "where modules are found", "the working directory", "this thread"),
)
"""One way to write into each kind of place; the test above has the other ways."""


@pytest.mark.parametrize(
    "channel",
    [
        *KINDS,
        *(
            pytest.param(place, marks=pytest.mark.slow) if number % 8 else place
            for number, place in enumerate(WHERE_IT_HIDES)
        ),
    ],
)
def test_mark_loses_a_message_when_its_environment_is_used_again(channel: str, tmp_path: Path) -> None:
    def law(world: Any) -> bool:
        """the order counts"""
        return bool(world["orders"])

    result = explored(written(tmp_path, {**WHERE_LAMBDA_KEEPS_IT, **WHERE_IT_HIDES}[channel]), law=law)

    assert (result.holds, result.level) == (False, "one fault, then again")
    assert "the environment of the one before" in result.counterexample


OUTSIDE = {
    "a library": ("", "return getattr(boto3, 'last', '') == order", "boto3.last = order"),
    "a class of a library": (
        "import logging",
        "return getattr(logging.Logger, 'last_of_all', '') == order",
        "logging.Logger.last_of_all = order",
    ),
    "a logger": (
        "import logging",
        "return getattr(logging.getLogger('x'), 'last', '') == order",
        "logging.getLogger('x').last = order",
    ),
    "a module of its own making": (
        "import sys, types",
        "return order in sys.modules",
        "sys.modules[order] = types.ModuleType(order)",
    ),
    "a cache of a library": ("import linecache", "return order in linecache.cache", "linecache.cache[order] = (1,)"),
}


@pytest.mark.parametrize("channel", OUTSIDE)
def test_mark_is_refused_when_it_is_outside_of_the_environment(channel: str, tmp_path: Path) -> None:
    with pytest.raises(NotExplorable, match=r"keeps something outside its modules: it calls update_item only in the"):
        explored(written(tmp_path, OUTSIDE[channel]))


@pytest.mark.parametrize(
    ("look", "keep"),
    [
        ("return False", "signal.signal(signal.SIGUSR1, lambda *_: order)"),
        ("return callable(signal.getsignal(signal.SIGUSR1))", "pass"),
        ("return False", "signal.alarm(1)"),
        ("return False", "signal.setitimer(signal.ITIMER_REAL, 1)"),
    ],
)
def test_handler_is_refused_by_the_call_when_it_uses_signals(look: str, keep: str, tmp_path: Path) -> None:
    with pytest.raises(NotExplorable, match=r"calls signal\.\w+, .* when the module is imported"):
        explored(written(tmp_path, ("import signal", look, keep)))


def test_mark_in_a_library_is_named_and_removed_when_it_is_refused(tmp_path: Path) -> None:
    channel = ("import builtins", "return getattr(builtins, 'MARK', '') == order", "builtins.MARK = order")

    for _ in range(2):  # the second exploration finds nothing that the first one left
        with pytest.raises(NotExplorable, match=r"keeps something outside its modules: .*\(builtins\.MARK\)"):
            explored(written(tmp_path, channel))


def test_mark_in_a_library_ends_with_its_exploration_when_the_fixture_explores(
    explore: Callable[..., Result], tmp_path: Path
) -> None:
    top, look, keep = (text.replace("'x'", "'apart'") for text in OUTSIDE["a logger"])  # unmarked by other tests
    folder = written(tmp_path, (top, look, keep))

    for _ in range(2):  # in one process the second exploration would find the mark of the first, and hold
        with pytest.raises(NotExplorable, match="keeps something outside its modules"):
            explore("app.handler", messages=[{"order": "o-1"}], tables={"orders": "id"}, path=folder)


WRITES = {
    "open": 'open(place, "w")',
    "open for more": 'open(place, "a")',
    "os.open": "os.open(place, os.O_CREAT | os.O_WRONLY)",
    "pathlib": "Path(place).write_text('')",
    "mkdir": "os.mkdir(place)",
    "rmtree": "shutil.rmtree(folder)",
    "remove": "os.remove(kept)",
    "unlink": "Path(kept).unlink()",
    "rename": 'os.rename(kept, "/tmp/kept")',
    "rename to": 'Path("/tmp/new").touch(); os.replace("/tmp/new", kept)',
    "a link that is written": 'os.symlink(kept, "/tmp/l"); open("/tmp/l", "w")',
    "a hard link": 'os.link(kept, "/tmp/l")',
    "truncate": "os.truncate(kept, 0)",
    "chmod": "os.chmod(kept, 0)",
    "utime": "os.utime(kept)",
    "the folder above": "os.chdir('/')",
    "its working directory": "open('new', 'w')",
    "relative to a folder": 'os.unlink("kept", dir_fd=os.open(folder, os.O_RDONLY))',
    "temporary": "tempfile.mkstemp(dir=folder)",
    "database": "sqlite3.connect(place)",
    "database by class": "sqlite3.Connection(place)",
    "shelf": "shelve.open(place)",
    "log": "logging.FileHandler(place)",
    "copy": "shutil.copy(kept, place)",
    "archive": 'tarfile.open(place, "w")',
    "subprocess": "subprocess.run(['rm', kept])",
    "system": "os.system(f'rm {kept}')",
    "system of C": "ctypes.CDLL(None).system(f'rm {kept}'.encode())",
    "fork and exec": "_posixsubprocess.fork_exec([b'/bin/rm', kept.encode()], [b'/bin/rm'], *[None] * 19)",
    "a destructor": "type('D', (), {'__del__': lambda self: os.system(f'rm {kept}')})()",
    "a cycle's destructor": "cycle(); gc.collect()",
    "fork": "os.fork()",
    "spawn": "os.posix_spawn('/bin/rm', ['rm', kept], {})",
    "socket": "_socket.socket().connect(('127.0.0.1', 9))",
    "server": "_socket.socket().bind(('127.0.0.1', 0))",
    "shared memory": "shared_memory.SharedMemory(create=True, size=9)",
    "memory as a file": 'open("/dev/shm/oneslot-mark", "w")',
    "thread": "_thread.start_new_thread(print, ())",
    "the variables of C": "os.putenv('LAST', '1')",
}


IN_A_DESTRUCTOR = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
"""Python reports what a destructor raises, and pytest would make that an error."""


@IN_A_DESTRUCTOR
@pytest.mark.parametrize("write", WRITES)
def test_write_is_refused_when_it_is_of_the_user_s_machine(write: str, tmp_path: Path) -> None:
    (folder := tmp_path / "user").mkdir()
    (folder / "kept").write_text("kept")
    top = (
        "import _posixsubprocess, _socket, _thread, ctypes, gc\n"
        "import logging, shelve, shutil, socket, sqlite3, subprocess, tarfile, tempfile\n"
        "from multiprocessing import shared_memory\nfrom pathlib import Path\n"
        f"folder, kept, place = {str(folder)!r}, {str(folder / 'kept')!r}, {str(folder / 'new')!r}\n"
        "class Last:\n    def __del__(self): os.system(f'rm {kept}')\n"
        "def cycle(): last = Last(); last.own = last"
    )
    # The handler catches what it can: a refusal passes.
    keep = f"try:\n        {WRITES[write]}\n    except Exception:\n        pass"
    channel = (top, "return False", keep)

    with pytest.raises(NotExplorable, match=r"The handler (writes|uses|calls) "):
        explored(written(tmp_path, channel))

    assert [(one.name, one.read_text()) for one in folder.iterdir()] == [("kept", "kept")]
    assert not Path("/dev/shm/oneslot-mark").exists()  # noqa: S108


@IN_A_DESTRUCTOR
@pytest.mark.parametrize(("does", "what"), [("os.system('rm {}')", "uses a subprocess"), ("open('{}', 'w')", "writes")])
def test_cycle_is_refused_when_it_is_destroyed_between_invocations(does: str, what: str, tmp_path: Path) -> None:
    (folder := tmp_path / "lib/python").mkdir(parents=True)  # the handler's own, although packages are in such a folder
    (kept := tmp_path / "kept").write_text("kept")
    top = f"class Last:\n    def __del__(self): {does.format(kept)}"
    channel = (top, "return False", "last = Last(); last.own = last")

    with pytest.raises(NotExplorable, match=f"The handler {what}"):
        explored(written(folder, channel), law=lambda world: gc.collect() >= 0)
    assert kept.read_text() == "kept"
    gc.collect()  # here rather than in the next test's exploration, which would be refused


def test_handler_sees_lambda_s_variables_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("AWS_PROFILE", "developer")
    seen = "sorted({'GITHUB_TOKEN', 'AWS_PROFILE'} & os.environ.keys()), os.path.exists(os.path.expanduser('~'))"
    channel = ("", "return False", f"assert ({seen}) == ([], False)")

    result = explored(written(tmp_path, channel), ignore=["orders.n"])

    assert (result.kind, os.environ["GITHUB_TOKEN"]) == ("holds", "secret")


def test_reading_is_refused_when_it_is_of_a_developer_s_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "_HOME", Path("/home/developer"))
    channel = ("", "return False", 'open("/home/developer/.aws/credentials")')

    with pytest.raises(NotExplorable, match="which Lambda does not have"):
        explored(written(tmp_path, channel))


def test_files_of_the_machine_are_as_before_when_an_exploration_has_ended(tmp_path: Path) -> None:
    before = dict(os.environ), list(sys.path), tempfile.gettempdir()
    channel = (
        "import sys",
        "return False",
        'open("/tmp/left", "w").close(); os.environ["A"] = "1"; sys.path.append("b")',
    )

    explored(written(tmp_path, channel), law=lambda world: True)

    assert before == (dict(os.environ), list(sys.path), tempfile.gettempdir())
    assert not Path("/tmp/left").exists()  # noqa: S108


def test_library_is_imported_when_its_bytecode_is_kept_nowhere_yet(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pytest compiles the modules of a distribution that has a plugin, such as Oneslot, and keeps their bytecode."""
    libraries = tmp_path_factory.mktemp("libraries")
    (libraries / "fresh_library.py").write_text("WORD = 'fresh'\n")
    monkeypatch.syspath_prepend(libraries)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    pytest.register_assert_rewrite("fresh_library")

    handler = written(tmp_path, ("import sys", "return False", "import fresh_library"))
    result = explored(handler, ignore=["orders.n"])

    assert result.holds
    assert sys.dont_write_bytecode is False


def test_cache_in_tmp_expires_by_the_explorers_clock(tmp_path: Path) -> None:
    top = "import time\nfrom pathlib import Path\nCACHE = Path('/tmp/cache')"
    look = "return CACHE.exists() and not 0 <= time.time() - CACHE.stat().st_mtime <= 3_600"

    result = explored(written(tmp_path, (top, look, "CACHE.write_text(order)")), ignore=["orders.n"])

    assert result.holds


RIGHT = {
    "its own files, in a temporary folder": (
        "import zoneinfo, certifi\nfrom importlib.resources import files\n"
        "from pathlib import Path\nHERE = Path(__file__).parent / 'package'\n"
        "assert (HERE / 'word.txt').read_text() == 'word'\nassert 'word.txt' in os.listdir(HERE)\n"
        "assert zoneinfo.ZoneInfo('Europe/London')\nassert open('/proc/self/status').read()\n"
        "assert Path(certifi.where()).read_text()\nassert files('botocore').joinpath('__init__.py').read_text()",
        "open(os.devnull, 'w').close()",
    ),
    "a signal that its import sets": ("import signal; signal.signal(signal.SIGTERM, lambda *_: None)", "pass"),
    "named files": ("import tempfile", "with tempfile.NamedTemporaryFile('w+', dir='/tmp') as f: f.write(order)"),
    "a file relative to a folder": (
        "",
        "os.makedirs('/tmp/d'); d = os.open('/tmp/d', os.O_RDONLY); "
        "os.close(os.open('x', os.O_CREAT | os.O_WRONLY, dir_fd=d)); os.unlink('x', dir_fd=d); os.rmdir('/tmp/d')",
    ),
    "the URI of a database": (
        "import sqlite3",
        "sqlite3.connect('file:///tmp/d?mode=rwc', uri=True).close(); os.remove('/tmp/d')",
    ),
    "a folder of its own for temporary files": (
        "import tempfile",
        "tempfile.mkdtemp(); tempfile.TemporaryFile().close()",
    ),
    "files of its package": (
        "import pkgutil, importlib.resources",
        "assert pkgutil.get_data('package', 'word.txt') == b'word'; "
        "assert importlib.resources.files('package').joinpath('word.txt').read_text() == 'word'",
    ),
    "Powertools' parameters": (
        "from aws_lambda_powertools.utilities import parameters",
        "assert parameters.get_parameter('/a') == 'b'",
    ),
    "an object that computes what it lacks": (
        "class Lazy:\n    __slots__ = ('ref',)\n"
        "    def __getattr__(self, name): raise (TypeError if name == 'ref' else AttributeError)\nlazy = Lazy()",
        "pass",
    ),
    "settings in a cache": (
        "from functools import cache\n@cache\ndef stage(): return boto3.client('ssm').get_parameter(Name='/a')",
        "assert stage()['Parameter']['Value'] == 'b'",
    ),
    "what a module often has": (
        "import re, logging, threading, queue, random\nfrom concurrent.futures import ThreadPoolExecutor\n"
        "from aws_lambda_powertools import Logger, Metrics\nfrom botocore.config import Config\n"
        "pattern, lock, pool = re.compile('f'), threading.Lock(), ThreadPoolExecutor(2)\n"
        "logger, metrics = Logger('s'), Metrics('n', 's')\n"
        "client = boto3.client('s3', config=Config(retries={'max_attempts': 2}))\nlog = logging.getLogger(__name__)",
        "assert pattern.match('first') and pool.submit(len, order).result()\n    with lock: logger.info('a'); log.info('b')",
    ),
    "a working directory": (
        "os.chdir('/tmp')",
        "open('x', 'w').close(); assert os.getcwd() == '/tmp' and os.listdir('.') == ['x']; os.remove('/tmp/x')",
    ),
    "files of its working directory": (
        "TEXT = open('package/word.txt').read()",
        "os.chdir(os.environ['LAMBDA_TASK_ROOT']); assert open('package/word.txt').read() == TEXT",
    ),
    "its log as a file": ("", "open('/dev/stdout', 'w').write('a'); open('/dev/stderr', 'w').write('a')"),
    "Powertools' batch": (
        "from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType\n"
        "processor = BatchProcessor(event_type=EventType.SQS)",
        "with processor([{'messageId': order, 'body': order}], lambda record: record.body): processor.process()",
    ),
    "a hash of a text, compared with one": (
        "class Name:\n    def __hash__(self): return hash('a')\n    def __eq__(self, other): return other == 'a'",
        "assert Name() in {'a'}",
    ),
}
"""What a handler does within one invocation, and leaves no mark with."""


@pytest.mark.parametrize("use", RIGHT)
def test_handler_holds_when_it_uses_what_lambda_has(use: str, tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "word.txt").write_text("word")
    top, keep = RIGHT[use]

    result = explored(written(tmp_path, (top, "return False", keep)), ignore=["orders.n"], parameters={"/a": "b"})

    assert result.holds, result


LEFT_OPEN = (
    "f = open(__file__)",
    "import logging; f = logging.FileHandler('/tmp/log')",
    "import tempfile; f = tempfile.NamedTemporaryFile()",
    "import tempfile; f = tempfile.TemporaryDirectory()",
)


@pytest.mark.parametrize("top", LEFT_OPEN)
def test_nothing_that_a_handler_leaves_open_warns_in_a_later_test(top: str, tmp_path: Path) -> None:
    result = explored(written(tmp_path, (f"{top}\nf.itself = f", "return False", "pass")), ignore=["orders.n"])

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        gc.collect()
    assert (result.holds, warned) == (True, [])


@pytest.mark.parametrize("value", ["order", "(1, order)", "order.encode()", "frozenset({order})", "order.__hash__()"])
def test_key_breaks_when_it_is_the_hash_of_a_text(value: str, tmp_path: Path) -> None:
    result = explored(
        written(tmp_path, ("", f"table.put_item(Item={{'id': str(hash({value}))}}); return True", "pass"))
    )

    assert "orders has 2 rows" in result.verdict


def test_verdict_names_what_cannot_be_seen_when_the_budget_ends(tmp_path: Path) -> None:
    channel = ("import zlib\npacker = zlib.compressobj()", "return False", "packer.compress(order.encode())")

    result = explored(written(tmp_path, channel), ignore=["orders.n"], budget=0.001)

    assert result.kind == "not finished"
    assert "app.packer holds a value of zlib.Compress, which the explorer cannot look into" in result.verdict


def test_temporary_folder_is_the_users_again_when_a_handler_chose_another(tmp_path: Path) -> None:
    before = tempfile.tempdir

    with pytest.raises(NotExplorable):
        explored(
            written(tmp_path, ("import tempfile", "return tempfile.tempdir == '/tmp/a'", "tempfile.tempdir = '/tmp/a'"))
        )

    assert tempfile.tempdir == before
