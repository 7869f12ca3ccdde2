"""What ships: each file with its provenance, each device with a chip that loads or a reason."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from systolic import SystolicError
from systolic.measured import sources
from systolic.measured.rows import read_rows
from systolic.measured.sources import SHIPPED, device_of, shipped_rows, shipped_sources
from systolic.measured.work import Warm, workload_of

ROOT = Path(__file__).parents[2]

# Rows of each file of the public collection, as its own table of contents counts them; of the source
# without a licence nine ship.
ROWS = {
    "llmcompass": 161,
    "neusight_gemm": 17583,
    "neusight_vector": 4982,
    "neusight_layer_ops": 1076,
    "neusight_models": 106,
    "aiconfigurator_gemm": 13063,
    "aiconfigurator_int8": 1055,
    "xla_gemm": 1862,
    "vidur_layer_ops": 7546,
    "llmservingsim_dense": 618,
    "deepbench_gemm": 1794,
    "deepgemm_h800_fp8": 26,
    "mgpusim_mi300a": 116,
    "cpu_faer_i5_11400": 50,
    "pytorchsim_tpuv3": 15,
    "tpu_v6e_gemm_device": 41,
    "tpu_v6e_qwen3_8b": 11,
    "tpu_v6e_v7_gemm": 9,
}


def test_every_file_has_its_provenance() -> None:
    told = tomllib.loads((SHIPPED / "sources.toml").read_text())
    files = {path.stem for path in SHIPPED.glob("*.csv")}
    assert files == {*ROWS, "tpu_v1_counters", "tpu_v1_workloads"}
    assert {*ROWS, "tpu_v1"} == {*told}
    for source in shipped_sources().values():
        for field in ("title", "where", "licence", "method", "left_out", "caveats"):
            assert len(getattr(source, field)) > 2, f"{source.id}: {field}"
        assert source.where.startswith("https://")
        assert not source.noise_pct or source.noise


@pytest.mark.parametrize("source", ROWS)
def test_every_row_is_there(source: str) -> None:
    found = read_rows(SHIPPED / f"{source}.csv")
    assert len(found.rows) == ROWS[source]
    assert found.notes == ()


def test_without_a_licence_only_the_traced_matmuls_ship() -> None:
    unlicensed = {key for key, source in shipped_sources().items() if source.licence.startswith("none")}
    assert unlicensed == {"tpu_v6e_gemm_device", "tpu_v6e_qwen3_8b", "tpu_v6e_v7_gemm"}
    assert {(row.clock, row.dtype) for row in shipped_rows("tpu_v6e_v7_gemm")} == {("kernel", "bf16")}


def test_every_device_has_a_chip_that_loads_or_a_reason() -> None:
    for name, entry in tomllib.loads((SHIPPED / "devices.toml").read_text()).items():
        device = device_of(name)
        if "why" in entry:
            with pytest.raises(SystolicError, match=entry["why"]):
                device.load()
        else:
            assert device.load().name == entry["chip"]
        assert not device.set or device.note, f"{name}: say how the part differs"
    with pytest.raises(SystolicError, match="no chip of the catalogue stands for device 'abacus'"):
        device_of("abacus").load()


def test_a_source_that_does_not_ship_is_refused() -> None:
    with pytest.raises(SystolicError, match="no measurements called 'xla_gem' ship with systolic; did"):
        shipped_rows("xla_gem")


def test_work_of_a_row_counts_what_the_source_ran() -> None:
    """A linear layer of NeuSight holds a bias; DeepBench's beta = 1 reads C; a batch has rhs of its own."""
    linear = next(row for row in shipped_rows("neusight_gemm") if row.op == "linear")
    gemm, bias = workload_of(linear).ops
    assert (gemm.m, gemm.n, gemm.k, gemm.precision) == (linear.m, linear.n, linear.k, "highest")
    assert bias.side_elements == linear.n
    read = next(row for row in shipped_rows("deepbench_gemm") if row.dtype == "fp32")
    gemm, add = workload_of(read).ops
    assert add.side_elements == read.m * read.n
    batched = next(row for row in shipped_rows("xla_gemm") if row.batch == 4)
    (gemm,) = workload_of(batched).ops
    assert (gemm.batch, gemm.rhs_kind) == (4, "activation")


def test_operands_lie_where_the_source_left_them() -> None:
    """Five copies of 16 MiB that take turns fit an L40S's 96 MiB, not an H100's 50; nor do 96 MiB in all."""
    row = replace(next(row for row in shipped_rows("aiconfigurator_gemm")), m=8, n=2048, k=4096)
    (gemm,) = workload_of(row, Warm(activations=True, weight_copies=5, cache_bytes=96 << 20)).ops
    assert (gemm.lhs_at, gemm.rhs_at, gemm.out_at) == ("chip", "chip", "chip")
    (gemm,) = workload_of(row, Warm(activations=True, weight_copies=5, cache_bytes=50 << 20)).ops
    assert (gemm.lhs_at, gemm.rhs_at, gemm.out_at) == ("chip", None, "chip")
    tall = replace(row, m=16384, n=1024)
    (gemm,) = workload_of(tall, Warm(activations=True, cache_bytes=96 << 20)).ops
    assert (gemm.lhs_at, gemm.rhs_at, gemm.out_at) == (None, None, None)
    assert workload_of(row).ops[0].lhs_at is None


def test_the_conversion_can_be_repeated(tmp_path: Path) -> None:
    """A folder that lacks a file is refused by name; the format of what ships is what the script writes."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "sims" / "convert_measured.py"), str(tmp_path), "--out", str(tmp_path)],
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "llmcompass.csv: cannot be read: No such file or directory" in done.stderr
    assert sources.SHIPPED == SHIPPED
