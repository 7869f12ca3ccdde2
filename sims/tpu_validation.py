"""How far simulated time lies from measured time, on TPU v1, v3, v6e and v7.

    python sims/tpu_validation.py                   # errors per device
    python sims/tpu_validation.py --rows            # and one line per measured row
    python sims/tpu_validation.py --picture F.png   # predicted over measured time of every row
    python sims/tpu_validation.py --data FOLDER     # other rows, in files of the same names and columns

Error of a row = |simulated - measured| / measured; MAPE is their mean, mean the signed one. The clocks of
the files differ, so nothing is averaged across them. The chips are the catalogue's: each number has its
source there, and none was fitted to these rows, but two constants of the serving stack of the last table,
fitted on two rows and judged on the others.

Beside ours stand a roofline with the same chip numbers, each op at max(MACs / peak, bytes of its operands /
sustained bandwidth); for the chained matmuls another one with two fitted constants, the peak and the
bandwidth that suit the rows best; and the best of the tools whose predictions the sources print. A model
that does not beat the roofline has a mechanism wrong. `fidelity/` says how each row was run,
`systolic/measured/shipped/sources.toml` where it comes from, `ablation.py` what each mechanism contributes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

from fidelity import tpu_v1, tpu_v3, tpu_v6e, tpu_v7
from fidelity.picture import draw

import systolic
from systolic.measured.points import Point, fitted_roofline
from systolic.measured.tables import by_kind, row_table, summary


def v1_lines(apps: list[tpu_v1.App]) -> Iterable[str]:
    """Counters of the matrix unit, and the paper's what-ifs."""
    if not apps:
        yield "no rows"
        return
    peak = 2 * systolic.load_chip("tpu-v1").peak_macs_per_s("int8") / 1e12
    small, large = tpu_v1.steps(256), tpu_v1.steps(512)
    yield f"peak {peak:.2f} TOPS (92); 600 x 600 takes {small} steps (9), {large} on 512 x 512 PEs (4)"
    yield f"{'share of matrix cycles, %':<25}  stall  measured  off by       active        shift"
    for app in apps:
        ours, real = app.simulated, app.measured
        if real is None:
            yield f"{app.name:<25} {ours.stall:6.1f} {'':17} {ours.active:12.1f} {ours.shift:12.1f}"
            continue
        pairs = (f"{a:5.1f} ({b:.1f})" for a, b in ((ours.active, real.active), (ours.shift, real.shift)))
        figures = f"{ours.stall:6.1f} {real.stall:9.1f} {ours.stall - real.stall:+7.1f}"
        yield f"{app.name:<25} {figures} {' '.join(f'{pair:>12}' for pair in pairs)}"
    yield ""
    yield f"{'times as fast with 4 x':<25} {'bandwidth':>10} {'clock':>10}"
    mean = dict.fromkeys(tpu_v1.FOUR_TIMES, 0.0)
    for app in apps:
        faster = {what: app.faster(what) for what in mean}
        mean = {what: mean[what] + app.weight * faster[what] for what in mean}
        yield f"{app.name:<25} {faster['bandwidth']:10.2f} {faster['clock']:10.2f}"
    total = sum(app.weight for app in apps)
    yield f"{'mean, as deployed':<25} {mean['bandwidth'] / total:10.2f} {mean['clock'] / total:10.2f}"


def point_lines(points: list[Point], show_rows: bool) -> Iterable[str]:
    """Errors of a device's rows, nothing fitted."""
    if not points:
        return ["no rows"]
    return [*summary(by_kind(points)), *(row_table(points) if show_rows else [])]


def matmul_lines(points: list[Point], show_rows: bool) -> Iterable[str]:
    """Chained matmuls of TPU v6e, beside a roofline that is fitted to them."""
    if not points:
        return ["no rows"]
    rate, bandwidth = fitted_roofline(points)
    fitted = {"2 constants": lambda point: point.work.roofline(rate, bandwidth)}
    return [
        *summary(by_kind(points), fitted),
        f"2 constants: {100 * rate:.0f}% of the peak, {100 * bandwidth:.0f}% of the sustained bandwidth",
        *(row_table(points) if show_rows else []),
    ]


def step_lines(steps: list[tpu_v6e.Step], show_rows: bool) -> Iterable[str]:
    """Forward passes and decode steps of Qwen3-8B, as they are and with the serving stack's two constants."""
    if not steps:
        return ["no rows"]
    ours, theirs = tpu_v6e.fitted(), tpu_v6e.fitted(by_roofline=True)
    points, served = [step.point for step in steps], tpu_v6e.served(steps, ours)
    tokens = {step.point.name: step.tokens for step in steps}
    judged = [p for p, step in zip(served, steps, strict=True) if step.key not in tpu_v6e.FITTED_ON]
    same = {"with its own": lambda point: point.work.roofline() + theirs.seconds(tokens[point.name])}
    return [
        "as simulated:",
        *summary(by_kind(points)),
        f"with {1e6 * ours.per_layer:.0f} us per layer and {1e9 * ours.per_token:.0f} ns per layer and token "
        "of the serving stack, on the rows that these were not fitted on:",
        *summary(by_kind(judged), same),
        *(row_table(served) if show_rows else []),
    ]


def main() -> None:
    """Print the comparison."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", action="store_true", help="print each measured row too")
    parser.add_argument("--picture", type=Path, help="draw predicted over measured time into this file")
    parser.add_argument("--data", type=Path, help="folder of other measured files; default: those that ship")
    given = parser.parse_args()
    v3, v6e = tpu_v3.points(given.data), tpu_v6e.matmuls(given.data)
    steps, v7 = tpu_v6e.steps(given.data), tpu_v7.matmuls(given.data)
    sections = {
        "TPU v1; on-chip counters": v1_lines(tpu_v1.apps(given.data)),
        "TPU v3, one core, float32; device cycles": point_lines(v3, given.rows),
        "TPU v6e, bf16 matmuls; device time, chained": matmul_lines(v6e, given.rows),
        "TPU v6e, Qwen3-8B under vLLM; device busy time per step": step_lines(steps, given.rows),
        "TPU v7, one chiplet, and TPU v6e, bf16 matmuls; kernel time": point_lines(v7, given.rows),
    }
    print("\n\n".join("\n".join([title, *lines]) for title, lines in sections.items()))
    if given.picture is not None:
        passes = [step.point for step in steps]
        panels = {"TPU v3, one core": v3, "TPU v6e, matmuls": v6e, "TPU v6e, Qwen3-8B": passes, "TPU v7": v7}
        draw(panels, given.picture)


if __name__ == "__main__":
    main()
