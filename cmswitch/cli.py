"""The command ``cmswitch``: parse, run, and turn whatever goes wrong into a short message and an exit code.

Exit codes: 0 done; 1 no feasible plan (or a check that failed); 2 bad input or usage; 3 a solver is missing or failed;
70 an error in this program; 130 interrupted (143: by SIGTERM); 141 whoever reads stdout is gone.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from cmswitch import options as opt
from cmswitch.errors import CmswitchError
from cmswitch.naming import nearest
from cmswitch.start import INTERRUPTED
from cmswitch.version import __version__

EXIT_BAD_INPUT = 2
EXIT_INTERNAL = 70
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141

_EPILOG = (
    "Exit codes: 0 done, 1 no feasible plan, 2 bad input or usage, 3 solver missing or failed, 130 or 143 interrupted."
)


class UsageError(Exception):
    """The command line cannot be understood; ``str(error)`` is what to print."""


class _Parser(argparse.ArgumentParser):
    """argparse without abbreviations and exits, and with the nearest word for a misspelt command or option."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, **settings)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self.prog}: error: {message}\nsee '{self.prog} --help'")

    def parse_known_args(self, args=None, namespace=None):  # type: ignore[no-untyped-def]
        found, extra = super().parse_known_args(args, namespace)
        if extra:
            word = extra[0]
            name = word.split("=")[0]
            known = [o for action in self._actions for o in action.option_strings]
            similar = difflib.get_close_matches(name, known, n=1) if name.startswith("-") else []
            self.error(f"unexpected argument '{word}'" + (f" (did you mean '{similar[0]}'?)" if similar else ""))
        return found, extra

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if action.choices is not None and value not in action.choices:
            self.error(f"unknown command '{value}'{nearest(str(value), map(str, action.choices))}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command (default: ``sys.argv``) and return its exit code. Raises nothing, exits nothing."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    verbose = "-v" in arguments or "--verbose" in arguments
    try:
        code = _run(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except UsageError as error:
        return _fail(str(error), EXIT_BAD_INPUT, verbose=False)
    except CmswitchError as error:
        return _fail(f"cmswitch: error: {error}", error.exit_code, verbose)
    except BrokenPipeError:
        _discard_stdout()
        return EXIT_BROKEN_PIPE
    except OSError as error:
        name = f" '{error.filename}'" if error.filename else ""
        _discard_stdout()
        return _fail(f"cmswitch: error:{name} {error.strerror or error}", EXIT_BAD_INPUT, verbose)
    except KeyboardInterrupt as interrupt:
        code = interrupt.args[0] if interrupt.args else EXIT_INTERRUPTED
        return _fail(INTERRUPTED, code, verbose=False)
    except Exception as error:
        text = " ".join(str(error).split())
        return _fail(
            f"cmswitch: internal error: {type(error).__name__}: {text}\n"
            "this is a defect of cmswitch; run again with -v and report the traceback",
            EXIT_INTERNAL,
            verbose,
        )


def _run(arguments: Sequence[str]) -> int:
    try:
        given = parser().parse_args(arguments)
    except SystemExit as leave:  # --help and --version, which argparse has printed
        return int(leave.code or 0)
    from cmswitch import commands

    commands.set_up_logging(getattr(given, "verbose", False), quiet=getattr(given, "quiet", False))
    match given.command:
        case "solve":
            return commands.solve(_solve_options(given))
        case "simulate":
            return commands.simulate(given.program, given.hw, given.out, given.json)
        case "check":
            if given.model is None and (given.dim or given.value or given.batch or given.seq):
                raise UsageError(
                    "cmswitch check: error: --dim, --value, --batch and --seq need --model\nsee 'cmswitch check --help'"
                )
            return commands.check(given.plan, _model_options(given) if given.model else None, given.hw, given.json)
        case "verify":
            return commands.verify(_verify_options(given))
        case "inspect":
            return commands.inspect(_model_options(given), given.json)
        case "hw" if given.hw_command == "validate":
            return commands.validate_chip(given.file)
        case _:
            return commands.print_chip_schema()


def _fail(message: str, code: int, verbose: bool) -> int:
    if verbose:
        traceback.print_exc(file=sys.stderr)
    with contextlib.suppress(OSError):  # nobody can be told when stderr is gone too
        print(message, file=sys.stderr)
    return code


def _discard_stdout() -> None:
    """Let the interpreter's last flush of a stdout that cannot be written succeed."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def parser() -> argparse.ArgumentParser:
    """The whole grammar of the command line."""
    top = _Parser(
        prog="cmswitch", description="Compile networks for dual-mode compute-in-memory chips.", epilog=_EPILOG
    )
    top.add_argument("--version", action="version", version=f"cmswitch {__version__}")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    _add_solve(commands)

    simulate = commands.add_parser("simulate", help="execute a program on a chip's timing simulator")
    simulate.add_argument("program", metavar="PROGRAM", type=Path, help="a program.mop file")
    _add_chip(simulate)
    simulate.add_argument("--out", metavar="DIR", type=opt.folder, help="write trace.json (opens in Perfetto)")
    _add_output(simulate)

    check = commands.add_parser("check", help="recompute every constraint and cost of a plan")
    check.add_argument("plan", metavar="PLAN", type=Path, help="a plan.json file")
    check.add_argument("--model", metavar="MODEL", help="its network (default: what report.json beside the plan names)")
    check.add_argument("--hw", metavar="CHIP", help="its chip (default: likewise)")
    _add_sizes(check)
    _add_output(check)

    _add_verify(commands)

    inspect = commands.add_parser("inspect", help="operators, shapes and MACs of a network, and what runs where")
    _add_model(inspect)
    _add_output(inspect)

    hardware = commands.add_parser("hw", help="chip descriptions")
    verbs = hardware.add_subparsers(dest="hw_command", metavar="COMMAND", required=True, parser_class=_Parser)
    validate = verbs.add_parser("validate", help="list everything that is wrong with a chip file")
    validate.add_argument("file", metavar="FILE", help="a YAML file or the name of a preset")
    _add_verbose(validate)
    _add_verbose(verbs.add_parser("schema", help="print the JSON Schema of chip files, for editors"))
    return top


def _add_solve(commands: argparse._SubParsersAction[_Parser]) -> None:
    solve = commands.add_parser(
        "solve",
        help="compile a network: plan, program, simulated latency",
        description="Find an optimal dual-mode plan for a network on a chip, lower it to a program and simulate that.",
        epilog=_EPILOG,
    )
    _add_model(solve)
    _add_chip(solve)
    add = solve.add_argument
    add(
        "--cost-model",
        type=opt.choice(opt.COST_MODELS),
        default="machine",
        metavar="|".join(opt.COST_MODELS),
        help="what a segment costs: machine (default, the machine model) or eq10, the published CMSwitch equations",
    )
    add(
        "--formulation",
        type=opt.choice(opt.FORMULATIONS),
        default="auto",
        metavar="NAME",
        help="which program: " + ", ".join(opt.FORMULATIONS),
    )
    add(
        "--solver",
        type=opt.choice(opt.SOLVERS),
        default="auto",
        metavar="NAME",
        help="which backend: " + ", ".join(opt.SOLVERS),
    )
    add(
        "--schedule",
        type=opt.choice(opt.SCHEDULES, opt.LATER_SCHEDULES),
        default="dual-mode",
        metavar="|".join(opt.SCHEDULES),
        help="dual-mode (default) or a baseline on the same chip and simulator",
    )
    add("--level", type=opt.not_yet("there is no multi-level scheduler to stop early"), help=argparse.SUPPRESS)
    add(
        "--objective",
        type=opt.choice(opt.OBJECTIVES, opt.LATER_OBJECTIVES),
        default="latency",
        metavar="|".join(opt.OBJECTIVES),
        help="what is minimised (default: latency)",
    )
    add(
        "--weights",
        type=opt.choice(opt.WEIGHTS),
        default=None,
        metavar="|".join(opt.WEIGHTS),
        help="whether the first weight write counts (cold) or not (default: cold on switchable chips, else resident)",
    )
    add(
        "--phase",
        type=opt.choice(opt.PHASES, opt.LATER_PHASES),
        default="prefill",
        metavar="|".join(opt.PHASES),
        help="language models: the phase to compile (default: prefill)",
    )
    add(
        "--past",
        type=opt.not_yet("it belongs to --phase decode, and this version has: prefill"),
        help=argparse.SUPPRESS,
    )
    add(
        "--no-prefetch",
        action="store_true",
        help="no weight writes during the previous segment (this version never makes any)",
    )
    add(
        "--time-limit",
        type=opt.seconds,
        metavar="S",
        help="search for S seconds, then return the best plan and its gap; on top comes what the search does not cover "
        "(reading the network, lowering, simulation), and the rest of a first plan that takes longer",
    )
    add("--gap", type=opt.relative_gap, default=1e-3, metavar="G", help="stop at this relative gap (default: 0.001)")
    add(
        "--threads",
        type=opt.whole_number(1, opt.MOST_THREADS),
        default=1,
        metavar="N",
        help="solver threads (default: 1)",
    )
    add("--seed", type=opt.whole_number(0, opt.LARGEST_SEED), default=0, metavar="N", help="solver seed (default: 0)")
    add(
        "--out",
        metavar="DIR",
        type=opt.folder,
        help="write plan.json, program.mop, report.json and trace.json (report.html is not in this version)",
    )
    _add_output(solve)
    add("--quiet", action="store_true", help="no progress bar and no warnings on stderr")


def _add_verify(commands: argparse._SubParsersAction[_Parser]) -> None:
    verify = commands.add_parser(
        "verify",
        help="execute the program of a network on numbers and compare it",
        description="Compile a network, execute its program on quantised numbers, and compare every matrix product with an "
        "integer reference (exactly) and the outputs with onnxruntime on floats.",
        epilog="Exit codes: 0 exact (with --adc: executed), 1 not exact or no feasible plan, 2 bad input or usage.",
    )
    _add_model(verify)
    _add_chip(verify)
    add = verify.add_argument
    add("--schedule", type=opt.choice(opt.SCHEDULES), default="dual-mode", metavar="|".join(opt.SCHEDULES))
    add("--gap", type=opt.relative_gap, default=0.05, metavar="G", help="gap of the plan (default: 0.05)")
    add("--time-limit", type=opt.seconds, metavar="S", help="search for a plan for S seconds at most, as for solve")
    add("--inputs", metavar="FILE", type=Path, help="an .npz with an array for each network input (default: generated)")
    add("--seed", type=opt.whole_number(0, opt.LARGEST_SEED), default=0, metavar="N", help="of generated numbers")
    add(
        "--calibration",
        type=opt.choice(opt.CALIBRATIONS),
        default="minmax",
        metavar="|".join(opt.CALIBRATIONS),
        help="how the range of an activation is found (default: minmax)",
    )
    add(
        "--adc",
        type=opt.choice(opt.ADCS),
        default="off",
        metavar="|".join(opt.ADCS),
        help="converters of array.adc_bits: off (default, exact), clip (a level per unit) or round (levels cover all sums)",
    )
    add("--layers", type=opt.whole_number(1, opt.MOST_LAYERS), metavar="N", help="only the first N matrix products")
    add(
        "--sample",
        type=opt.whole_number(1, opt.MOST_LAYERS),
        metavar="N",
        help="only N rows of each matrix product, on inputs from the network on floats; outputs are not compared",
    )
    _add_output(verify)
    add("--quiet", action="store_true", help="no progress bar and no table of operators")


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", metavar="MODEL", help="an ONNX file, or zoo:NAME for a network built on the spot")
    _add_sizes(command)


def _add_sizes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--dim",
        type=opt.dimension,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="size of a symbolic dimension (repeatable); 0 for a cache that is still empty",
    )
    command.add_argument(
        "--value",
        type=opt.constant,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="make a network input a constant, all of whose elements are the number VALUE (repeatable)",
    )
    size = opt.whole_number(1, opt.LARGEST_DIMENSION)
    command.add_argument("--batch", type=size, metavar="N", help="size of the batch dimension")
    command.add_argument("--seq", type=size, metavar="N", help="size of the sequence dimension")


def _add_chip(command: argparse.ArgumentParser) -> None:
    command.add_argument("--hw", metavar="CHIP", required=True, help="a YAML file or the name of a preset")


def _add_output(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print JSON alone on stdout")
    _add_verbose(command)


def _add_verbose(command: argparse.ArgumentParser) -> None:
    command.add_argument("-v", "--verbose", action="store_true", help="log what happens; show tracebacks of errors")


def _model_options(given: argparse.Namespace) -> opt.ModelOptions:
    try:
        dims, values = opt.together("--dim", given.dim), opt.together("--value", given.value)
        return opt.ModelOptions(given.model, dims, given.batch, given.seq, values)
    except argparse.ArgumentTypeError as error:
        name = f"cmswitch {given.command}"
        raise UsageError(f"{name}: error: {error}\nsee '{name} --help'") from None


def _solve_options(given: argparse.Namespace) -> opt.SolveOptions:
    return opt.SolveOptions(
        network=_model_options(given),
        chip=given.hw,
        cost_model=given.cost_model,
        formulation=given.formulation,
        solver=given.solver,
        schedule=given.schedule,
        objective=given.objective,
        weights=given.weights,
        phase=given.phase,
        time_limit=given.time_limit,
        gap=given.gap,
        threads=given.threads,
        seed=given.seed,
        out=given.out,
        json=given.json,
        quiet=given.quiet,
        verbose=given.verbose,
    )


def _verify_options(given: argparse.Namespace) -> opt.VerifyOptions:
    return opt.VerifyOptions(
        network=_model_options(given),
        chip=given.hw,
        schedule=given.schedule,
        gap=given.gap,
        time_limit=given.time_limit,
        inputs=given.inputs,
        seed=given.seed,
        calibration=given.calibration,
        adc=given.adc,
        layers=given.layers,
        sample=given.sample,
        json=given.json,
        quiet=given.quiet,
        verbose=given.verbose,
    )


if __name__ == "__main__":
    sys.exit(main())
