"""The examples of README.md and docs/ run as shown. CONTRIBUTING.md has the rules (*Examples in the documentation*)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
SOLVER_ONLY = ROOT / "docs" / "formulations.md"
NOT_NEEDED = ("onnx", "pydantic", "ruamel", "simpy", "networkx", "tqdm")
FENCE = re.compile(r"^```(python|console)[ \t]*(no-run)?[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Example:
    """One fenced block: where it starts, its language and its lines."""

    page: Path
    line: int
    language: str
    text: str


def examples(page: Path) -> list[Example]:
    """All blocks of a page that are to be executed."""
    text = page.read_text(encoding="utf-8")
    return [
        Example(page, text.count("\n", 0, match.start()) + 1, match[1], match[3])
        for match in FENCE.finditer(text)
        if not match[2]
    ]


def matches(expected: str, actual: str) -> bool:
    """Whether the output is as printed on the page; ``...`` stands for any text, runs of blanks are equal."""
    parts = [re.escape(" ".join(part.split())) for part in expected.split("...")]
    return (
        re.fullmatch(r"\s*.*?\s*".join(p.replace(r"\ ", r"\s+") for p in parts), " ".join(actual.split())) is not None
    )


def commands(text: str) -> list[tuple[str, str]]:
    """The commands of a console block (lines that start with ``$``) with the output that follows each."""
    found: list[tuple[str, str]] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], ""))
        elif found and found[-1][0].endswith("\\"):
            found[-1] = (found[-1][0] + "\n" + line, "")
        else:
            assert found, f"output before the first command: {line!r}"
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The current one, in which ``cmswitch`` and ``python`` are this tree and this interpreter, installed or not."""
    folder = tmp_path_factory.mktemp("bin")
    for name, arguments in (("cmswitch", "-m cmswitch "), ("python", "")):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n', encoding="utf-8")
        script.chmod(0o755)
    path = os.pathsep.join([str(folder), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def without_compiler(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which only what the solvers need can be imported."""
    folder = tmp_path_factory.mktemp("absent")
    for name in NOT_NEEDED:
        (folder / f"{name}.py").write_text(
            f"raise ImportError('{name} is not part of this environment')", encoding="utf-8"
        )
    return {**environment, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_examples_run_as_shown(
    page: Path, tmp_path: Path, environment: dict[str, str], without_compiler: dict[str, str]
) -> None:
    env = without_compiler if page == SOLVER_ONLY else environment
    for example in examples(page):
        where = f"{page.relative_to(ROOT)}:{example.line}"
        if example.language == "python":
            steps = [([sys.executable, "-c", example.text], expected_of_python(example.text))]
        else:
            steps = [(["bash", "-c", command], output) for command, output in commands(example.text)]
        for command, expected in steps:
            done = subprocess.run(
                command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False, timeout=300
            )
            assert done.returncode == 0, f"{where}: {command[-1]}\nexit {done.returncode}\n{done.stderr}"
            if expected.strip():
                assert matches(expected, done.stdout), (
                    f"{where}: {command[-1]}\nprinted\n{done.stdout}\ninstead of\n{expected}"
                )


def expected_of_python(text: str) -> str:
    """What a Python block prints: the comments ``# prints: ...``, in order."""
    return "\n".join(match[1] for match in re.finditer(r"# prints: (.*)$", text, re.MULTILINE))


def test_what_the_commands_write_into_a_clone_is_ignored() -> None:
    """A reader may run them at the root of the repository."""
    lines = [line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("$ ")]
    written = set(re.findall(r"(?:--out|>) +([\w.]+)", "\n".join(lines)))
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert "result" in written
    assert {name for name in written if not {f"/{name}", f"/{name}/"} & set(ignored)} == set()


def test_the_compiler_is_absent(without_compiler: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import cmswitch.graph.read"],
        env=without_compiler,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1 and "onnx is not part of this environment" in done.stderr


def test_the_rules_themselves() -> None:
    assert matches("total ... cycles\n", "total   12 cycles\n")
    assert not matches("total ... cycles", "total 12")
    assert commands("$ a \\\n  b\nout\n$ c\n") == [("a \\\n  b", "out\n"), ("c", "")]
    assert expected_of_python("print(1)  # prints: 1\nprint(2)  # prints: 2") == "1\n2"
