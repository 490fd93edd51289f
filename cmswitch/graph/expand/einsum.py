"""Einsum as products, sums and permutations: every pair of operands is one matrix product."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from cmswitch.graph.expand.parts import EXPANSIONS, Part, Parts
from cmswitch.graph.ir import Node, Unsupported

ELLIPSIS = "..."


@dataclass(frozen=True)
class _Term:
    """A value whose axes, none of size 1, are called ``letters``."""

    value: str
    letters: tuple[str, ...]
    constant: bool = False


@EXPANSIONS.of("Einsum")
def einsum(node: Node) -> Sequence[Part]:
    """Einsum: operands joined pairwise from the left; letters that nothing later needs are summed as soon as possible.

    Axes of size 1 are left out of all steps and put back at the end.
    """
    names, result = _letters(node)
    sizes: dict[str, int] = {}
    for index, letters in enumerate(names):
        for letter, size in zip(letters, node.shape(index), strict=True):
            if size != 1 and sizes.setdefault(letter, size) != size:
                raise Unsupported(f"{letter!r} is {sizes[letter]} and {size}", "correct the equation")
    steps = _Steps(Parts(node), sizes)
    terms = [steps.term(node, index, letters) for index, letters in enumerate(names)]
    wanted = tuple(letter for letter in result if letter in sizes)
    found = steps.summed(terms[0], _needed(terms[1:], wanted))
    for position, term in enumerate(terms[1:], 1):
        found = steps.joined(found, term, _needed(terms[position + 1 :], wanted), wanted)
    found = steps.ordered(found, wanted)
    steps.parts.reshape(found.value, node.output_shape(), output=node.outputs[0])
    return steps.parts.list


def _needed(terms: Sequence[_Term], wanted: Sequence[str]) -> frozenset[str]:
    return frozenset(wanted).union(*(term.letters for term in terms))


def _letters(node: Node) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """The letters of every operand and of the result; an ellipsis stands for letters of its own, aligned at the right."""
    equation = node.attributes["equation"].decode().replace(" ", "")
    left, arrow, right = equation.partition("->")
    operands = left.split(",")
    if len(operands) != len(node.inputs):
        raise Unsupported(
            f"{equation!r} has {len(operands)} operands, the node {len(node.inputs)}", "correct the equation"
        )
    named: list[tuple[str, ...]] = []
    longest = 0
    for index, operand in enumerate(operands):
        more = len(node.shape(index)) - len(operand.replace(ELLIPSIS, ""))
        if more < 0 or (more and ELLIPSIS not in operand):
            raise Unsupported(f"{operand!r} does not name the axes of its operand", "correct the equation")
        named.append(_expanded(operand, more))
        longest = max(longest, more if ELLIPSIS in operand else 0)
        if len(set(named[-1])) < len(named[-1]):
            raise Unsupported(f"{operand!r} takes a diagonal", "take the diagonal with Gather or a mask before export")
    if not arrow:
        once = sorted(letter for letter in set(left) - set(",.") if left.count(letter) == 1)
        right = (ELLIPSIS if ELLIPSIS in left else "") + "".join(once)
    return named, _expanded(right, longest)


def _expanded(operand: str, more: int) -> tuple[str, ...]:
    before, dots, after = operand.partition(ELLIPSIS)
    return (*before, *(f"{ELLIPSIS}{i}" for i in range(more, 0, -1) if dots), *after)


@dataclass(frozen=True)
class _Steps:
    """Writes the steps; ``sizes`` of the letters, none of them 1."""

    parts: Parts
    sizes: Mapping[str, int]

    def term(self, node: Node, index: int, letters: Sequence[str]) -> _Term:
        """An operand without its axes of size 1."""
        value, constant = node.inputs[index], node.value(index).constant
        kept = tuple(letter for letter, size in zip(letters, node.shape(index), strict=True) if size != 1)
        if len(kept) < len(letters):
            value = self.parts.reshape(value, [self.sizes[letter] for letter in kept])
        return _Term(value, kept, constant)

    def merged(self, value: str, groups: Sequence[Sequence[str]]) -> str:
        """``value``, whose letters are those of ``groups`` in their order, with one axis for each group."""
        if all(len(group) == 1 for group in groups):
            return value
        return self.parts.reshape(value, [prod(self.sizes[letter] for letter in group) for group in groups])

    def summed(self, term: _Term, needed: frozenset[str]) -> _Term:
        """Summed over the letters that are not ``needed``."""
        gone = [axis for axis, letter in enumerate(term.letters) if letter not in needed]
        if not gone:
            return term
        value = self.parts.add("ReduceSum", term.value, self.parts.constant(gone), keepdims=0)
        return _Term(value, tuple(letter for letter in term.letters if letter in needed), term.constant)

    def ordered(self, term: _Term, letters: Sequence[str]) -> _Term:
        """With its axes in the order of ``letters``."""
        if term.letters == tuple(letters):
            return term
        order = [term.letters.index(letter) for letter in letters]
        return _Term(self.parts.add("Transpose", term.value, perm=order), tuple(letters), term.constant)

    def joined(self, left: _Term, right: _Term, needed: frozenset[str], wanted: Sequence[str]) -> _Term:
        """The product of two terms, summed over what is not ``needed``."""
        left = self.summed(left, needed | set(right.letters))
        right = self.summed(right, needed | set(left.letters))
        both = [letter for letter in left.letters if letter in right.letters]
        inner = [letter for letter in both if letter not in needed]
        if not inner:
            return self._elementwise(left, right, wanted)
        place = {letter: number for number, letter in enumerate(wanted)}
        last = len(place)
        batch = sorted((c for c in both if c in needed), key=lambda c: place.get(c, last))
        outer = [[c for c in term.letters if c not in both] for term in (left, right)]
        if all(outer) and place.get(outer[1][0], last) < min(place.get(c, last) for c in outer[0]):
            left, right, outer = right, left, outer[::-1]  # the result is then in its final order
        rows, columns = outer
        streamed = right if left.constant else left
        inner = [letter for letter in streamed.letters if letter in inner]
        left = self.ordered(left, (*batch, *rows, *inner))
        right = self.ordered(right, (*batch, *inner, *columns))
        each = [[letter] for letter in batch]
        product = self.parts.add(
            "MatMul",
            self.merged(left.value, [*each, rows, inner]),
            self.merged(right.value, [*each, inner, columns]),
        )
        letters = (*batch, *rows, *columns)
        if len(rows) != 1 or len(columns) != 1:
            product = self.parts.reshape(product, [self.sizes[letter] for letter in letters])
        return _Term(product, letters, left.constant and right.constant)

    def _elementwise(self, left: _Term, right: _Term, wanted: Sequence[str]) -> _Term:
        """A product without a sum: operands broadcast to the letters of both, those of the result first and in its order."""
        present = dict.fromkeys((*left.letters, *right.letters))
        letters = [c for c in wanted if c in present] + [c for c in present if c not in wanted]
        values = []
        for term in (left, right):
            term = self.ordered(term, [c for c in letters if c in term.letters])
            values.append(self.merged(term.value, [[c] if c in term.letters else [] for c in letters]))
        return _Term(self.parts.add("Mul", *values), tuple(letters), left.constant and right.constant)
