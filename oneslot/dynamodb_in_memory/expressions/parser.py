"""The parser of DynamoDB's expressions. Each text is parsed once; the tree is kept."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, NoReturn, TypeVar

from oneslot.dynamodb_in_memory.expressions.trees import Expression, Operation, PathOperand, ValueOperand, is_condition
from oneslot.dynamodb_in_memory.expressions.values import InvalidExpression

_TOKEN = re.compile(r"[ \t\r\n]*(#\w+|:\w+|[A-Za-z_]\w*|[0-9]+|<>|<=|>=|[=<>(),.\[\]+-])", re.ASCII)
_OR, _AND, _NOT, _COMPARES, _SUM = range(5)
"""What binds least, first. A comparison or a sum has no other one beside it: only parentheses join two."""
_CONNECTIVES = {"OR": _OR, "AND": _AND}
_IN_CONDITIONS = {**_CONNECTIVES, **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "BETWEEN", "IN"), _COMPARES)}
_IN_UPDATES = {"+": _SUM, "-": _SUM}
_FUNCTIONS: Mapping[bool, Mapping[str, tuple[Any, ...]]] = {
    False: {
        "attribute_exists": (PathOperand,),
        "attribute_not_exists": (PathOperand,),
        "attribute_type": (PathOperand, ValueOperand),
        "begins_with": (object, object),
        "contains": (object, object),
        "size": (object,),
    },
    True: {"if_not_exists": (PathOperand, object), "list_append": (object, object)},
}
"""The functions of conditions and of updates, with the kinds of their operands."""
_SECTIONS = ("SET", "REMOVE", "ADD", "DELETE")
MAXIMUM_CHOICES = 100
"""The most operands of IN (developer guide, expressions)."""

T = TypeVar("T")
Change = tuple[str, PathOperand, Expression | None]
"""A section of an update, the path that it writes, and the value; REMOVE has none."""


@dataclass(frozen=True)
class Parsed(Generic[T]):
    """What a text says, and the `#` and `:` placeholders that it uses."""

    placeholders: frozenset[str]
    said: T


@lru_cache(maxsize=4096)
def parse_condition(text: str) -> Parsed[Expression]:
    """Parse a ConditionExpression, FilterExpression or KeyConditionExpression."""
    parser = _Parser(text)
    return parser.whole(parser.condition())


@lru_cache(maxsize=4096)
def parse_projection(text: str) -> Parsed[list[PathOperand]]:
    """Parse a ProjectionExpression."""
    parser = _Parser(text)
    return parser.whole(parser.several(parser.path))


@lru_cache(maxsize=4096)
def parse_update(text: str) -> Parsed[list[Change]]:
    """Parse an UpdateExpression."""
    parser = _Parser(text, of_update=True)
    changes: list[Change] = []
    seen: set[str] = set()
    while parser.peek() is not None or not seen:
        section = parser.take().upper()
        if section not in _SECTIONS:
            parser.fail()
        if section in seen:
            raise InvalidExpression(f'The "{section}" section can only be used once in an update expression;')
        seen.add(section)
        changes += parser.several(lambda section=section: parser.change(section))  # type: ignore[misc]
    return parser.whole(changes)


class _Parser:
    """The tokens of one text, read from left to right."""

    def __init__(self, text: str, *, of_update: bool = False) -> None:
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
        self._levels = _IN_UPDATES if of_update else _IN_CONDITIONS
        self._functions = _FUNCTIONS[of_update]

    def whole(self, said: T) -> Parsed[T]:
        """Return what was parsed. Refuse a text that goes on."""
        if self.peek() is not None:
            self.fail()
        return Parsed(frozenset(token for token in self._tokens if token[0] in "#:"), said)

    def condition(self) -> Expression:
        """Parse a condition."""
        condition = self._expression()
        if not is_condition(condition):
            self.fail()
        return condition

    def change(self, section: str) -> Change:
        """Parse what a section of an update changes: `path = value` of SET, `path` of REMOVE, `path :value` of the others."""
        path = self.path()
        match section:
            case "SET":
                self.expect("=")
                return section, path, self._expression()
            case "REMOVE":
                return section, path, None
        token = self.take()
        if token[0] != ":":
            self.fail()
        return section, path, ValueOperand(token)

    def _expression(self, least: int = _OR) -> Expression:
        """Parse operators that bind at least so much, and their operands."""
        left = self._operation("NOT", self._expression(_NOT)) if self._keyword("NOT") else self._operand()
        most = _SUM
        while least <= (level := self._levels.get(name := (self.peek() or "").upper(), -1)) <= most:
            self._next += 1
            if name == "IN":
                left = self._operation(name, left, *self._arguments(self._operand))
            elif name == "BETWEEN":
                low = self._operand()
                self.expect("AND")
                left = self._operation(name, left, low, self._operand())
            else:
                left = self._operation(name, left, self._expression(level + 1))
            most = level if name in _CONNECTIVES else level - 1
        return left

    def _operand(self) -> Expression:
        """Parse a path, a value, a function, or what parentheses enclose."""
        word = self.peek() or ""
        if word == "(":
            return self._group()
        if self._peek(1) == "(" and _is_name(word):
            return self._function(self.take())
        return ValueOperand(self.take()) if word[:1] == ":" else self.path()

    def _function(self, name: str) -> Expression:
        kinds = self._functions.get(name)
        if kinds is None:
            raise InvalidExpression(f"Invalid function name; function: {name}")
        operands = self._arguments(self._operand)
        if len(operands) != len(kinds):
            raise InvalidExpression(
                f"Incorrect number of operands for operator or function; operator or function: {name}, "
                f"number of operands: {len(operands)}"
            )
        if not all(map(isinstance, operands, kinds)):
            raise InvalidExpression(f"Operator or function requires a document path; operator or function: {name}")
        return self._operation(name, *operands)

    def _operation(self, name: str, *operands: Expression) -> Expression:
        """Return an operation. Refuse a condition as an operand, and else than conditions beside AND, OR and NOT."""
        joins = name in (*_CONNECTIVES, "NOT")
        if any(is_condition(one) != joins for one in operands):
            self.fail()
        if len(operands) > MAXIMUM_CHOICES + 1:
            raise InvalidExpression("The IN operator is provided with too many operands")
        return Operation(name, operands)

    def _group(self) -> Expression:
        self.expect("(")
        start = self._next
        inner = self._expression()
        if self._groups.get(start) == self._next:
            raise InvalidExpression("The expression has redundant parentheses;")
        self.expect(")")
        self._groups[start - 1] = self._next
        return inner

    def _arguments(self, parse: Callable[[], T]) -> list[T]:
        self.expect("(")
        found = self.several(parse)
        self.expect(")")
        return found

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

    def several(self, parse: Callable[[], T]) -> list[T]:
        """Parse one or more, separated by commas."""
        found = [parse()]
        while self._keyword(","):
            found.append(parse())
        return found

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
        if not self._keyword(wanted):
            self.fail()

    def fail(self) -> NoReturn:
        """Refuse the next token."""
        token = self.peek()
        raise InvalidExpression("Syntax error; token: " + ("<EOF>" if token is None else f'"{token}"'))

    def _keyword(self, keyword: str) -> bool:
        found = (self.peek() or "").upper() == keyword
        self._next += found
        return found


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
