"""Which variables of a function may still be read after an instruction. The others are forgotten, whatever they hold."""

from __future__ import annotations

import dis
import functools
from collections import defaultdict
from types import CodeType
from typing import Any

_LOOK_AROUND = {"locals", "vars", "dir", "eval", "exec", "globals"}
"""Functions that may read any variable."""

_ENDS = (
    *("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE"),
    *("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT"),
)
"""Instructions that the next one does not follow."""


@functools.lru_cache(maxsize=10_000)
def read_later(code: CodeType, offset: int) -> frozenset[str] | None:
    """Return the local variables that may be read after the instruction at `offset`; None for all of them."""
    if _LOOK_AROUND & set(code.co_names):
        return None
    following = _Function(code).after.get(offset)
    return None if following is None else frozenset(following) | {*code.co_cellvars, *code.co_freevars}


class _Function:
    """The variables that are live before and after each instruction of a function, by its offset."""

    def __init__(self, code: CodeType) -> None:
        self._instructions = list(dis.get_instructions(code))
        entries: Any = dis.Bytecode(code)
        self._handlers = [(one.start, one.end, one.target) for one in entries.exception_entries]
        self.after: dict[int, set[str]] = defaultdict(set)
        self._before: dict[int, set[str]] = defaultdict(set)
        while self._improved():
            pass
        self.after = dict(self.after)

    def _improved(self) -> bool:
        changed = False
        for position in reversed(range(len(self._instructions))):
            one = self._instructions[position]
            after = set[str]().union(*(self._before[target] for target in self._targets(position)))
            caught = set[str]().union(
                *(self._before[to] for start, end, to in self._handlers if start <= one.offset < end)
            )
            read, written = _effect(one)
            before = read | (after - written) | caught
            changed |= before != self._before[one.offset]
            self._before[one.offset], self.after[one.offset] = before, after | caught
        return changed

    def _targets(self, position: int) -> list[int]:
        one = self._instructions[position]
        targets = [one.argval] if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs else []
        if one.opname not in _ENDS and position + 1 < len(self._instructions):
            targets.append(self._instructions[position + 1].offset)
        return targets


def _effect(instruction: dis.Instruction) -> tuple[set[str], set[str]]:
    """Return the variables that an instruction reads, and those that it overwrites."""
    if instruction.opcode not in dis.haslocal:
        return set(), set()
    names = {instruction.argval} if isinstance(instruction.argval, str) else set(instruction.argval)
    return (set(), names) if instruction.opname == "STORE_FAST" else (names, set())
