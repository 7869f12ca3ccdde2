"""What stands around the figures: names and shapes, what was picked and checked, workload, chip, host."""

from __future__ import annotations

from .metric import OPS, Metric, group

_MATMUL = group(
    ("chips.matmuls.",),
    (
        ("batch", "count", "Independent products, each with an rhs of its own."),
        ("m", "elements", "Rows of the result C[m, n] = A[m, k] B[k, n]."),
        ("n", "elements", "Columns of the result."),
        ("k", "elements", "Length of the sums."),
        ("dtype", "", "Number format of the lhs as asked."),
        ("rhs_dtype", "", "Number format of the rhs as it is kept, in memory and on chip."),
        ("rhs_kind", "", "What the rhs is: weight, activation or kv_cache."),
        (
            "min_dram_bytes",
            "B",
            "Least main-memory traffic over all plans that fit; null if not searched.",
        ),
        (
            "mapping",
            "",
            "What was picked; a TPU's mapper minimises (cycles, DRAM bytes, on-chip bytes, plan index).",
        ),
        (
            "precision",
            "",
            "Effective precision: operands as they enter the multipliers -> sums -> result.",
        ),
        ("check", "", "The machine's values against jnp.matmul; null when off."),
    ),
)
_MAPPED = "chips.matmuls.mapping."
_MAPPING = group(
    (_MAPPED,),
    (
        ("dataflow", "", "What stays in the PEs: ws weights, os outputs, is inputs."),
        ("tile", "elements", "Sides of the block that on-chip memory holds at once."),
        (
            "blocks",
            "count",
            "Blocks along each dimension, on the busiest core.",
            "ceil(its part / tile).",
        ),
        ("order", "", "Loop order over the blocks, outermost first."),
        ("cores", "count", "Cores that get a part."),
        ("split_over_cores", "", "Dimension that is cut over the cores; empty on one core."),
        ("arrays_along_batch", "count", "Arrays of a core that work on batch elements of their own."),
        ("arrays_along_columns", "count", "Arrays of a core that share a block along the array's columns."),
        ("arrays_along_rows", "count", "The same along its rows (output stationary)."),
        ("arrays_along_stream", "count", "The same along the streamed dimension (weight, input stationary)."),
        ("plans_that_fit", "count", "Plans that the mapper chose from."),
        ("kernel", "", "On a GPU: the kernel, by how it brings operands to its multipliers."),
        ("stages", "count", "Tiles of operands that a thread block has on their way at once."),
        ("split_k", "count", "Thread blocks that share the sums of a tile; a second kernel adds them."),
        ("ctas", "count", "Thread blocks."),
        ("resident", "count", "Thread blocks that an SM holds at once."),
        ("waves", "count", "Rounds of thread blocks on the busiest SM.", "ceil(ctas / (SMs * resident))."),
    ),
) + [
    Metric(
        f"mapping.{part}.{dim}", unit, f"{what} along {dim}.", "", (f"chips.matmuls.mapping.{part}.{dim}",)
    )
    for part, unit, what in (("tile", "elements", "Its side"), ("blocks", "count", "Blocks"))
    for dim in "mnk"
]
_IDENTITY = group(
    OPS,
    (
        ("name", "", "Name of the op."),
        ("kind", "", "matmul, vector, gather; later launch and collective."),
        ("origin", "", "Where in the model the op comes from."),
        ("count", "count", "How often it occurs; the row's figures are for all occurrences."),
        ("layers", "count", "Number of layers that the occurrences come from."),
    ),
)
_CHECK = group(
    ("chips.matmuls.check.",),
    (
        ("passed", "", "Whether each compared element lies within its tolerance."),
        ("max_error", "", "|chip - reference| of the element with the worst ratio of error to tolerance."),
        (
            "tolerance",
            "",
            "What that element may differ by; 0 where equality is demanded (integers).",
            "gamma_n * (|A| |B|) with the n roundings of the accumulation, plus the result's own rounding.",
        ),
        ("compared", "elements", "Elements compared."),
        ("mode", "", "full: every element. sample: the rows named in `rows`."),
        ("rows", "", "Which rows were compared."),
        ("exact", "", "Whether equality was demanded."),
        (
            "error_vs_float64",
            "",
            "Largest |chip - exact product of the unrounded operands|: what the chip's precision costs.",
        ),
        ("device", "", "Where the reference ran."),
        ("overflows", "count", "Sums that overflowed the accumulator and wrapped."),
        (
            "out_of_range",
            "count",
            "Compared results that their format cannot hold: inf, or NaN in fp8_e4m3.",
        ),
    ),
)
_WORKLOAD = group(
    ("workload.",),
    (
        ("workload.name", "", "Name of the model or shape."),
        ("workload.phase", "", "prefill: all tokens at once; decode: one new token per sequence; train."),
        ("workload.batch", "sequences", "Sequences computed at once."),
        ("workload.seq", "tokens", "Tokens of each sequence that this run processes."),
        (
            "workload.kv_len",
            "tokens",
            "Keys attended by the last token, itself included; null without keys.",
        ),
        (
            "workload.parameters",
            "count",
            "Parameters of the model.",
            "Sum over the shapes that are simulated.",
        ),
    ),
)
_HOST = group(
    ("host.",),
    (
        ("wall_seconds", "s", "Time the host took for the whole call, comparison runs and checks included."),
        ("simulation_seconds", "s", "Time the host took to produce the cycles and bytes, checks excluded."),
        ("check_seconds", "s", "Time the host took for the checks of values; null when they are off."),
        (
            "simulated_cycles_per_second",
            "cycles/s",
            "Speed of the simulator itself.",
            "Cycles of all chips / simulation_seconds.",
        ),
    ),
)
_FITS = group(
    ("chips.fits.",),
    (
        (
            "bytes_needed",
            "B",
            "Main memory that the run needs.",
            "weight_bytes + kv_cache_bytes + activation_bytes.",
        ),
        ("weight_bytes", "B", "All parameters, each in its number format; tied ones once."),
        ("kv_cache_bytes", "B", "KV cache of all layers and sequences at kv_len."),
        ("activation_bytes", "B", "Activations of the op that reads and writes most of them."),
        ("fits.bytes", "B", "Main memory (dram) that the chip has; null where it is unlimited."),
        (
            "chips_needed",
            "chips",
            "How many such chips would hold it.",
            "ceil(bytes_needed / fits.bytes). More than 1: simulated as if it were resident on one.",
        ),
    ),
)
_CHIP = [
    *group(
        ("chips.",),
        (
            ("chip", "", "Name of the chip."),
            ("clock_hz", "Hz", "Clock of the matrix unit; every cycle in the report is one of this clock."),
            ("fits", "", "Whether weights, KV cache and activations fit the chip's main memory."),
            ("notes", "", "What the reader has to know about the result."),
            ("not_covered", "", "Ops that the model does not cover; they are in no other figure."),
            ("totals", "", "The rows of `ops` added up."),
            ("matmuls", "", "One row per matmul; every figure of a row is for all its `count`."),
            ("ops", "", "Everything that takes time, in order; these rows add up to `totals` exactly."),
        ),
    ),
    Metric("not_covered.op", "", "Name of an op that is not covered.", "", ("chips.not_covered.op",)),
    Metric(
        "not_covered.share",
        "0..1",
        "Its share of the work; null if unknown.",
        "",
        ("chips.not_covered.share",),
    ),
]
_TOP = [
    Metric("schema", "", "Version of the JSON's form.", "", ("schema",)),
    Metric("workload", "", "What was computed.", "", ("workload",)),
    Metric(
        "host",
        "",
        "What the host contributed: the only part that differs between runs.",
        "",
        ("host",),
    ),
    Metric("chips", "", "One entry per chip.", "", ("chips",)),
]

FRAME = (*_IDENTITY, *_MATMUL, *_MAPPING, *_CHECK, *_FITS, *_CHIP, *_WORKLOAD, *_HOST, *_TOP)
