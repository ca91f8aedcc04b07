"""The parser of DynamoDB's expressions. Each text is parsed once; the tree is kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn, TypeVar

from oneslot.dynamodb_in_memory.expressions.trees import (
    Both,
    Computed,
    ConditionNode,
    IfNotExists,
    Not,
    Operand,
    PathOperand,
    SizeOf,
    Test,
    ValueOperand,
)
from oneslot.dynamodb_in_memory.expressions.values import InvalidExpression

_TOKEN = re.compile(r"[ \t\r\n]*(#\w+|:\w+|[A-Za-z_]\w*|[0-9]+|<>|<=|>=|[=<>(),.\[\]+-])", re.ASCII)
_COMPARATORS = ("=", "<>", "<", "<=", ">", ">=")
_SECTIONS = ("SET", "REMOVE", "ADD", "DELETE")
_CONDITION_FUNCTIONS: dict[str, tuple[type, ...]] = {
    "attribute_exists": (PathOperand,),
    "attribute_not_exists": (PathOperand,),
    "attribute_type": (PathOperand, ValueOperand),
    "begins_with": (object, object),
    "contains": (object, object),
}
"""The kinds of operands of each function."""
MAXIMUM_CHOICES = 100
"""The most operands of IN (developer guide, expressions)."""

T = TypeVar("T")


@dataclass(frozen=True)
class Parsed:
    """What a text defines nothing of: the `#` and `:` placeholders that it uses."""

    placeholders: frozenset[str]


@dataclass(frozen=True)
class ParsedCondition(Parsed):
    """A condition, a filter or a key condition."""

    tree: ConditionNode


@dataclass(frozen=True)
class ParsedProjection(Parsed):
    """A projection."""

    paths: tuple[PathOperand, ...]


@dataclass(frozen=True)
class ParsedUpdate(Parsed):
    """An update: (path, value) of SET, ADD and DELETE, and the paths of REMOVE."""

    sets: list[tuple[PathOperand, Operand]] = field(default_factory=list)
    removes: list[PathOperand] = field(default_factory=list)
    adds: list[tuple[PathOperand, ValueOperand]] = field(default_factory=list)
    deletes: list[tuple[PathOperand, ValueOperand]] = field(default_factory=list)

    @property
    def paths(self) -> list[PathOperand]:
        """All paths that the update writes."""
        return [*(path for path, _ in [*self.sets, *self.adds, *self.deletes]), *self.removes]


@lru_cache(maxsize=4096)
def parse_condition(text: str) -> ParsedCondition:
    """Parse a ConditionExpression, FilterExpression or KeyConditionExpression."""
    parser = _Parser(text)
    tree = parser.condition()
    parser.end()
    return ParsedCondition(parser.placeholders, tree)


@lru_cache(maxsize=4096)
def parse_projection(text: str) -> ParsedProjection:
    """Parse a ProjectionExpression."""
    parser = _Parser(text)
    paths = parser.several(parser.path)
    parser.end()
    return ParsedProjection(parser.placeholders, tuple(paths))


@lru_cache(maxsize=4096)
def parse_update(text: str) -> ParsedUpdate:
    """Parse an UpdateExpression."""
    parser = _Parser(text)
    update = ParsedUpdate(parser.placeholders)
    seen: set[str] = set()
    while True:
        section = parser.take().upper()
        if section not in _SECTIONS:
            parser.fail()
        if section in seen:
            raise InvalidExpression(f'The "{section}" section can only be used once in an update expression;')
        seen.add(section)
        match section:
            case "SET":
                update.sets.extend(parser.several(parser.assignment))
            case "REMOVE":
                update.removes.extend(parser.several(parser.path))
            case "ADD":
                update.adds.extend(parser.several(parser.element_change))
            case _:
                update.deletes.extend(parser.several(parser.element_change))
        if parser.peek() is None:
            return update


class _Parser:
    """The tokens of one text, read from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise InvalidExpression(f'Syntax error; near: "{text[position : position + 12]}"')
            self._tokens.append(match[1])
            position = match.end()
        if not self._tokens:
            raise InvalidExpression("The expression can not be empty;")
        self._next = 0
        self._groups: dict[int, int] = {}
        self.placeholders = frozenset(token for token in self._tokens if token[0] in "#:")

    # Conditions

    def condition(self) -> ConditionNode:
        """Parse a condition, of conditions joined with OR."""
        left = self._conjunction()
        while self._keyword("OR"):
            left = Both(left, self._conjunction(), either=True)
        return left

    def _conjunction(self) -> ConditionNode:
        left = self._negation()
        while self._keyword("AND"):
            left = Both(left, self._negation(), either=False)
        return left

    def _negation(self) -> ConditionNode:
        if self._keyword("NOT"):
            return Not(self._negation())
        if self.peek() != "(":
            return self._simple()
        # A parenthesis encloses a condition or an operand; only what follows decides.
        start = self._next
        try:
            group = self._group(self.condition)
        except InvalidExpression as error:
            self._next = start
            try:
                return self._simple()
            except InvalidExpression:
                raise error from None
        following = (self.peek() or "").upper()
        if following in _COMPARATORS or following in ("BETWEEN", "IN"):
            self._next = start
            return self._simple()
        return group

    def _simple(self) -> ConditionNode:
        word = self.peek() or ""
        if self._peek(1) == "(" and _is_name(word) and word != "size":
            return self._function()
        left = self._condition_operand()
        if self._keyword("BETWEEN"):
            low = self._condition_operand()
            if not self._keyword("AND"):
                self.fail()
            return Test("BETWEEN", (left, low, self._condition_operand()))
        if self._keyword("IN"):
            self.expect("(")
            choices = self.several(self._condition_operand)
            self.expect(")")
            if len(choices) > MAXIMUM_CHOICES:
                raise InvalidExpression("The IN operator is provided with too many operands")
            return Test("IN", (left, *choices))
        comparator = self.take()
        if comparator not in _COMPARATORS:
            self._next -= 1
            self.fail()
        return Test(comparator, (left, self._condition_operand()))

    def _function(self) -> ConditionNode:
        name = self.take()
        kinds = _CONDITION_FUNCTIONS.get(name)
        if kinds is None:
            raise InvalidExpression(f"Invalid function name; function: {name}")
        operands = self._arguments(name, len(kinds), self._condition_operand)
        if not all(map(isinstance, operands, kinds)):
            raise InvalidExpression(f"Operator or function requires a document path; operator or function: {name}")
        return Test(name, tuple(operands))

    def _condition_operand(self) -> Operand:
        if self.peek() == "(":
            return self._group(self._condition_operand)
        if self.peek() == "size" and self._peek(1) == "(":
            (operand,) = self._arguments(self.take(), 1, self._condition_operand)
            return SizeOf(operand)
        return self._value_or_path()

    # Updates

    def assignment(self) -> tuple[PathOperand, Operand]:
        """Parse `path = value`."""
        path = self.path()
        self.expect("=")
        return path, self._update_value()

    def element_change(self) -> tuple[PathOperand, ValueOperand]:
        """Parse `path :value`."""
        path, token = self.path(), self.take()
        if token[0] != ":":
            self.fail()
        return path, ValueOperand(token)

    def _update_value(self) -> Operand:
        value = self._group(self._update_value) if self.peek() == "(" else self._update_operand()
        if self.peek() in ("+", "-"):
            return Computed(self.take(), value, self._update_operand())
        return value

    def _update_operand(self) -> Operand:
        if self.peek() == "(":
            return self._group(self._update_operand)
        word = self.peek() or ""
        if self._peek(1) != "(" or not _is_name(word):
            return self._value_or_path()
        self.take()
        if word not in ("if_not_exists", "list_append"):
            raise InvalidExpression(f"Invalid function name; function: {word}")
        first, second = self._arguments(word, 2, self._update_operand)
        if word == "list_append":
            return Computed(word, first, second)
        if not isinstance(first, PathOperand):
            raise InvalidExpression(
                "Operator or function requires a document path; operator or function: if_not_exists"
            )
        return IfNotExists(first, second)

    # Operands and paths

    def _value_or_path(self) -> Operand:
        token = self.peek() or ""
        return ValueOperand(self.take()) if token[:1] == ":" else self.path()

    def path(self) -> PathOperand:
        """Parse a document path."""
        parts: list[str | int] = [self._path_name()]
        while self.peek() in (".", "["):
            if self.take() == ".":
                parts.append(self._path_name())
                continue
            index = self.take()
            if not index.isdigit():
                self.fail()
            parts.append(int(index))
            self.expect("]")
        return PathOperand(tuple(parts), not any(isinstance(part, str) and part[0] == "#" for part in parts))

    def _path_name(self) -> str:
        token = self.take()
        if token[0] == "#":
            return token
        if not _is_name(token):
            self._next -= 1
            self.fail()
        if token.upper() in RESERVED:
            raise InvalidExpression(f"Attribute name is a reserved keyword; reserved keyword: {token}")
        return token

    def _arguments(self, name: str, wanted: int, parse: Callable[[], Operand]) -> list[Operand]:
        self.expect("(")
        operands = self.several(parse)
        self.expect(")")
        if len(operands) != wanted:
            raise InvalidExpression(
                f"Incorrect number of operands for operator or function; operator or function: {name}, "
                f"number of operands: {len(operands)}"
            )
        return operands

    def _group(self, parse: Callable[[], T]) -> T:
        """Parse what parentheses enclose."""
        self.expect("(")
        start = self._next
        inner = parse()
        if self._groups.get(start) == self._next:
            raise InvalidExpression("The expression has redundant parentheses;")
        self.expect(")")
        self._groups[start - 1] = self._next
        return inner

    def several(self, parse: Callable[[], T]) -> list[T]:
        """Parse one or more, separated by commas."""
        found = [parse()]
        while self.peek() == ",":
            self.take()
            found.append(parse())
        return found

    # Tokens

    def peek(self) -> str | None:
        """Return the next token; None at the end."""
        return self._peek(0)

    def _peek(self, ahead: int) -> str | None:
        at = self._next + ahead
        return self._tokens[at] if at < len(self._tokens) else None

    def take(self) -> str:
        """Return the next token, and move on."""
        token = self.peek()
        if token is None:
            self.fail()
        self._next += 1
        return token

    def expect(self, wanted: str) -> None:
        """Take this token."""
        if self.peek() != wanted:
            self.fail()
        self._next += 1

    def end(self) -> None:
        """Refuse a text that goes on."""
        if self.peek() is not None:
            self.fail()

    def fail(self) -> NoReturn:
        """Refuse the next token."""
        token = self.peek()
        raise InvalidExpression("Syntax error; token: " + ("<EOF>" if token is None else f'"{token}"'))

    def _keyword(self, keyword: str) -> bool:
        token = self.peek()
        if token is None or token.upper() != keyword:
            return False
        self._next += 1
        return True


def _is_name(token: str) -> bool:
    return token[:1].isalpha() or token[:1] == "_"


_WORDS = """
    ABORT ABSOLUTE ACTION ADD AFTER AGENT AGGREGATE ALL ALLOCATE ALTER ANALYZE AND ANY ARCHIVE ARE ARRAY AS ASC ASCII
    ASENSITIVE ASSERTION ASYMMETRIC AT ATOMIC ATTACH ATTRIBUTE AUTH AUTHORIZATION AUTHORIZE AUTO AVG BACK BACKUP BASE
    BATCH BEFORE BEGIN BETWEEN BIGINT BINARY BIT BLOB BLOCK BOOLEAN BOTH BREADTH BUCKET BULK BY BYTE CALL CALLED CALLING
    CAPACITY CASCADE CASCADED CASE CAST CATALOG CHAR CHARACTER CHECK CLASS CLOB CLOSE CLUSTER CLUSTERED CLUSTERING
    CLUSTERS COALESCE COLLATE COLLATION COLLECTION COLUMN COLUMNS COMBINE COMMENT COMMIT COMPACT COMPILE COMPRESS
    CONDITION CONFLICT CONNECT CONNECTION CONSISTENCY CONSISTENT CONSTRAINT CONSTRAINTS CONSTRUCTOR CONSUMED CONTINUE
    CONVERT COPY CORRESPONDING COUNT COUNTER CREATE CROSS CUBE CURRENT CURSOR CYCLE DATA DATABASE DATE DATETIME DAY
    DEALLOCATE DEC DECIMAL DECLARE DEFAULT DEFERRABLE DEFERRED DEFINE DEFINED DEFINITION DELETE DELIMITED DEPTH DEREF
    DESC DESCRIBE DESCRIPTOR DETACH DETERMINISTIC DIAGNOSTICS DIRECTORIES DISABLE DISCONNECT DISTINCT DISTRIBUTE DO
    DOMAIN DOUBLE DROP DUMP DURATION DYNAMIC EACH ELEMENT ELSE ELSEIF EMPTY ENABLE END EQUAL EQUALS ERROR ESCAPE ESCAPED
    EVAL EVALUATE EXCEEDED EXCEPT EXCEPTION EXCEPTIONS EXCLUSIVE EXEC EXECUTE EXISTS EXIT EXPLAIN EXPLODE EXPORT
    EXPRESSION EXTENDED EXTERNAL EXTRACT FAIL FALSE FAMILY FETCH FIELDS FILE FILTER FILTERING FINAL FINISH FIRST FIXED
    FLATTERN FLOAT FOR FORCE FOREIGN FORMAT FORWARD FOUND FREE FROM FULL FUNCTION FUNCTIONS GENERAL GENERATE GET GLOB
    GLOBAL GO GOTO GRANT GREATER GROUP GROUPING HANDLER HASH HAVE HAVING HEAP HIDDEN HOLD HOUR IDENTIFIED IDENTITY IF
    IGNORE IMMEDIATE IMPORT IN INCLUDING INCLUSIVE INCREMENT INCREMENTAL INDEX INDEXED INDEXES INDICATOR INFINITE
    INITIALLY INLINE INNER INNTER INOUT INPUT INSENSITIVE INSERT INSTEAD INT INTEGER INTERSECT INTERVAL INTO INVALIDATE
    IS ISOLATION ITEM ITEMS ITERATE JOIN KEY KEYS LAG LANGUAGE LARGE LAST LATERAL LEAD LEADING LEAVE LEFT LENGTH LESS
    LEVEL LIKE LIMIT LIMITED LINES LIST LOAD LOCAL LOCALTIME LOCALTIMESTAMP LOCATION LOCATOR LOCK LOCKS LOG LOGED LONG
    LOOP LOWER MAP MATCH MATERIALIZED MAX MAXLEN MEMBER MERGE METHOD METRICS MIN MINUS MINUTE MISSING MOD MODE MODIFIES
    MODIFY MODULE MONTH MULTI MULTISET NAME NAMES NATIONAL NATURAL NCHAR NCLOB NEW NEXT NO NONE NOT NULL NULLIF NUMBER
    NUMERIC OBJECT OF OFFLINE OFFSET OLD ON ONLINE ONLY OPAQUE OPEN OPERATOR OPTION OR ORDER ORDINALITY OTHER OTHERS OUT
    OUTER OUTPUT OVER OVERLAPS OVERRIDE OWNER PAD PARALLEL PARAMETER PARAMETERS PARTIAL PARTITION PARTITIONED PARTITIONS
    PATH PERCENT PERCENTILE PERMISSION PERMISSIONS PIPE PIPELINED PLAN POOL POSITION PRECISION PREPARE PRESERVE PRIMARY
    PRIOR PRIVATE PRIVILEGES PROCEDURE PROCESSED PROJECT PROJECTION PROPERTY PROVISIONING PUBLIC PUT QUERY QUIT QUORUM
    RAISE RANDOM RANGE RANK RAW READ READS REAL REBUILD RECORD RECURSIVE REDUCE REF REFERENCE REFERENCES REFERENCING
    REGEXP REGION REINDEX RELATIVE RELEASE REMAINDER RENAME REPEAT REPLACE REQUEST RESET RESIGNAL RESOURCE RESPONSE
    RESTORE RESTRICT RESULT RETURN RETURNING RETURNS REVERSE REVOKE RIGHT ROLE ROLES ROLLBACK ROLLUP ROUTINE ROW ROWS
    RULE RULES SAMPLE SATISFIES SAVE SAVEPOINT SCAN SCHEMA SCOPE SCROLL SEARCH SECOND SECTION SEGMENT SEGMENTS SELECT
    SELF SEMI SENSITIVE SEPARATE SEQUENCE SERIALIZABLE SESSION SET SETS SHARD SHARE SHARED SHORT SHOW SIGNAL SIMILAR
    SIZE SKEWED SMALLINT SNAPSHOT SOME SOURCE SPACE SPACES SPARSE SPECIFIC SPECIFICTYPE SPLIT SQL SQLCODE SQLERROR
    SQLEXCEPTION SQLSTATE SQLWARNING START STATE STATIC STATUS STORAGE STORE STORED STREAM STRING STRUCT STYLE SUB
    SUBMULTISET SUBPARTITION SUBSTRING SUBTYPE SUM SUPER SYMMETRIC SYNONYM SYSTEM TABLE TABLESAMPLE TEMP TEMPORARY
    TERMINATED TEXT THAN THEN THROUGHPUT TIME TIMESTAMP TIMEZONE TINYINT TO TOKEN TOTAL TOUCH TRAILING TRANSACTION
    TRANSFORM TRANSLATE TRANSLATION TREAT TRIGGER TRIM TRUE TRUNCATE TTL TUPLE TYPE UNDER UNDO UNION UNIQUE UNIT UNKNOWN
    UNLOGGED UNNEST UNPROCESSED UNSIGNED UNTIL UPDATE UPPER URL USAGE USE USER USERS USING UUID VACUUM VALUE VALUED
    VALUES VARCHAR VARIABLE VARIANCE VARINT VARYING VIEW VIEWS VIRTUAL VOID WAIT WHEN WHENEVER WHERE WHILE WINDOW WITH
    WITHIN WITHOUT WORK WRAPPED WRITE YEAR ZONE
"""

RESERVED = frozenset(_WORDS.split())
"""The words that an expression must write as `#` placeholders (developer guide, reserved words)."""
