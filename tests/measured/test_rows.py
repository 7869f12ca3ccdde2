"""Files of measured rows: what is written is read back, and a file that was cut keeps its complete rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from systolic import SystolicError
from systolic.measured.originals import READERS, read_original
from systolic.measured.rows import CLOCKS, COLUMNS, Row, csv_text, read_rows

WORDS = st.text(st.sampled_from('abc é,;"=\n'), max_size=6)
TIMES = st.floats(1e-6, 1e9).map(lambda time: float(f"{time:.10g}"))
SIDES = st.integers(0, 2**40)
ROWS = st.builds(
    Row,
    device=WORDS,
    dtype=WORDS,
    op=WORDS,
    name=WORDS,
    stage=WORDS,
    batch=SIDES,
    m=SIDES,
    n=SIDES,
    k=SIDES,
    layout=st.sampled_from(("nn", "nt", "tn", "tt")),
    precision=st.sampled_from(("", "highest")),
    count=SIDES,
    clock=st.sampled_from(tuple(CLOCKS)),
    measured_us=TIMES,
    lo_us=st.none() | TIMES,
    hi_us=st.none() | TIMES,
    peers=st.dictionaries(st.text("abc_1", min_size=1, max_size=5), TIMES, max_size=2),
)


@given(st.lists(ROWS, max_size=4))
@settings(max_examples=40)
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, rows: list[Row]) -> None:
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_bytes(csv_text(rows).encode())
    assert read_rows(path) == (tuple(rows), (), 0.0)


def row(**other: object) -> Row:
    values = {"device": "D", "dtype": "bf16", "op": "matmul", "m": 4, "n": 4, "k": 4}
    return Row(**{**values, "clock": "kernel", "measured_us": 12.5, **other})  # type: ignore[arg-type]


def test_a_file_cut_at_any_byte_keeps_its_complete_rows(tmp_path: Path) -> None:
    rows = tuple(row(m=m, measured_us=1.25 * m) for m in (1, 22, 333))
    whole = csv_text(rows).encode()
    path = tmp_path / "cut.csv"
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        if size < ends[0]:
            with pytest.raises(SystolicError, match=r"must begin with a line of column names, got \d+ bytes"):
                read_rows(path)
            continue
        complete = sum(end <= size for end in ends) - 1
        note = f"{path}: cut off in row {complete + 1}; the {complete} rows before it are kept"
        assert read_rows(path)[:2] == (rows[:complete], () if size in ends else (note,))


def test_each_wrong_value_has_its_line(tmp_path: Path) -> None:
    path = tmp_path / "wrong.csv"
    good = csv_text([row(), row(m=8)]).splitlines()
    bad = good[1]
    for right, wrong in (("nn", "xx"), ("kernel", "sundial"), ("12.5", "-1"), (",4,4,4,", ",4,-4,4,")):
        bad = bad.replace(right, wrong)
    path.write_text("\n".join([good[0], bad, good[2]]) + "\n")
    with pytest.raises(SystolicError) as refused:
        read_rows(path)
    assert [line.partition(", got")[0] for line in refused.value.problems] == [
        f"{path}: row 1: layout must be one of nn, nt, tn, tt",
        f"{path}: row 1: clock must be one of {', '.join(CLOCKS)}",
        f"{path}: row 1: n must be a whole number >= 0",
        f"{path}: row 1: measured_us must be a time > 0 in microseconds",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a,b\n1,2\n", f"columns must be {','.join(COLUMNS)}, got a,b"),
        ("a,b\n1\n1,2\n", "row 1 must have 2 fields, as the first line has, got 1"),
    ],
)
def test_another_table_is_refused(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "other.csv"
    path.write_text(text)
    with pytest.raises(SystolicError) as refused:
        read_rows(path)
    assert refused.value.problems == (f"{path}: {problem}",)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystolicError, match=r"none\.csv: cannot be read: No such file or directory"):
        read_rows(tmp_path / "none.csv")


# One row of a file as its source prints it, and what it says in our columns.
ORIGINALS = {
    "deepbench_gemm.csv": (
        "device,dtype,op,batch,M,N,K,ta,tb,measured_us,padded,kind\n"
        "V100-DGX1,fp16_tc,matmul,1,35,700,2048,T,N,101.0,1,train\n",
        # Column by column and transposed is row by row as written.
        row(device="V100-DGX1", dtype="fp16_tc", op="matmul_add", name="train", stage="padded", m=35, n=700,
            k=2048, layout="nt", clock="loop", measured_us=101.0),
    ),
    "aiconfigurator_gemm.csv": (
        "device,dtype,op,batch,M,N,K,measured_us,lo_us,hi_us,n_src\n"
        "A100-SXM-80GB,bf16,matmul,1,1,32,768,4.5764,4.4199,4.8513,4\n",
        row(device="A100-SXM-80GB", m=1, n=32, k=768, layout="nt", clock="graph", measured_us=4.5764,
            lo_us=4.4199, hi_us=4.8513),
    ),
    "neusight_gemm.csv": (
        "device,dtype,op,batch,M,N,K,measured_us,kernel,tile0,tile1,grid,block,n_kernels,ns_part\n"
        "T4,fp32,bmm,205,17,630,394,769.57,sgemm,128,128,5x1x205,256,1,train\n",
        row(device="T4", dtype="fp32", op="bmm", batch=205, m=17, n=630, k=394, precision="highest",
            clock="event", measured_us=769.57),
    ),
    "vidur_layer_ops.csv": (
        "device,dtype,op,batch,M,N,K,measured_us,min_us,max_us,layer,model,tp\n"
        "A40,fp16,norm,1,8,8192,,2.0,1.0,3.0,input_layernorm,Qwen/Qwen-72B,2\n",
        row(device="A40", dtype="fp16", op="norm", name="Qwen/Qwen-72B input_layernorm", stage="tp2", m=8,
            n=8192, k=0, measured_us=2.0, lo_us=1.0, hi_us=3.0),
    ),
    "pytorchsim_tpuv3.csv": (
        "device,workload,op,batch,M,N,K,measured_cycles,clock_mhz,scalesim3_cycles,maestro_cycles\n"
        "TPUv3,gemm_4x4x4,matmul,1,4,4,4,9400,940,4700,\n",
        row(device="TPUv3", dtype="fp32", name="gemm_4x4x4", clock="counter", measured_us=10.0,
            peers={"scalesim3": 5.0}),
    ),
    "tpu_v6e_qwen3_8b.csv": (
        "device,model,phase,seq_or_kv,batch,device_busy_ms,device_ms,cocossim_ms\n"
        "TPUv6e,Qwen3-8B bf16,decode,512,4,14.5,15.1,14.6\n",
        row(device="TPUv6e", op="decode", name="qwen3-8b", batch=4, m=512, n=0, k=0, measured_us=14500.0,
            peers={"cocossim": 14600.0}),
    ),
    "tpu_v6e_v7_gemm.csv": (
        "device,dtype,op,batch,M,N,K,measured_us,timing,source\n"
        "TPUv7-chiplet,bfloat16,matmul,1,4,4,4,130.5,wall,x\n",
        row(device="TPUv7-chiplet", clock="host", measured_us=130.5),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ORIGINALS)
def test_the_columns_of_the_sources(name: str, tmp_path: Path) -> None:
    text, expected = ORIGINALS[name]
    (tmp_path / name).write_text(text)
    assert read_original(tmp_path / name) == ((expected,), (), 0.0)


def test_a_source_without_a_column_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "xla_gemm.csv"
    path.write_text("device,dtype,op,batch,M,N,K\nH100,bf16,matmul,1,4,4,4\n")
    with pytest.raises(SystolicError, match=r"xla_gemm\.csv: row 1: column or word 'measured_us' is missing"):
        read_original(path)
    with pytest.raises(SystolicError, match="is no file of measurements that is known; known: llmcompass"):
        read_original(tmp_path / "other.csv")
    assert len(READERS) == 18
