"""Write the DRAM accesses of a matmul for another simulator: DRAMsim3 or Ramulator 2.

python sims/dram_trace.py gpt2 mlp.up --on tpu-v4 -o mlp-up.trace
python sims/dram_trace.py 1024,768,768 --on tpu-v1 --style ramulator2 -o gemm.trace
"""

from __future__ import annotations

import argparse
import sys

import systolic
from systolic.machines import tpu
from systolic.machines.base import Options
from systolic.machines.tpu.dram_trace import STYLES, TraceSize, write_trace
from systolic.quantity import format_bytes
from systolic.workload import Workload


def matmul(model: str, name: str | None, chip: systolic.Chip, seq: int | None) -> systolic.Gemm:
    """The named matmul of a model, or the one given as M,N,K."""
    if "," in model:
        m, n, k = (int(side) for side in model.split(","))
        return systolic.Gemm(m=m, n=n, k=k, dtype=chip.native_dtype, name="gemm")
    gemms = {op.name: op for op in systolic.load_model(model, seq=seq).ops if isinstance(op, systolic.Gemm)}
    if name not in gemms:
        raise systolic.SystolicError(f"{model} has no matmul {name!r}; its matmuls: {', '.join(gemms)}")
    return gemms[name]


def announce(size: TraceSize) -> None:
    print(f"{size.accesses} accesses, at most {format_bytes(size.bytes)}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="a model of the catalogue, a config.json, or M,N,K")
    parser.add_argument("matmul", nargs="?", help="name of one of its matmuls")
    parser.add_argument("--on", default="tpu-v4", help="chip")
    parser.add_argument("--seq", type=int, help="tokens")
    parser.add_argument("--style", choices=STYLES, default="dramsim3")
    parser.add_argument("-o", required=True, metavar="FILE")
    given = parser.parse_args()
    try:
        chip = systolic.load_chip(given.on)
        gemm = matmul(given.model, given.matmul, chip, given.seq)
        (step,) = tpu.lower(Workload(name=gemm.name, ops=(gemm,), dtype=gemm.dtype), chip, Options())
        assert isinstance(step, tpu.GemmStep)
        write_trace(step, chip, given.o, style=given.style, announce=announce)
    except systolic.SystolicError as error:
        sys.exit(f"dram_trace: {error}")


if __name__ == "__main__":
    main()
