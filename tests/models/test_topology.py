"""SCALE-Sim topology files: every spelling that occurs, every mistake by line and column, round trips."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from systolic.errors import SystolicError
from systolic.models import load_model, read_topology, write_topology
from systolic.models.convolution import Convolution
from systolic.models.topology import Product, Topology

from .test_convolution import convolutions

CONV_HEADER = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,\n"
)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "net.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(folder: Path, text: str | bytes) -> Topology:
    return read_topology(write(folder, text))


def problems(folder: Path, text: str | bytes) -> list[str]:
    with pytest.raises(SystolicError) as caught:
        read(folder, text)
    file = str(folder / "net.csv")
    assert all(line.startswith(f"{file}: ") for line in caught.value.problems)
    return [line.removeprefix(f"{file}: ") for line in caught.value.problems]


@pytest.mark.parametrize(
    "text",
    [
        "Layer,M,N,K,\nL0,4,5,6,\n",
        "Layer,M,N,K\nL0,4,5,6",
        "Layer,M,N,K\nL0,4,5,6,\n",
        "Layer,M,N,K,\r\nL0,4,5,6\r\n\r\n",
        "\ufeffLayer, M, N, K\n\n L0 , 4 ,\t5, 6  \n\n\n",
        "layer name , m , n , k ,\nL0,4,5,6,# the first\n,,,,\n",
        "L0,4,5,6\n",
        "Layer,M,N,K,Sparsity,\nL0,4,5,6,1:1,\n",
        "Layer,M,N,K,Sparsity\nL0,4,5,6\n",
        "Layer,M,N,K,\nL0,4,5,6,2:2,1,\n",
        "Layer,N,M,K\nL0,5,4,6\n",
    ],
)
def test_spellings_of_a_matmul(tmp_path: Path, text: str) -> None:
    """SCALE-Sim 38 and 106: the last field was dropped unless the line ended in a comma."""
    assert read(tmp_path, text).layers == (Product(name="L0", m=4, n=5, k=6),)


def test_batch_of_a_matmul(tmp_path: Path) -> None:
    """A plain fifth number is the batch (scalesim/topology_utils.py, load_arrays_gemm)."""
    topology = read(tmp_path, "Layer,M,N,K,\nqk,4,5,6,12,\n")
    assert topology.layers == (Product(name="qk", m=4, n=5, k=6, batch=12),)
    (gemm,) = topology.workload().gemms
    assert (gemm.batch, gemm.m, gemm.n, gemm.k, gemm.origin) == (12, 4, 5, 6, f"{tmp_path / 'net.csv'}:2")


@pytest.mark.parametrize(
    ("row", "strides"),
    [
        ("C, 8, 8, 3, 3, 2, 4, 2,", (2, 2)),
        ("C,8,8,3,3,2,4,2", (2, 2)),
        ("C, 8, 8, 3, 3, 2, 4, 2, 1", (2, 1)),
        ("C,8,8,3,3,2,4,2,1,", (2, 1)),
        ("C,8,8,3,3,2,4,2,1:1,", (2, 2)),
        ("C,8,8,3,3,2,4,2,1,4:4,#dw", (2, 1)),
    ],
)
@pytest.mark.parametrize("header", [CONV_HEADER, ""], ids=["header", "bare"])
def test_spellings_of_a_convolution(tmp_path: Path, row: str, strides: tuple[int, int], header: str) -> None:
    """Rows as in SCALE-Sim's own files, the one of two strides (issue 40) and comments among them."""
    (layer,) = read(tmp_path, header + row + "\n").layers
    assert layer == Convolution(
        name="C",
        height=8,
        width=8,
        channels=2,
        filter_height=3,
        filter_width=3,
        filters=4,
        stride_height=strides[0],
        stride_width=strides[1],
    )


def test_strides_per_axis_through_the_front_door(tmp_path: Path) -> None:
    """ARM-software/SCALE-Sim 40."""
    (gemm,) = load_model(write(tmp_path, CONV_HEADER + "C,8,8,3,3,2,4,2,1\n")).gemms
    assert (gemm.m, gemm.n, gemm.k, gemm.macs) == (18, 4, 18, 1_296)


def test_depthwise_by_groups_or_by_name(tmp_path: Path) -> None:
    """ARM-software/SCALE-Sim 38 and 45: one layer and 5,184 MACs; 82,944 is the dense layer."""
    columns = CONV_HEADER.rstrip(",\n") + ",Groups,\n"
    by_groups = read(tmp_path, columns + "C,8,8,3,3,16,16,1,16\n").workload()
    by_name = read(tmp_path, CONV_HEADER + "C_DP,8,8,3,3,16,1,1,\n").workload()
    for workload in (by_groups, by_name):
        (gemm,) = workload.gemms
        assert (gemm.batch, gemm.m, gemm.n, gemm.k, gemm.macs) == (16, 36, 1, 9, 5_184)
    assert any(note.startswith("C_DP: DP in the name says depthwise") for note in by_name.notes)
    assert read(tmp_path, CONV_HEADER + "C,8,8,3,3,16,16,1,\n").workload().macs == 82_944


def test_padding_has_columns(tmp_path: Path) -> None:
    text = CONV_HEADER.rstrip(",\n") + ",Padding Height,Padding Width\nC,8,8,3,3,2,4,1,1,0\n"
    (layer,) = read(tmp_path, text).layers
    assert isinstance(layer, Convolution)
    assert (layer.output_height, layer.output_width) == (8, 6)


def test_alexnet_with_its_misprint(tmp_path: Path) -> None:
    """SCALE-Sim 96: 207 for 27 made the run endless; the layer before yields 54 x 54 x 96."""
    conv1 = "Conv1,224,224,11,11,3,96,4,\n"
    wrong = load_model(write(tmp_path, CONV_HEADER + conv1 + "Conv2,207,207,5,5,96,256,1,\n"))
    assert [gemm.macs for gemm in wrong.gemms][1] == 25_318_809_600
    assert any(
        note.startswith("Conv2: is its input right? 207x207x96 does not match the 54x54x96 that Conv1")
        for note in wrong.notes
    )
    right = load_model(write(tmp_path, CONV_HEADER + conv1 + "Conv2,27,27,5,5,96,256,1,\n"))
    assert [gemm.macs for gemm in right.gemms][1] == 325_017_600
    assert not any("does not match" in note for note in right.notes)


def test_many_odd_inputs_are_not_many_notes(tmp_path: Path) -> None:
    rows = "".join(f"C{i},8,8,1,1,{i + 1},9,1,\n" for i in range(10))
    notes = [note for note in load_model(write(tmp_path, CONV_HEADER + rows)).notes if "match" in note]
    assert len(notes) == 4
    assert notes[-1].startswith("5 more layers")


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ["must hold a layer per line, got none"]),
        ("\n,,\n# nothing\n", ["must hold a layer per line, got none"]),
        ("Layer,M,N,K\n", ["must hold a layer per line, got none"]),
        (
            "Layer,M,N,K\nL0,4,x,6\n\nL1,4,0,-6\n,1,2,3\n",
            [
                "line 2 column 3: n must be a whole number > 0, got 'x'",
                "line 4 column 3: n must be a whole number > 0, got '0'",
                "line 4 column 4: k must be a whole number > 0, got '-6'",
                "line 5 column 1: must be the layer's name, got ''",
            ],
        ),
        ("Layer,M,N,K\nL0,4,5\n", ["line 2: must have the fields name,m,n,k, got 3: 'L0,4,5'"]),
        ("L0,4,5.5,6\n", ["line 1 column 3: n must be a whole number > 0, got '5.5'"]),
        ("L0,4,,6\n", ["line 1 column 3: n must be a whole number > 0, got ''"]),
        (
            "L0,4,5\n",
            ["line 1: must have the fields Layer,M,N,K or the 8 of a convolution, got 3: 'L0,4,5'"],
        ),
        (
            "Layer,M,N,K\nL0,4,5,6,2:4\n",
            ["line 2 column 5: sparsity must be dense (1:1), got '2:4'; sparse operands are not modelled"],
        ),
        (
            CONV_HEADER + "C,8,8,9,3,2,4,1,\n",
            [
                "line 2 column 4: filter_height must be <= 8 + 2 x 0, the padded input, got 9",
            ],
        ),
        (
            "Layer,M,N,Kk\nL0,4,5,6\n",
            ["line 1 column 4: unknown title 'Kk'; did you mean 'k'?"],
        ),
        ("Layer,M,N,N\nL0,4,5,6\n", ["line 1 column 4: the title 'N' is there twice"]),
        ("Layer,M,N\nL0,4,5\n", ["line 1: the column k is missing from the header"]),
    ],
)
def test_mistakes_are_named_by_line_and_column(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert problems(tmp_path, text) == lines


def test_what_is_no_text_is_one_line(tmp_path: Path) -> None:
    assert problems(tmp_path, b"Layer,M,N,K\n\xff\xfe") == ["must be text in UTF-8, got other bytes"]
    with pytest.raises(SystolicError, match=r"none\.csv: cannot be read: No such file"):
        load_model(tmp_path / "none.csv")


CHARACTERS = st.characters(exclude_characters=",#\r\n", categories=("L", "N", "P"))
NAMES = st.text(CHARACTERS, min_size=1, max_size=6)
PRODUCTS = st.builds(
    Product,
    name=NAMES,
    batch=st.sampled_from((1, 1, 8)),
    **dict.fromkeys(("m", "n", "k"), st.integers(1, 10**6)),
)


@given(st.lists(PRODUCTS, min_size=1, max_size=4) | st.lists(convolutions(), min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_again(tmp_path: Path, layers: list[Product] | list[Convolution]) -> None:
    """SCALE-Sim PR 161: the reader took more columns than the writer gave."""
    topology = Topology(name="net", layers=tuple(layers))
    write_topology(topology, tmp_path / "net.csv")
    again = read_topology(tmp_path / "net.csv")
    assert (again.name, again.layers) == (topology.name, topology.layers)


def test_a_written_file_is_one_that_scale_sim_reads(tmp_path: Path) -> None:
    """Its own header, a comma at the end of each line (its reader drops the last field)."""
    topology = read(tmp_path, CONV_HEADER + "C,8,8,3,3,2,4,2,\n")
    write_topology(topology, tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text(encoding="utf-8") == (
        CONV_HEADER.replace(", ", ",") + "C,8,8,3,3,2,4,2,\n"
    )
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".tmp"] == []


@pytest.mark.parametrize("name", ["a,b", "a\nb", "#a", " a", ""])
def test_names_that_cannot_stand_in_a_file_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SystolicError, match="a name must be one line without comma and #, got"):
        write_topology(
            Topology(name="net", layers=(Product(name=name, m=1, n=1, k=1),)), tmp_path / "net.csv"
        )
    assert not list(tmp_path.iterdir())


def test_layers_of_two_kinds_are_refused(tmp_path: Path) -> None:
    both = (
        Product(name="a", m=1, n=1, k=1),
        Convolution(name="b", height=1, width=1, channels=1, filter_height=1, filter_width=1, filters=1),
    )
    with pytest.raises(SystolicError, match="must hold convolutions or matmuls, and at least one, got both"):
        write_topology(Topology(name="net", layers=both), tmp_path / "net.csv")


def test_a_second_run_replaces_the_file_whole(tmp_path: Path) -> None:
    """ARM-software/SCALE-Sim 31."""
    for m in (1, 2):
        write_topology(Topology(name="net", layers=(Product(name="a", m=m, n=1, k=1),)), tmp_path / "net.csv")
    (layer,) = read_topology(tmp_path / "net.csv").layers
    assert layer == Product(name="a", m=2, n=1, k=1)
    with pytest.raises(SystolicError, match="cannot be written: No such file"):
        write_topology(Topology(name="net", layers=(layer,)), tmp_path / "none" / "net.csv")
