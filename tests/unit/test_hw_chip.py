"""Unit conversions of a chip against hand-computed values, and its identity."""

from __future__ import annotations

import json
import math
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

import hw
from hw.figures import parse_number, plain
from hw.loader import parse_chip

DYNAPLASIA = hw.load_chip("dynaplasia")
PRIME = hw.load_chip("prime")


def test_dynaplasia_by_hand() -> None:
    chip = DYNAPLASIA
    assert (chip.arrays, chip.weight_format(), chip.array_bytes) == (96, hw.WeightFormat(8, 8, 40, 1), 12_800)
    assert (chip.mvm_cycles(1), chip.mvm_cycles(320)) == (100, 100)  # 8 passes of 12.5 cycles
    assert (chip.array_write_cycles(7), chip.main_cycles(1024), chip.main_cycles(1025)) == (7, 10, 11)
    assert (chip.buffer_cycles(33), chip.arrays_cycles(13, 1), chip.arrays_cycles(13, 3)) == (2, 4, 2)
    assert chip.switch_cycles(3, 2) == 5
    assert (chip.vector_work("softmax", 5), chip.vector_work("view", 5), chip.vector_work("unheard", 5)) == (15, 0, 5)
    assert (chip.vector_cycles(0), chip.vector_cycles(32), chip.vector_cycles(33)) == (0, 1, 2)


def test_prime_by_hand() -> None:
    chip = PRIME
    assert (chip.arrays, chip.weight_format(), chip.array_bytes) == (4096, hw.WeightFormat(8, 2, 128, 1), 8_192)
    assert chip.mvm_cycles(256) == 300  # 8 input bits on 3-bit drivers: 3 passes of 100 ns
    assert (chip.array_write_cycles(256), chip.main_cycles(17), chip.arrays_cycles(17, 2)) == (256_000, 2, 10)
    assert chip.switch_cycles(65, 64) == 24  # three turns of 8 cycles


def test_passes_round_up_once_and_row_groups_multiply() -> None:
    chip = DYNAPLASIA.with_changes(
        **{"array.cycles_per_pass": 2.5, "precision.input_bits": 3, "array.max_active_rows": 100}
    )
    assert chip.mvm_cycles(100) == 8  # ceil(3 x 2.5)
    assert chip.mvm_cycles(101) == 16


def test_binding_and_weights_wider_than_the_columns() -> None:
    spread = DYNAPLASIA.with_changes(**{"array.binding": "arrays"})
    assert spread.weight_format() == hw.WeightFormat(8, 8, per_row=320, arrays=8)
    assert DYNAPLASIA.with_changes(**{"array.columns": 7}).weight_format().per_row == 0


def test_weights_of_other_widths_than_the_chip_s() -> None:
    assert DYNAPLASIA.weight_format(4) == hw.WeightFormat(4, 4, per_row=80, arrays=1)
    two_bits = DYNAPLASIA.with_changes(**{"array.bits_per_cell": 2, "array.binding": "arrays"})
    assert two_bits.weight_format(3) == hw.WeightFormat(3, 2, per_row=320, arrays=2)
    assert [two_bits.weight_format(bits).bytes(5) for bits in (2, 3, 16)] == [2, 2, 10]


def test_bytes_round_up() -> None:
    chip = DYNAPLASIA.with_changes(
        **{"precision.input_bits": 3, "precision.weight_bits": 5, "precision.accumulator_bits": 20}
    )
    assert (chip.activation_bytes(3), chip.weight_format().bytes(3), chip.accumulator_bytes(3)) == (2, 2, 8)


def test_chip_that_cannot_switch_needs_no_memory_mode() -> None:
    data = DYNAPLASIA.to_mapping()
    data["modes"] = {"switchable": False}
    data["sources"] = {}
    chip = hw.Chip.from_mapping(data)
    assert (chip.array_bytes, chip.switch_cycles(4, 4)) == (0, 0)
    assert hw.Chip.from_mapping(chip.to_mapping()) == chip


def test_frozen() -> None:
    with pytest.raises(ValidationError):
        DYNAPLASIA.name = "x"


def test_not_modelled() -> None:
    assert DYNAPLASIA.not_modelled == ()
    assert DYNAPLASIA.with_changes(**{"main_memory.latency_cycles": 9, "cores": 2}).not_modelled == (
        "main_memory.latency_cycles",
        "cores",
    )


def test_identity() -> None:
    same = DYNAPLASIA.with_changes(**{"sources.array.rows": "elsewhere"})
    assert same.sha256 == DYNAPLASIA.sha256
    assert DYNAPLASIA.with_changes(**{"array.rows": 640}).sha256 != DYNAPLASIA.sha256
    assert {DYNAPLASIA: 1}[hw.load_chip("dynaplasia")] == 1
    assert pickle.loads(pickle.dumps(DYNAPLASIA)) == DYNAPLASIA


def test_import_is_light() -> None:
    code = "import sys, hw; print(sorted({'pydantic', 'ruamel.yaml', 'yaml', 'pyomo', 'numpy', 'onnx'} & set(sys.modules)))"
    root = Path(hw.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_name_of_the_package() -> None:
    with pytest.raises(AttributeError, match="no attribute 'load_chips'"):
        hw.load_chips  # noqa: B018


def test_file_named_like_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("prime").write_text(json.dumps(DYNAPLASIA.to_mapping()), encoding="utf-8")
    assert hw.load_chip("prime") == PRIME
    assert hw.load_chip("./prime") == DYNAPLASIA


POSITIVE = st.one_of(
    st.fractions(Fraction(1, 1000), 10**6, max_denominator=10**6),
    st.integers(1, 10**6),
    st.floats(0.001, 1e6),
    st.decimals("0.001", 1000, places=3).map(str),
)


@given(POSITIVE, st.integers(1, 4096), st.integers(0, 10**9), st.integers(1, 300))
def test_changes_are_exact_and_leave_the_original_alone(bandwidth: object, rows: int, size: int, arrays: int) -> None:
    before = DYNAPLASIA.sha256
    chip = DYNAPLASIA.with_changes(
        **{
            "main_memory.bandwidth": bandwidth,
            "modes.bandwidth": bandwidth,
            "array.rows": rows,
            "array.max_active_rows": 1,
        }
    )
    rate = Fraction(str(bandwidth))
    assert chip.main_memory.bandwidth == rate
    assert chip.main_cycles(size) == math.ceil(size / rate)
    assert chip.arrays_cycles(size, arrays) == math.ceil(size / (arrays * rate))
    assert chip.mvm_cycles(rows) == 100 * rows
    undone = {"main_memory.bandwidth": 102.4, "modes.bandwidth": 4, "array.rows": 320, "array.max_active_rows": 320}
    assert chip.with_changes(**undone) == DYNAPLASIA
    assert DYNAPLASIA.sha256 == before == hw.load_chip("dynaplasia").sha256


@given(POSITIVE, st.integers(1, 64), st.sampled_from(["columns", "arrays"]), st.fractions(Fraction(1, 1000), 1))
def test_round_trip_through_text(bandwidth: object, bits: int, binding: str, fraction: Fraction) -> None:
    chip = DYNAPLASIA.with_changes(
        **{
            "buffer.bandwidth": bandwidth,
            "array.bits_per_cell": bits,
            "array.binding": binding,
            "modes.capacity_fraction": fraction.limit_denominator(10**6),
            "vector.passes.new": bandwidth,
        }
    )
    again = parse_chip(chip.to_json().encode(), "again.yaml")
    assert (again, again.sha256, again.to_json()) == (chip, chip.sha256, chip.to_json())


@given(st.fractions(max_denominator=10**9))
def test_plain_text_of_a_number_is_exact(number: Fraction) -> None:
    assert Fraction(plain(number)) == number
    if number >= 0:
        assert parse_number(str(plain(number))) == number
