"""The text form of a meta-operator program: ``format_program`` and ``parse_program`` (an exact round trip).

The grammar, informally (``docs/program.md`` says what it means; ``#`` starts a comment; lists of arrays are written as ranges,
``[0..37, 40]``)::

    program    := program NAME chip NAME sha256 NAME weights (cold | resident) tensor* segment*
    tensor     := tensor NAME BYTES [input | output]
    segment    := segment { store* switch* allocate* write* parallel { operator* } free* }
    store      := mov.store(NAME)
    switch     := CM.switch(TOC | TOM, ARRAYS)
    allocate   := allocate(NAME, buffer [OFFSET LENGTH, ...] | arrays ARRAYS [, window CHUNKS])
    write      := cim.writexb(NAME, tile ROW COLUMN, groups FIRST COUNT, bit B, size ROWS COLUMNS,
                              bytes N, arrays ARRAYS) [from NAME]
    operator   := operator NAME from [NAME, ...] { [operand [after NAME] { write* }]
                                                   repeat CHUNKS [recurrent] { load* [multiply] vector* emit* } }
    load       := load(NAME, main | resident, BYTES) [after NAME (NUMERATOR, DENOMINATOR, OFFSET, SPAN)]
    multiply   := cim.readxb(rows M, used R, copies ARRAYS ...)
    vector     := vector.KIND(NAME, WORK)
    emit       := store(NAME, [TARGET, ...], BYTES)
    free       := free(NAME)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from cmswitch.errors import InputError
from cmswitch.program.program import (
    After,
    Allocate,
    Buffer,
    Emit,
    Fetch,
    Free,
    MemoryArrays,
    Multiply,
    Program,
    SegmentProgram,
    Stage,
    Store,
    Switch,
    TensorDeclaration,
    Vector,
    WriteTile,
)

Statement = TensorDeclaration | Store | Switch | Allocate | WriteTile | Fetch | Multiply | Vector | Emit | Stage | Free

_INDENT = "  "
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


# --- printing ---------------------------------------------------------------------------------------------------------


def format_arrays(arrays: Sequence[int]) -> str:
    """Array numbers as ranges, in the given order: ``[0..37, 40]``."""
    runs: list[list[int]] = []
    for array in arrays:
        if runs and array == runs[-1][1] + 1:
            runs[-1][1] = array
        else:
            runs.append([array, array])
    return "[" + ", ".join(str(first) if first == last else f"{first}..{last}" for first, last in runs) + "]"


def format_statement(statement: Statement) -> str:
    """One statement on one line (an operator: its header)."""
    match statement:
        case TensorDeclaration(name, size, kind):
            return f"tensor {_quote(name)} {size}" + ("" if kind == "intermediate" else f" {kind}")
        case Store(tensor):
            return f"mov.store({_quote(tensor)})"
        case Switch(mode, arrays):
            return f"CM.switch({mode}, {format_arrays(arrays)})"
        case Allocate(tensor, location, window):
            if isinstance(location, Buffer):
                place = f"buffer [{', '.join(f'{offset} {length}' for offset, length in location.extents)}]"
            else:
                place = f"arrays {format_arrays(location.arrays)}"
            return f"allocate({_quote(tensor)}, {place}" + ("" if window is None else f", window {window}") + ")"
        case WriteTile():
            source = "" if statement.source is None else f" from {_quote(statement.source)}"
            return (
                f"cim.writexb({_quote(statement.operator)}, tile {statement.row_block} {statement.column_block}, "
                f"groups {statement.group} {statement.groups}, bit {statement.bit}, "
                f"size {statement.rows} {statement.columns}, bytes {statement.bytes}, "
                f"arrays {format_arrays(statement.arrays)}){source}"
            )
        case Fetch(tensor, source, size, after):
            text = f"load({_quote(tensor)}, {source}, {size})"
            if after is not None:
                rule = f"({after.numerator}, {after.denominator}, {after.offset}, {after.span})"
                text += f" after {_quote(after.operator)} {rule}"
            return text
        case Multiply(rows, used_rows, copies):
            arrays_of_copies = "".join(f" {format_arrays(copy)}" for copy in copies)
            return f"cim.readxb(rows {rows}, used {used_rows}, copies{arrays_of_copies})"
        case Vector(kind, node, work):
            return f"vector.{kind if _WORD.fullmatch(kind) else _quote(kind)}({_quote(node)}, {work})"
        case Emit(tensor, targets, size):
            return f"store({_quote(tensor)}, [{', '.join(targets)}], {size})"
        case Stage():
            nodes = ", ".join(_quote(node) for node in statement.nodes)
            return f"operator {_quote(statement.operator)} from [{nodes}]"
        case Free(tensor):
            return f"free({_quote(tensor)})"


def format_program(program: Program) -> str:
    """The text of a program; equal programs give equal text, and ``parse_program`` gives the program back."""
    lines = [
        f"program {_quote(program.network)}",
        f"chip {_quote(program.chip)} sha256 {_quote(program.chip_sha256)}",
        f"weights {'resident' if program.resident_weights else 'cold'}",
        *(format_statement(tensor) for tensor in program.tensors),
    ]
    for segment in program.segments:
        lines += ["", *_segment_lines(segment)]
    return "\n".join(lines) + "\n"


def _segment_lines(segment: SegmentProgram) -> Iterator[str]:
    before: Iterable[Statement] = (*segment.stores, *segment.switches, *segment.allocations, *segment.writes)
    yield "segment {"
    yield from _indented(map(format_statement, before))
    yield _INDENT + "parallel {"
    for stage in segment.stages:
        yield from _indented(_stage_lines(stage), 2)
    yield _INDENT + "}"
    yield from _indented(map(format_statement, segment.frees))
    yield "}"


def _stage_lines(stage: Stage) -> Iterator[str]:
    yield format_statement(stage) + " {"
    if stage.operand or stage.operand_after is not None:
        after = "" if stage.operand_after is None else f" after {_quote(stage.operand_after)}"
        yield f"{_INDENT}operand{after} {{"
        yield from _indented(map(format_statement, stage.operand), 2)
        yield _INDENT + "}"
    multiply = () if stage.multiply is None else (stage.multiply,)
    body: Iterable[Statement] = (*stage.fetches, *multiply, *stage.vector, *stage.emits)
    yield f"{_INDENT}repeat {stage.chunks}{' recurrent' * stage.recurrent} {{"
    yield from _indented(map(format_statement, body), 2)
    yield _INDENT + "}"
    yield "}"


def _indented(lines: Iterable[str], depth: int = 1) -> Iterator[str]:
    return (_INDENT * depth + line for line in lines)


def _quote(name: str) -> str:
    return json.dumps(name)


# --- parsing ----------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*)|(?P<newline>\n)|(?P<string>"(?:[^"\\\n]|\\.)*")|(?P<number>-?[0-9]+)"""
    r"""|(?P<word>[A-Za-z_][A-Za-z0-9_-]*)|(?P<mark>\.\.|[][(){},.])"""
)
_Item = TypeVar("_Item")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    line: int


def parse_program(text: str) -> Program:
    """The program that a text describes. ``InputError`` with the line and what was expected there."""
    return _Parser(_tokens(text)).program()


def _tokens(text: str) -> list[_Token]:
    tokens, line, position = [], 1, 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InputError(f"program text, line {line}: unexpected character {text[position]!r}")
        kind = str(match.lastgroup)
        if kind == "newline":
            line += 1
        elif kind != "space":
            tokens.append(_Token(kind, match.group(), line))
        position = match.end()
    tokens.append(_Token("end", "the end of the text", line))
    return tokens


class _Parser:
    """Recursive descent over the tokens, one method per rule of the grammar."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens, self._at = tokens, 0

    # Basics.

    def _fail(self, expected: str) -> InputError:
        token = self._tokens[self._at]
        return InputError(f"program text, line {token.line}: expected {expected}, found {token.text}")

    def _next_is(self, *texts: str) -> bool:
        following = self._tokens[self._at : self._at + len(texts)]
        return [token.text for token in following] == list(texts)

    def _accept(self, text: str) -> bool:
        found = self._next_is(text)
        self._at += found
        return found

    def _expect(self, *texts: str) -> None:
        for text in texts:
            if not self._accept(text):
                raise self._fail(f"'{text}'")

    def _take(self, kind: str, expected: str) -> str:
        token = self._tokens[self._at]
        if token.kind != kind:
            raise self._fail(expected)
        self._at += 1
        return token.text

    def _number(self, what: str) -> int:
        return int(self._take("number", f"a number ({what})"))

    def _name(self, what: str) -> str:
        token = self._tokens[self._at]
        text = self._take("string", f"a name in double quotes ({what})")
        try:
            return str(json.loads(text))
        except json.JSONDecodeError as error:
            raise InputError(f"program text, line {token.line}: {text} is not a valid string: {error.msg}") from error

    def _list(self, item: Callable[[], _Item]) -> tuple[_Item, ...]:
        self._expect("[")
        items: list[_Item] = []
        while not self._accept("]"):
            if items and not self._accept(","):
                raise self._fail("',' or ']'")
            items.append(item())
        return tuple(items)

    def _many(self, rule: Callable[[], _Item], *start: str) -> tuple[_Item, ...]:
        items = []
        while self._next_is(*start):
            items.append(rule())
        return tuple(items)

    def _range(self) -> range:
        first = last = self._number("an array")
        if self._accept(".."):
            if self._tokens[self._at].kind == "number" and int(self._tokens[self._at].text) <= first:
                raise self._fail(f"a number above {first}")
            last = self._number("the last array of a range")
        return range(first, last + 1)

    def _arrays(self) -> tuple[int, ...]:
        return tuple(array for run in self._list(self._range) for array in run)

    # Rules.

    def program(self) -> Program:
        self._expect("program")
        network = self._name("network")
        self._expect("chip")
        chip = self._name("chip")
        self._expect("sha256")
        digest = self._name("digest of the chip")
        self._expect("weights")
        resident = self._accept("resident")
        if not resident and not self._accept("cold"):
            raise self._fail("'cold' or 'resident'")
        tensors = self._many(self._tensor, "tensor")
        segments = self._many(self._segment, "segment")
        if self._tokens[self._at].kind != "end":
            raise self._fail("'segment' or the end of the text" if segments else "'tensor' or 'segment'")
        return Program(network, chip, digest, tensors, segments, resident)

    def _tensor(self) -> TensorDeclaration:
        self._expect("tensor")
        name, size = self._name("tensor"), self._number("bytes")
        kind: Literal["input", "output", "intermediate"] = "intermediate"
        if self._accept("input"):
            kind = "input"
        elif self._accept("output"):
            kind = "output"
        return TensorDeclaration(name, size, kind)

    def _segment(self) -> SegmentProgram:
        self._expect("segment", "{")
        stores = self._many(self._store, "mov", ".", "store")
        switches = self._many(self._switch, "CM", ".", "switch")
        allocations = self._many(self._allocate, "allocate")
        writes = self._many(self._write, "cim", ".", "writexb")
        if not self._next_is("parallel"):
            raise self._fail("mov.store, CM.switch, allocate, cim.writexb (in this order) or 'parallel'")
        self._expect("parallel", "{")
        stages = self._many(self._stage, "operator")
        if not self._accept("}"):
            raise self._fail("'operator' or '}'")
        frees = self._many(self._free, "free")
        if not self._accept("}"):
            raise self._fail("'free' or '}'")
        return SegmentProgram(stores, switches, allocations, writes, stages, frees)

    def _store(self) -> Store:
        self._expect("mov", ".", "store", "(")
        statement = Store(self._name("tensor"))
        self._expect(")")
        return statement

    def _switch(self) -> Switch:
        self._expect("CM", ".", "switch", "(")
        mode: Literal["TOC", "TOM"] = "TOC" if self._next_is("TOC") else "TOM"
        if not self._accept(mode):
            raise self._fail("'TOC' or 'TOM'")
        self._expect(",")
        statement = Switch(mode, self._arrays())
        self._expect(")")
        return statement

    def _allocate(self) -> Allocate:
        self._expect("allocate", "(")
        tensor = self._name("tensor")
        self._expect(",")
        location: Buffer | MemoryArrays
        if self._accept("buffer"):
            location = Buffer(self._list(lambda: (self._number("offset"), self._number("length"))))
        elif self._accept("arrays"):
            location = MemoryArrays(self._arrays())
        else:
            raise self._fail("'buffer' or 'arrays'")
        window = None
        if self._accept(","):
            self._expect("window")
            window = self._number("chunks")
        self._expect(")")
        return Allocate(tensor, location, window)

    def _write(self) -> WriteTile:
        self._expect("cim", ".", "writexb", "(")
        operator = self._name("operator")
        self._expect(",", "tile")
        row_block, column_block = self._number("row block"), self._number("column block")
        self._expect(",", "groups")
        group, groups = self._number("first group"), self._number("groups")
        self._expect(",", "bit")
        bit = self._number("bit slice")
        self._expect(",", "size")
        rows, columns = self._number("rows"), self._number("columns")
        self._expect(",", "bytes")
        size = self._number("bytes")
        self._expect(",", "arrays")
        arrays = self._arrays()
        self._expect(")")
        source = self._name("tensor") if self._accept("from") else None
        return WriteTile(operator, row_block, column_block, group, groups, bit, rows, columns, size, arrays, source)

    def _stage(self) -> Stage:
        self._expect("operator")
        operator = self._name("operator")
        self._expect("from")
        nodes = self._list(lambda: self._name("node"))
        self._expect("{")
        operand: tuple[WriteTile, ...] = ()
        operand_after = None
        if self._accept("operand"):
            operand_after = self._name("operator") if self._accept("after") else None
            self._expect("{")
            operand = self._many(self._write, "cim", ".", "writexb")
            if not self._accept("}"):
                raise self._fail("cim.writexb or '}'")
        self._expect("repeat")
        chunks = self._number("chunks")
        recurrent = self._accept("recurrent")
        self._expect("{")
        fetches = self._many(self._load, "load")
        multiply = self._multiply() if self._next_is("cim") else None
        vector = self._many(self._vector, "vector")
        emits = self._many(self._emit, "store")
        if not self._accept("}"):
            raise self._fail("load, cim.readxb, vector, store (in this order) or '}'")
        self._expect("}")
        return Stage(operator, nodes, chunks, fetches, multiply, vector, emits, operand, operand_after, recurrent)

    def _place(self) -> Literal["main", "resident"]:
        if self._accept("main"):
            return "main"
        if self._accept("resident"):
            return "resident"
        raise self._fail("'main' or 'resident'")

    def _load(self) -> Fetch:
        self._expect("load", "(")
        tensor = self._name("tensor")
        self._expect(",")
        source = self._place()
        self._expect(",")
        size = self._number("bytes")
        self._expect(")")
        return Fetch(tensor, source, size, self._after() if self._accept("after") else None)

    def _after(self) -> After:
        operator = self._name("operator")
        self._expect("(")
        numerator = self._number("numerator")
        self._expect(",")
        denominator = self._number("denominator")
        self._expect(",")
        offset = self._number("offset")
        self._expect(",")
        span = self._number("span")
        self._expect(")")
        return After(operator, numerator, denominator, offset, span)

    def _multiply(self) -> Multiply:
        self._expect("cim", ".", "readxb", "(", "rows")
        rows = self._number("rows")
        self._expect(",", "used")
        used_rows = self._number("used rows")
        self._expect(",", "copies")
        copies = self._many(self._arrays, "[")
        self._expect(")")
        return Multiply(rows, used_rows, copies)

    def _vector(self) -> Vector:
        self._expect("vector", ".")
        if self._tokens[self._at].kind == "word":
            kind = self._take("word", "a kind of vector operator")
        else:
            kind = self._name("kind of vector operator")
        self._expect("(")
        node = self._name("node")
        self._expect(",")
        work = self._number("work")
        self._expect(")")
        return Vector(kind, node, work)

    def _emit(self) -> Emit:
        self._expect("store", "(")
        tensor = self._name("tensor")
        self._expect(",")
        targets = self._list(self._place)
        self._expect(",")
        size = self._number("bytes")
        self._expect(")")
        return Emit(tensor, targets, size)

    def _free(self) -> Free:
        self._expect("free", "(")
        statement = Free(self._name("tensor"))
        self._expect(")")
        return statement
