"""What a verification found, as JSON and as text."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterator

from cmswitch.functional.compare import Difference
from cmswitch.verification.results import Checked, Output, Verification

SCHEMA = 1


def to_json(found: Verification, header: dict[str, object]) -> str:
    """Everything; ``header`` says what was verified and how. Ratios that are infinite are left out as null."""
    content = {
        "schema": SCHEMA,
        **header,
        "exact": found.exact,
        "error": found.error,
        "first_deviation": found.first_deviation,
        "worst": found.worst,
        "outputs": [dataclasses.asdict(output) for output in found.outputs],
        "importer_error": found.float_error,
        "operators": [_operator(operator) for operator in found.operators],
    }
    return json.dumps(content, indent=2) + "\n"


def _operator(operator: Checked) -> dict[str, object]:
    differences = {name: _difference(getattr(operator, name)) for name in ("integers", "own", "floats")}
    return {
        "name": operator.name,
        "product": operator.product,
        "status": operator.status,
        **differences,
        "reason": operator.reason,
    }


def _difference(found: Difference | None) -> dict[str, float | None] | None:
    if found is None:
        return None
    ratio = found.sqnr_db if found.sqnr_db is not None and math.isfinite(found.sqnr_db) else None
    return {"max": found.largest, "mean": found.mean, "sqnr_db": ratio}


def to_text(found: Verification, title: str, operators: bool) -> str:
    """A summary, with a line for each operator if ``operators``."""
    lines = [title, *_integers(found), *map(_output, found.outputs)]
    if found.float_error is not None:
        lines.append(f"importer     nodes one by one differ from onnxruntime on the file by {found.float_error:.1e}")
    missing = [o for o in found.operators if o.status == "not executed"]
    lines += [f"not executed {o.name}: {o.reason}" for o in missing]
    if operators:
        width = max(map(len, ("operator", *(o.name for o in found.operators))))
        lines += ["", f"{'operator':{width}}  status        SQNR dB   max error  mean error"]
        lines += [_row(o, width) for o in found.operators]
    return "\n".join(lines) + "\n"


def _integers(found: Verification) -> Iterator[str]:
    products = [o for o in found.operators if o.product and o.status != "not executed"]
    wrong = [o for o in products if o.integers is not None]
    if found.error is not None:
        yield f"program      stopped: {found.error}"
    if not wrong and found.exact:
        yield f"integers     exact: {len(products)} of {len(products)} products equal the integer reference"
        return
    yield f"integers     {len(wrong)} of {len(products)} products differ from the integer reference"
    if found.first_deviation is not None:
        yield f"             first to deviate: {found.first_deviation}"
    worst = next((o for o in found.operators if o.name == found.worst), None)
    if worst is not None and worst.own is not None and worst.own.sqnr_db is not None:
        yield f"             worst by its own arrays: {worst.name}, {worst.own.sqnr_db:.1f} dB"


def _output(output: Output) -> str:
    shares = ((1, output.top1), (5, output.top5))
    tops = "".join(f", top-{n} {100 * share:.1f} %" for n, share in shares if share is not None)
    return f"output       {output.name}: cosine {output.cosine:.6f}, largest error {output.largest:.4g}{tops}"


def _row(operator: Checked, width: int) -> str:
    floats = operator.floats
    if floats is None:
        return f"{operator.name:{width}}  {operator.status}"
    ratio = "-" if floats.sqnr_db is None else f"{floats.sqnr_db:.1f}"
    return f"{operator.name:{width}}  {operator.status:12}  {ratio:>7}  {floats.largest:10.4g}  {floats.mean:10.4g}"
