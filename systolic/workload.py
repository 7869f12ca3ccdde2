"""What is to be computed: matrix multiplications and the vector work between them.

``C[m, n] = A[m, k] B[k, n]``; one MAC is one multiply-add, 2 FLOP. Counts are Python ints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from . import dtypes
from .errors import SystolicError, raise_if_any, shown
from .quantity import count_problem, whole_number

RhsKind = Literal["weight", "activation", "kv_cache"]
RHS_KINDS = ("weight", "activation", "kv_cache")
PHASES = ("prefill", "decode", "train")
LAYOUTS = ("nn", "nt", "tn", "tt")
PRECISIONS = ("default", "high", "highest")
PLACES = ("memory", "chip", "stream")


@dataclass(frozen=True, kw_only=True)
class Gemm:
    """A (batched) matrix multiplication that happens `count` times.

    Attributes
    ----------
    m, n, k
        Rows of C, columns of C, reduction length; elements, each > 0.
    batch
        Independent products with an rhs of their own. A batch that shares its rhs is folded
        into m by whoever builds the Gemm.
    count
        How often the whole (batched) product occurs; every figure of a report row is for all.
    layers
        Number of layers that these occurrences come from.
    dtype, rhs_dtype, acc_dtype, out_dtype
        Number formats of lhs, rhs (default: as lhs), accumulator (default: fp32 if an operand is
        a float, else int32) and result (default: the first operand that is a float, else int32).
    rhs_kind
        What the rhs is. A weight is always the rhs.
    layout
        ``n`` or ``t`` for each operand: stored as written, or transposed.
    precision
        Requested precision, in JAX's words.
    lhs_at, rhs_at, out_at
        Where an operand lies before the run, and where the result goes: ``"memory"`` (main
        memory), ``"chip"`` (on-chip memory), ``"stream"`` (on chip, block by block from or to the op
        beside it, never held in full), or None to let the chip's policy decide.
    masked_macs
        MACs of one occurrence that lie outside a causal mask or window.
    tied_to
        Name of the op whose parameters this rhs shares (tied embeddings); it then adds none.
    name, origin
        Name of the op (``"mlp.up"``) and where it comes from.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    count: int = 1
    layers: int = 1
    dtype: str = "bf16"
    rhs_dtype: str | None = None
    acc_dtype: str | None = None
    out_dtype: str | None = None
    rhs_kind: RhsKind = "weight"
    layout: str = "nn"
    precision: str = "default"
    lhs_at: str | None = None
    rhs_at: str | None = None
    out_at: str | None = None
    masked_macs: int = 0
    tied_to: str = ""
    name: str = ""
    origin: str = ""

    def __post_init__(self) -> None:
        problems = _take_counts(
            self, positive=("m", "n", "k", "batch", "count", "layers"), others=("masked_macs",)
        )
        if not problems and self.masked_macs >= self.batch * self.m * self.n * self.k:
            problems.append(f"Gemm.masked_macs must be < batch*m*n*k, got {self.masked_macs}")
        for f, allowed in (("rhs_kind", RHS_KINDS), ("layout", LAYOUTS), ("precision", PRECISIONS)):
            if (value := getattr(self, f)) not in allowed:
                problems.append(f"Gemm.{f} must be one of {', '.join(allowed)}, got {shown(value)}")
        for f in ("lhs_at", "rhs_at", "out_at"):
            if (value := getattr(self, f)) not in (None, *PLACES):
                problems.append(f"Gemm.{f} must be one of {', '.join(PLACES)} or None, got {shown(value)}")
        raise_if_any(problems + _take_dtypes(self, ("dtype",), ("rhs_dtype", "acc_dtype", "out_dtype")))
        operands = (self.dtype, self.rhs_dtype or self.dtype)
        accumulator = dtypes.accumulator_of(*operands)
        object.__setattr__(self, "rhs_dtype", operands[1])
        object.__setattr__(self, "acc_dtype", self.acc_dtype or accumulator)
        object.__setattr__(self, "out_dtype", self.out_dtype or dtypes.output_of(*operands))
        if accumulator == "fp32" and dtypes.DTYPES[str(self.acc_dtype)].kind == "int":
            raise SystolicError(
                f"Gemm.acc_dtype must be a float format for {' x '.join(operands)}, got {self.acc_dtype!r}"
            )

    @property
    def macs(self) -> int:
        """MACs of all occurrences as asked: count * batch * m * n * k."""
        return self.count * self.batch * self.m * self.n * self.k

    @property
    def useful_macs(self) -> int:
        """MACs of all occurrences inside the causal mask or window."""
        return self.macs - self.count * self.masked_macs

    @property
    def parameters(self) -> int:
        """Model parameters that the rhs holds, all occurrences; 0 when it is no weight or tied."""
        if self.rhs_kind != "weight" or self.tied_to:
            return 0
        return self.count * self.batch * self.k * self.n

    @property
    def lhs_bytes(self) -> int:
        """Bytes of the lhs of one occurrence."""
        return dtypes.bytes_of(self.batch * self.m * self.k, self.dtype)

    @property
    def rhs_bytes(self) -> int:
        """Bytes of the rhs of one occurrence."""
        return dtypes.bytes_of(self.batch * self.k * self.n, str(self.rhs_dtype))

    @property
    def out_bytes(self) -> int:
        """Bytes of the result of one occurrence."""
        return dtypes.bytes_of(self.batch * self.m * self.n, str(self.out_dtype))


@dataclass(frozen=True, kw_only=True)
class VectorOp:
    """Work of the vector unit, or pure traffic (a look-up), that happens `count` times.

    Attributes
    ----------
    name, kind
        Name of the op; what it is: ``"norm"``, ``"softmax"``, ``"activation"``, ``"rope"``,
        ``"add"``, ``"gather"``, ``"cache"`` …
    elements
        Elements processed in one occurrence.
    vector_ops
        Vector-unit operations per element (a multiply, an add, a compare, …); 0 for traffic only.
    read_elements, write_elements
        Elements of one occurrence that come from and go to where its operands lie, when it runs
        by itself.
    fused_into
        Name of the matmul on whose results it works as they leave the array. It then moves no
        bytes of its own but `side_elements`, and costs elapsed cycles only where the vector unit
        cannot keep up.
    side_elements
        Elements of one occurrence that it reads beside that matmul's results: the residual, the
        gate, a bias. 0 unless fused.
    parameters
        Model parameters it holds (norm gains, biases, an embedding table), all occurrences.
    formula
        Which formula its operations were counted from, where a kind has several (``"rmsnorm"``).
    count, layers, dtype, origin
        As for :class:`Gemm`.
    write_dtype
        Number format of what it writes (default: `dtype`).
    """

    name: str
    kind: str
    elements: int
    vector_ops: int
    read_elements: int
    write_elements: int
    fused_into: str = ""
    side_elements: int = 0
    parameters: int = 0
    formula: str = ""
    count: int = 1
    layers: int = 1
    dtype: str = "bf16"
    origin: str = ""
    write_dtype: str | None = None

    def __post_init__(self) -> None:
        problems = _take_counts(
            self,
            positive=("elements", "count", "layers"),
            others=("vector_ops", "read_elements", "write_elements", "side_elements", "parameters"),
        )
        raise_if_any(problems + _take_dtypes(self, ("dtype",), ("write_dtype",)))

    @property
    def read_bytes(self) -> int:
        """Bytes that one occurrence reads."""
        return dtypes.bytes_of(self.read_elements, self.dtype)

    @property
    def side_bytes(self) -> int:
        """Bytes that one fused occurrence reads beside the matmul's results."""
        return dtypes.bytes_of(self.side_elements, self.dtype)

    @property
    def write_bytes(self) -> int:
        """Bytes that one occurrence writes."""
        return dtypes.bytes_of(self.write_elements, self.write_dtype or self.dtype)


Op = Gemm | VectorOp


@dataclass(frozen=True, kw_only=True)
class NotCovered:
    """Work that the model does not cover, and its share of the whole (0..1), or None if unknown."""

    op: str
    share: float | None = None


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Ops in the order in which they run, and what the model needs to hold.

    Attributes
    ----------
    name, phase
        Name of the model or shape; ``"prefill"``, ``"decode"`` or ``"train"``.
    batch, seq
        Sequences at once; tokens that each of them processes in this run.
    kv_len
        Keys attended by the last token, itself included; 0 where there is no KV cache.
    ops
        Matmuls and vector ops, in order. Identical layers are one op with `count` and `layers`.
    idle
        Ops of the model that this run leaves out, such as experts that see no token. They take no time
        and move nothing, but what they hold counts as parameters and lies in memory.
    kv_cache_elements
        Elements of the KV cache of the whole model and batch at `kv_len`.
    saved_elements
        Elements that training keeps beside the parameters: results of the forward pass, gradients.
    dtype
        Number format of the model, or None where nobody said: each chip then takes its native one.
    stored
        Parameters that lie in memory as (number format, elements), where the shapes of the ops do not
        tell: the arguments of a JAX function. None: they are the sum over the ops.
    notes, not_covered
        What the reader has to know; what is left out.
    """

    name: str
    ops: tuple[Op, ...]
    idle: tuple[Op, ...] = ()
    phase: str = "prefill"
    batch: int = 1
    seq: int = 1
    kv_len: int = 0
    kv_cache_elements: int = 0
    saved_elements: int = 0
    dtype: str | None = None
    stored: tuple[tuple[str, int], ...] | None = None
    notes: tuple[str, ...] = ()
    not_covered: tuple[NotCovered, ...] = ()

    def __post_init__(self) -> None:
        sizes = ("kv_len", "kv_cache_elements", "saved_elements")
        problems = _take_counts(self, positive=("batch", "seq"), others=sizes)
        if not self.ops:
            problems.append(f"Workload.ops must hold at least one op, got none in {self.name!r}")
        if self.phase not in PHASES:
            problems.append(f"Workload.phase must be one of {', '.join(PHASES)}, got {shown(self.phase)}")
        raise_if_any(problems + _take_dtypes(self, (), ("dtype",)))
        object.__setattr__(self, "ops", tuple(self.ops))
        object.__setattr__(self, "idle", tuple(self.idle))

    @property
    def gemms(self) -> Iterator[Gemm]:
        """The matmuls, in order."""
        return (op for op in self.ops if isinstance(op, Gemm))

    @property
    def macs(self) -> int:
        """MACs of all matmuls as asked."""
        return sum(g.macs for g in self.gemms)

    @property
    def parameters(self) -> int:
        """Model parameters: the sum over the shapes that are simulated, and those that are idle.

        What is `stored`, where the shapes do not tell.
        """
        if self.stored is not None:
            return sum(elements for _, elements in self.stored)
        return sum(op.parameters for op in (*self.ops, *self.idle))

    @property
    def active_parameters(self) -> int:
        """Parameters of the ops that run; an embedding table counts whole, though few rows are read."""
        if self.stored is not None:
            return self.parameters
        return sum(op.parameters for op in self.ops)

    @property
    def weight_bytes(self) -> int:
        """Bytes of all parameters, each in the format of the op that holds it."""
        if self.stored is not None:
            return sum(dtypes.bytes_of(elements, dtype) for dtype, elements in self.stored)
        return sum(
            dtypes.bytes_of(op.parameters, str(op.rhs_dtype) if isinstance(op, Gemm) else op.dtype)
            for op in (*self.ops, *self.idle)
        )

    @property
    def kv_cache_bytes(self) -> int:
        """Bytes of the KV cache of the whole model and batch at `kv_len`, in the format that is read."""
        read = next((g.rhs_dtype for g in self.gemms if g.rhs_kind == "kv_cache"), None)
        return dtypes.bytes_of(self.kv_cache_elements, read or self.dtype or "bf16")

    def with_dtype(self, dtype: str) -> Workload:
        """The same work with every operand in format `dtype` and its default accumulator and result."""
        name = dtypes.canonical(dtype)
        ops, idle = (tuple(_in_dtype(op, name) for op in part) for part in (self.ops, self.idle))
        return replace(self, ops=ops, idle=idle, dtype=name)

    def with_storage(self, weights: str | None = None, kv_cache: str | None = None) -> Workload:
        """The same work with weights, or the KV cache, kept in formats of their own.

        Weights are those of the matmuls that share them with no embedding table; scales of quantized numbers
        are not counted.

        Raises
        ------
        SystolicError
            For an unknown format, and for a workload whose parameters have formats of their own already.
        """
        if weights is None and kv_cache is None:
            return self
        if self.stored is not None:
            raise SystolicError(f"{self.name} states the formats of its arguments; change them there")
        asked = (("weight", "weight_dtype", weights), ("kv_cache", "kv_dtype", kv_cache))
        formats = {kind: dtypes.canonical(given, field) for kind, field, given in asked if given is not None}
        ops, idle = (tuple(_stored_in(op, formats) for op in part) for part in (self.ops, self.idle))
        return replace(self, ops=ops, idle=idle)

    def with_precision(self, precision: str) -> Workload:
        """The same work with every matmul at a precision in JAX's words."""
        ops = tuple(replace(op, precision=precision) if isinstance(op, Gemm) else op for op in self.ops)
        return replace(self, ops=ops)

    @property
    def activation_bytes(self) -> int:
        """Largest bytes of activations alive at once around one op: what it reads plus writes.

        Weights and the KV cache are not activations. What training keeps (`saved_elements`) comes on top.
        """
        kept = dtypes.bytes_of(self.saved_elements, self.dtype or "bf16")
        return kept + max(_activation_bytes(op) for op in self.ops)


def _in_dtype(op: Op, dtype: str) -> Op:
    if isinstance(op, VectorOp):
        return replace(op, dtype=dtype, write_dtype=None)
    return replace(op, dtype=dtype, rhs_dtype=None, acc_dtype=None, out_dtype=None)


def _stored_in(op: Op, formats: Mapping[str, str]) -> Op:
    """The op with what it reads, or writes, of kinds in `formats` in their formats."""
    if isinstance(op, VectorOp):
        return replace(op, write_dtype=formats.get("kv_cache")) if op.kind == "cache" else op
    if op.rhs_kind not in formats or op.tied_to:
        return op
    usual = op.out_dtype == dtypes.output_of(op.dtype, str(op.rhs_dtype))
    out_dtype = None if usual else op.out_dtype
    return replace(op, rhs_dtype=formats[op.rhs_kind], acc_dtype=None, out_dtype=out_dtype)


def _activation_bytes(op: Op) -> int:
    if isinstance(op, VectorOp):
        return 0 if op.kind == "gather" else op.read_bytes + op.write_bytes
    rhs = op.rhs_bytes if op.rhs_kind == "activation" else 0
    return op.lhs_bytes + rhs + op.out_bytes


def _take_counts(spec: object, positive: tuple[str, ...], others: tuple[str, ...]) -> list[str]:
    """Turn the named fields of a frozen object into Python ints; return a line for each that is no count.

    NumPy's integers are taken too: kept as they are, their products would wrap at 64 bits.
    """
    problems = []
    for field, least in (*((f, 1) for f in positive), *((f, 0) for f in others)):
        value = getattr(spec, field)
        problem = count_problem(f"{type(spec).__name__}.{field}", value, least)
        problems += problem
        if not problem:
            object.__setattr__(spec, field, whole_number(value))
    return problems


def _take_dtypes(spec: object, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> list[str]:
    """Turn the named fields into canonical number formats; return a line for each unknown one."""
    problems: list[str] = []
    for field in (*required, *optional):
        value = getattr(spec, field)
        if value is None and field in optional:
            continue
        try:
            object.__setattr__(spec, field, dtypes.canonical(value, f"{type(spec).__name__}.{field}"))
        except SystolicError as error:
            problems += error.problems
    return problems
