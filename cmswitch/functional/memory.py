"""Main memory, the buffer and memory-mode arrays: tensors as the bytes that a program puts there."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cmswitch.functional.errors import ExecutionError
from cmswitch.functional.formats import Array, Format, Raw
from cmswitch.program.program import Allocate, Buffer
from hw import Chip

Shapes = Mapping[str, tuple[int, ...]]


class Memory:
    """Where tensors are. A place on chip is bytes, shared by whatever the program puts there.

    Windows, which hold a part of their tensor at a time, keep it whole here: which chunk is where is a matter of time. So do
    values that have no format of the chip's (64-bit integers), which take more bytes than their place has.
    """

    def __init__(self, chip: Chip, formats: Mapping[str, Format | Raw], shapes: Shapes) -> None:
        self._chip, self._formats, self._shapes = chip, formats, shapes
        self._main: dict[str, Array] = {}
        self._buffer = np.zeros(chip.buffer.capacity_bytes, np.uint8)
        self._arrays: dict[int, Array] = {}
        self._places: dict[str, Allocate] = {}
        self._apart: dict[str, Array] = {}
        self.computing: set[int] = set()

    def computes(self, array: int) -> bool:
        """Whether an array is in compute mode."""
        return array in self.computing or not self._chip.modes.switchable

    def switch(self, array: int, to_compute: bool) -> None:
        """Change the mode of an array; what it held is lost."""
        self._arrays.pop(array, None)
        (self.computing.add if to_compute else self.computing.discard)(array)

    def allocate(self, allocation: Allocate) -> None:
        """Give a tensor a place on chip."""
        self._places[allocation.tensor] = allocation

    def free(self, tensor: str) -> None:
        """Take a tensor's place away; its bytes stay until something else is written there."""
        self._places.pop(tensor, None)
        self._apart.pop(tensor, None)

    def store(self, tensor: str) -> None:
        """Copy a resident tensor to main memory and free its place."""
        self._main[tensor] = self.read(tensor, "resident")
        self.free(tensor)

    def place_of(self, tensor: str) -> str:
        """Where a tensor is read from: ``resident`` if it has a place on chip."""
        return "resident" if tensor in self._places else "main"

    def write(self, tensor: str, target: str, codes: Array) -> None:
        """Put all of a tensor at ``target`` (``main`` or ``resident``)."""
        if target == "main":
            self._main[tensor] = codes.reshape(-1).copy()
            return
        allocation = self._place(tensor)
        data = self._formats[tensor].pack(codes)
        if allocation.window is not None or data.size > self._capacity(allocation):
            self._apart[tensor] = codes.reshape(-1).copy()
            return
        if isinstance(allocation.location, Buffer):
            start = 0
            for offset, length in allocation.location.extents:
                part = data[start : start + length]
                self._buffer[offset : offset + part.size] = part
                start += length
            return
        arrays = allocation.location.arrays
        for index, array in enumerate(arrays):
            if not self.computes(array):
                self._bytes(array)[: len(data[index :: len(arrays)])] = data[index :: len(arrays)]

    def read(self, tensor: str, source: str) -> Array:
        """All of a tensor from ``source``, in its shape. Raises ExecutionError if nothing was ever written there."""
        shape = self._shapes[tensor]
        count = int(np.prod(shape, dtype=np.int64))
        if source == "main":
            if tensor not in self._main:
                raise ExecutionError(f"tensor {tensor!r} is read from main memory before anything wrote it there")
            return self._main[tensor].reshape(shape)
        allocation = self._place(tensor)
        if tensor in self._apart:
            return self._apart[tensor].reshape(shape)
        form = self._formats[tensor]
        size = form.pack(np.zeros(count, np.int64)).size
        if allocation.window is not None or size > self._capacity(allocation):
            raise ExecutionError(f"tensor {tensor!r} is read from its place on chip before anything wrote it there")
        data = np.zeros(size, np.uint8)
        if isinstance(allocation.location, Buffer):
            found = [self._buffer[offset : offset + length] for offset, length in allocation.location.extents]
            data[:] = np.concatenate(found)[:size]
        else:
            arrays = allocation.location.arrays
            for index, array in enumerate(arrays):
                if not self.computes(array):
                    part = data[index :: len(arrays)]
                    part[:] = self._bytes(array)[: part.size]
        return form.unpack(data, count).reshape(shape)

    def _place(self, tensor: str) -> Allocate:
        if tensor not in self._places:
            raise ExecutionError(f"tensor {tensor!r} has no place on chip")
        return self._places[tensor]

    def _capacity(self, allocation: Allocate) -> int:
        location = allocation.location
        return location.bytes if isinstance(location, Buffer) else len(location.arrays) * self._chip.array_bytes

    def _bytes(self, array: int) -> Array:
        """The bytes of a memory-mode array."""
        if array not in self._arrays:
            self._arrays[array] = np.zeros(self._chip.array_bytes, np.uint8)
        return self._arrays[array]
