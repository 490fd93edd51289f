"""What each command does, once its options are typed. Each imports heavy packages only when it needs them."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from cmswitch.errors import CmswitchError, InputError
from cmswitch.naming import quantity
from cmswitch.options import ModelOptions, SolveOptions, VerifyOptions
from cmswitch.output import OutputFolder
from cmswitch.progress import Interruption, ProgressBar, StepBar
from cmswitch.version import __version__

if TYPE_CHECKING:
    from cmswitch.graph.network import Network
    from cmswitch.pipeline import Result
    from cmswitch.program.program import Program
    from cmswitch.segmentation.plan import Plan
    from hw import Chip

SOLVE_FILES = PLAN, PROGRAM, REPORT, TRACE = ("plan.json", "program.mop", "report.json", "trace.json")
EXIT_DONE, EXIT_FAILED_CHECK = 0, 1
_DECIDING_PACKAGES = ("pyomo", "highspy", "ortools", "numpy", "onnx", "simpy")

log = logging.getLogger("cmswitch")


def set_up_logging(verbose: bool, quiet: bool) -> None:
    """Log to stderr: warnings, with ``verbose`` what happens as well, with ``quiet`` errors only."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(name)s: %(levelname)s: %(message)s"))
    log.handlers[:] = [handler]
    log.propagate = False
    log.setLevel(logging.DEBUG if verbose else logging.ERROR if quiet else logging.WARNING)


def solve(options: SolveOptions) -> int:
    """Compile, simulate, write ``--out``, print the report. Returns 0, or 130 (143) if Ctrl-C (SIGTERM) cut the search short."""
    started = time.process_time()
    given = [Path(name) for name in (options.network.model, options.chip) if Path(name).is_file()]
    folder = OutputFolder(options.out, SOLVE_FILES, given) if options.out else None
    chip = load_chip(options.chip)
    with ProgressBar(shown=not options.quiet) as progress:
        progress.announce(f"reading {options.network.model}")
        network = load_network(options.network)
    log.info("network %s: %d operators", network.name, len(network.operators))

    from cmswitch import pipeline

    chosen = pipeline.Options(
        cost_model=options.cost_model,
        solver=options.solver,
        schedule=options.schedule,
        weights=options.weights,
        time_limit=options.time_limit,
        gap=options.gap,
        threads=options.threads,
        seed=options.seed,
    )
    import_seconds = time.process_time() - started
    with Interruption() as interruption:
        with ProgressBar(shown=not options.quiet) as progress:
            try:
                result = pipeline.compile_network(
                    network, chip, chosen, progress=progress, should_stop=interruption.requested
                )
            except CmswitchError as error:
                if not interruption.requested():
                    raise
                raise KeyboardInterrupt(interruption.exit_code) from error
        from cmswitch.report import build_report, summary

        total_seconds = time.process_time() - started + result.seconds_elsewhere
        report = build_report(network, chip, _deciding(options, result), result, import_seconds, total_seconds)
        if folder is not None:
            folder.write(_solve_files(result, chip, report.to_json()))
    if not options.quiet:
        for warning in report.warnings:
            print(f"warning: {warning}", file=sys.stderr)
    print(report.to_json() if options.json else summary(report), end="")
    if interruption.requested():
        where = f"it is in {options.out}" if options.out else "not written, as there is no --out"
        print(f"cmswitch: interrupted; this is the best plan so far, {where}", file=sys.stderr)
        return interruption.exit_code
    return EXIT_DONE


def _deciding(options: SolveOptions, result: Result) -> dict[str, object]:
    """Everything that decided the result, as the report states it."""
    return {
        "model": options.network.model,
        **_sizes(options.network),
        "values": options.network.values,
        "hw": options.chip,
        "cost_model": options.cost_model,
        "formulation": options.formulation,
        "solver": options.solver,
        "schedule": options.schedule,
        "schedule_used": result.schedule_used,
        "objective": options.objective,
        "weights": result.weights,
        "phase": options.phase,
        "prefetch": False,
        "time_limit": options.time_limit,
        "gap": options.gap,
        "threads": options.threads,
        "seed": options.seed,
        "versions": {
            "cmswitch": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _DECIDING_PACKAGES},
        },
    }


def _sizes(given: ModelOptions) -> dict[str, object]:
    """What bound the symbolic dimensions, defaults of the zoo included."""
    from cmswitch.graph.zoo import ZOO, ZOO_PREFIX

    entry = ZOO.get(given.model.removeprefix(ZOO_PREFIX)) if given.model.startswith(ZOO_PREFIX) else None
    defaults = {name: size for name, size in (entry.defaults if entry else {}).items() if name not in given.dims}
    return {
        "dims": given.dims,
        "batch": defaults.get("batch") if given.batch is None else given.batch,
        "seq": defaults.get("seq") if given.sequence is None else given.sequence,
    }


def _solve_files(result: Result, chip: Chip, report: str) -> dict[str, str]:
    from cmswitch.program.text import format_program

    timing = result.timing
    if timing.trace is None:
        from cmswitch import simulator

        timing = simulator.simulate(result.program, chip, trace=True)
    texts = (result.plan.to_json(), format_program(result.program), report, json.dumps(timing.trace))
    return dict(zip(SOLVE_FILES, texts, strict=True))


def load_chip(name: str) -> Chip:
    """A chip from a file or preset. Raises InputError with everything that is wrong in it."""
    import hw

    try:
        return hw.load_chip(name)
    except hw.ChipError as error:
        raise InputError(str(error)) from error


def load_network(options: ModelOptions) -> Network:
    """A network from a file or the zoo. Raises InputError."""
    from cmswitch import graph

    return graph.load_network(
        options.model, dims=options.dims, batch=options.batch, seq=options.sequence, values=options.values
    )


def simulate(program: Path, chip_name: str, out: Path | None, as_json: bool) -> int:
    """Execute a program file on the timing simulator and print what it measured."""
    folder = OutputFolder(out, (TRACE,), [program]) if out else None
    chip = load_chip(chip_name)
    text = _read_text(program, PROGRAM)

    from cmswitch import simulator
    from cmswitch.program.text import parse_program

    with _naming(program, PROGRAM):
        parsed = parse_program(text)
    _require_chip(program, parsed, chip, chip_name)
    timing = simulator.simulate(parsed, chip, trace=folder is not None)
    if folder is not None:
        folder.write({TRACE: json.dumps(timing.trace)})
    if as_json:
        measured = dataclasses.asdict(dataclasses.replace(timing, trace=None))
        del measured["trace"]
        print(json.dumps({"program": parsed.network, "chip": chip.name, **measured}, indent=2))
    else:
        microseconds = timing.total_cycles / float(chip.clock_mhz)
        print(f"{parsed.network} on {chip.name}: {quantity(timing.total_cycles, 'cycle')}, {microseconds:,.1f} us")
    return EXIT_DONE


def _require_chip(path: Path, compiled: Plan | Program, chip: Chip, chip_name: str) -> None:
    """Raise InputError if the plan or program at ``path`` is not for ``chip``, which ``chip_name`` describes."""
    if compiled.chip_sha256 != chip.sha256:
        raise InputError(
            f"{path}: compiled for chip '{compiled.chip}' of sha256 {compiled.chip_sha256[:12]}, but --hw {chip_name} describes "
            f"'{chip.name}' of sha256 {chip.sha256[:12]}; give the description that it was compiled for, as it was then"
            f"{_recorded_chip(path)}, or compile the network again with `cmswitch solve MODEL --hw {chip_name} --out DIR`"
        )


def _recorded_chip(path: Path) -> str:
    """What the report beside a plan or program says that its chip was; empty if there is none."""
    from cmswitch.report import read_origin

    recorded = path.parent / REPORT
    try:
        return f" ({recorded} says --hw {read_origin(_read_text(recorded, REPORT), str(recorded))[1]})"
    except InputError:
        return ""


def check(plan: Path, model: ModelOptions | None, chip_name: str | None, as_json: bool) -> int:
    """Recompute every constraint and cost of a plan file. Returns 0 if all hold and 1, with a line for each, if not.

    ``model`` and ``chip_name`` default to what ``report.json`` in the plan's folder says. Raises InputError if the plan is for
    another network or chip.
    """
    from cmswitch.report import read_origin

    text = _read_text(plan, PLAN)
    recorded = plan.parent / REPORT
    if model is None or chip_name is None:
        if not recorded.is_file():
            raise InputError(
                f"{plan}: there is no report.json beside it that names its network and chip; give --model and --hw"
            )
        recorded_model, recorded_chip = read_origin(_read_text(recorded, REPORT), str(recorded))
        model, chip_name = model or recorded_model, chip_name or recorded_chip
    chip = load_chip(chip_name)

    from cmswitch.checker import check_plan, load_plan

    with _naming(plan, PLAN):
        parsed = load_plan(text)
    _require_chip(plan, parsed, chip, chip_name)
    network = load_network(model)
    if parsed.network != network.name:
        raise InputError(
            f"{plan}: compiled from network '{parsed.network}', not '{network.name}'; give --model the file or zoo:NAME it "
            "was compiled from"
        )
    found = check_plan(parsed, network, chip)
    violations = [str(violation) for violation in found.violations]
    if as_json:
        print(json.dumps({"plan": str(plan), "passed": not violations, "violations": violations}, indent=2))
    elif violations:
        print(f"{plan}: broken rules: {len(violations)}", *violations, sep="\n  ")
    else:
        print(f"{plan}: every constraint holds and every cost is as stated")
    return EXIT_FAILED_CHECK if violations else EXIT_DONE


def verify(options: VerifyOptions) -> int:
    """Compile, execute the program on numbers, print how they compare. Returns 1 if an operator is not exact without --adc."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise InputError("verify compares with onnxruntime, which is not installed; pip install 'cmswitch[verify]'")
    chip = load_chip(options.chip)

    from cmswitch import pipeline
    from cmswitch.verification import report
    from cmswitch.verification.numeric import Numeric
    from cmswitch.verification.verify import Settings, verify

    with ProgressBar(shown=not options.quiet) as progress:
        progress.announce(f"reading {options.network.model}")
        numeric = Numeric(options.network, options.seed)
    log.info("network %s: %d operators", numeric.network.name, len(numeric.network.operators))
    chosen = pipeline.Options(schedule=options.schedule, gap=options.gap, time_limit=options.time_limit)
    with ProgressBar(shown=not options.quiet) as progress:
        result = pipeline.compile_network(numeric.network, chip, chosen, progress=progress)
    settings = Settings(options.seed, options.inputs, options.calibration, options.adc, options.layers, options.sample)
    with StepBar(shown=not options.quiet) as steps:
        found = verify(numeric, result.program, result.workload.network, chip, settings, steps)
    if options.json:
        asked = {
            "model": options.network.model,
            **_sizes(options.network),
            "values": options.network.values,
            "hw": options.chip,
            "chip_sha256": chip.sha256,
            "schedule": options.schedule,
            "schedule_used": result.schedule_used,
            "gap": options.gap,
            "inputs": None if options.inputs is None else str(options.inputs),
            "seed": options.seed,
            "calibration": options.calibration,
            "adc": options.adc,
            "layers": options.layers,
            "sample": options.sample,
        }
        print(report.to_json(found, asked), end="")
    else:
        segments = len(result.program.segments)
        title = f"program      {numeric.network.name} on {chip.name}, {result.schedule_used}, {quantity(segments, 'segment')}"
        print(report.to_text(found, title, operators=not options.quiet), end="")
    return EXIT_DONE if found.exact or (options.adc != "off" and found.error is None) else EXIT_FAILED_CHECK


def inspect(options: ModelOptions, as_json: bool) -> int:
    """Print the operators of a network, their sizes, and what runs on the arrays, the vector unit and the host."""
    from cmswitch.listing import network_json, network_table

    network = load_network(options)
    print(network_json(network) if as_json else network_table(network), end="")
    return EXIT_DONE


def validate_chip(name: str) -> int:
    """Say that a chip file is valid, or raise InputError with everything that is wrong in it."""
    chip = load_chip(name)
    print(f"{name}: valid; {chip.name}, {quantity(chip.arrays, 'array')} of {chip.array.rows} x {chip.array.columns}")
    return EXIT_DONE


def print_chip_schema() -> int:
    """Print the JSON Schema of chip files."""
    import hw

    print(json.dumps(hw.json_schema(), indent=2))
    return EXIT_DONE


@contextlib.contextmanager
def _naming(path: Path, name: str) -> Iterator[None]:
    """Put the file's name in front of the message of an InputError about its text. See :func:`_instead` for ``name``."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{path}: {error}{_instead(path, name)}") from error


def _read_text(path: Path, name: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file (byte {error.start} is not UTF-8){_instead(path, name)}") from error
    except OSError as error:
        hint = _instead(path, name) or f"; `cmswitch solve MODEL --hw CHIP --out DIR` writes DIR/{name}"
        raise InputError(f"{path}: cannot read: {error.strerror}{hint}") from error


def _instead(path: Path, name: str) -> str:
    """The file ``name`` of ``cmswitch solve`` in or beside ``path``, to give instead of it; empty if there is none."""
    other = (path if os.path.isdir(path) else path.parent) / name
    return f"; give {other} instead" if other != path and os.path.isfile(other) else ""
