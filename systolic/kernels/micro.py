"""A register block of outputs as explicit LLVM vectors: the inner loop of the value kernel.

Numba's own vectoriser keeps the running sums in memory, which costs three quarters of the speed. Here
each sum stays in a register for the whole chain. Multiply and add stay two roundings: plain ``fmul`` and
``fadd`` carry no flag that would let LLVM contract them into a fused multiply-add.
"""

from __future__ import annotations

from typing import Any

import llvmlite.binding
import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# The block must fit the vector registers: 32 of 512 bits with AVX-512, 16 of 256 bits otherwise.
_WIDE = bool(llvmlite.binding.get_host_cpu_features().get("avx512f"))
ROWS, VECTORS, LANES = (4, 4, 16) if _WIDE else (4, 2, 8)
COLS = VECTORS * LANES


def _plain_block(a: Any, i: int, k0: int, k1: int, panel: Any, tile: Any) -> None:
    """Twin of :func:`block` without vectors."""
    last = a.shape[0] - 1
    for r in range(ROWS):
        tile[r] = 0
        for k in range(k0, k1):
            tile[r] = tile[r] + a[min(i + r, last), k] * panel[k - k0]


@intrinsic
def _llvm_block(typing_context: Any, a: Any, i: Any, k0: Any, k1: Any, panel: Any, tile: Any) -> Any:
    signature = types.void(a, types.int64, types.int64, types.int64, panel, tile)
    return signature, _emit_block


def _emit_block(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    a_type, _, _, _, panel_type, tile_type = signature.args
    a = context.make_array(a_type)(context, builder, args[0])
    panel = context.make_array(panel_type)(context, builder, args[4])
    tile = context.make_array(tile_type)(context, builder, args[5])
    is_float = a_type.dtype == types.float32
    element = ir.FloatType() if is_float else ir.IntType(32)
    index, vector = ir.IntType(64), ir.VectorType(element, LANES)
    add, mul = (builder.fadd, builder.fmul) if is_float else (builder.add, builder.mul)
    rows = _row_pointers(builder, a, args[1], index)
    zero = ir.Constant(vector, [0.0 if is_float else 0] * LANES)

    entry, loop, done = (
        builder.block,
        builder.append_basic_block("chain"),
        builder.append_basic_block("store"),
    )
    builder.branch(loop)
    builder.position_at_end(loop)
    k = builder.phi(index)
    k.add_incoming(args[2], entry)
    sums = [[builder.phi(vector) for _ in range(VECTORS)] for _ in range(ROWS)]
    offset = builder.mul(builder.sub(k, args[2]), ir.Constant(index, COLS))
    words = [
        builder.load(
            _vector_at(builder, panel.data, builder.add(offset, ir.Constant(index, v * LANES)), vector),
            align=4,
        )
        for v in range(VECTORS)
    ]
    after = []
    for r in range(ROWS):
        broadcast = _splat(builder, builder.load(builder.gep(rows[r], [k])), vector)
        after.append([add(sums[r][v], mul(broadcast, words[v])) for v in range(VECTORS)])
    k_next = builder.add(k, ir.Constant(index, 1))
    k.add_incoming(k_next, loop)
    for r in range(ROWS):
        for v in range(VECTORS):
            sums[r][v].add_incoming(zero, entry)
            sums[r][v].add_incoming(after[r][v], loop)
    builder.cbranch(builder.icmp_signed("<", k_next, args[3]), loop, done)

    builder.position_at_end(done)
    for r in range(ROWS):
        for v in range(VECTORS):
            place = _vector_at(builder, tile.data, ir.Constant(index, r * COLS + v * LANES), vector)
            builder.store(after[r][v], place, align=4)
    return context.get_dummy_value()


def _row_pointers(builder: Any, a: Any, first: Any, index: Any) -> list[Any]:
    """Pointers to ROWS rows of `a` from row `first`; rows past the end repeat the last one."""
    stride = builder.sdiv(cgutils.unpack_tuple(builder, a.strides)[0], ir.Constant(index, 4))
    last = builder.sub(cgutils.unpack_tuple(builder, a.shape)[0], ir.Constant(index, 1))
    pointers = []
    for r in range(ROWS):
        row = builder.add(first, ir.Constant(index, r))
        row = builder.select(builder.icmp_signed("<", row, last), row, last)
        pointers.append(builder.gep(a.data, [builder.mul(row, stride)]))
    return pointers


def _vector_at(builder: Any, base: Any, offset: Any, vector: Any) -> Any:
    return builder.bitcast(builder.gep(base, [offset]), vector.as_pointer())


def _splat(builder: Any, scalar: Any, vector: Any) -> Any:
    undefined = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(undefined, scalar, ir.Constant(ir.IntType(32), 0))
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(first, undefined, lanes)


def _plain_mac_row(
    out: Any, to: int, psum: Any, at: int, a: Any, a_at: int, w: Any, w_at: int, n: int
) -> None:
    """Twin of :func:`mac_row` without vectors."""
    out[to : to + n] = psum[at : at + n] + a[a_at : a_at + n] * w[w_at : w_at + n]


@intrinsic
def _llvm_mac_row(
    typing_context: Any, out: Any, to: Any, psum: Any, at: Any, a: Any, a_at: Any, w: Any, w_at: Any, n: Any
) -> Any:
    index = types.int64
    return types.void(out, index, psum, index, a, index, w, index, index), _emit_mac_row


def _emit_mac_row(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    index = ir.IntType(64)
    dtype = signature.args[0].dtype
    is_float = dtype == types.float32
    element = ir.FloatType() if is_float else ir.IntType(dtype.bitwidth)
    vector = ir.VectorType(element, LANES)
    add, mul = (builder.fadd, builder.fmul) if is_float else (builder.add, builder.mul)
    starts = [
        builder.gep(context.make_array(signature.args[i])(context, builder, args[i]).data, [args[i + 1]])
        for i in (0, 2, 4, 6)
    ]
    whole = builder.and_(args[8], ir.Constant(index, -LANES))

    def loop(first: Any, stop: Any, step: int, kind: Any) -> None:
        with cgutils.for_range_slice(builder, first, stop, ir.Constant(index, step), index) as (c, _):
            out, psum, a, w = (
                builder.bitcast(builder.gep(start, [c]), kind.as_pointer()) for start in starts
            )
            words = [builder.load(place, align=4) for place in (psum, a, w)]
            builder.store(add(words[0], mul(words[1], words[2])), out, align=4)

    loop(ir.Constant(index, 0), whole, LANES, vector)
    loop(whole, args[8], 1, element)
    return context.get_dummy_value()


mac_row = _plain_mac_row if numba.config.DISABLE_JIT else _llvm_mac_row
"""mac_row(out, to, psum, at, a, a_at, w, w_at, n): out[to + c] = psum[at + c] + a[a_at + c] * w[w_at + c] for
c < n, on flat float32, int32 or int64 arrays; `out` must not overlap what is read, unless it is the same
words.
"""


def _plain_shift_row(words: Any, at: int, n: int, entering: Any) -> None:
    """Twin of :func:`shift_row` without vectors."""
    words[at + 1 : at + n] = words[at : at + n - 1].copy()
    words[at] = entering


@intrinsic
def _llvm_shift_row(typing_context: Any, words: Any, at: Any, n: Any, entering: Any) -> Any:
    return types.void(words, types.int64, types.int64, words.dtype), _emit_shift_row


def _emit_shift_row(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    index = ir.IntType(64)
    dtype = signature.args[0].dtype
    element = ir.FloatType() if dtype == types.float32 else ir.IntType(dtype.bitwidth)
    lanes = 64 * 8 // dtype.bitwidth  # words of a 512-bit vector
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    first = builder.gep(data, [args[1]])
    moving = builder.sub(args[2], ir.Constant(index, 1))
    whole = builder.and_(moving, ir.Constant(index, -lanes))

    def loop(begin: Any, stop: Any, step: int, kind: Any) -> None:
        # From the end, so that a word is read before its place is written.
        with cgutils.for_range_slice(builder, begin, stop, ir.Constant(index, step), index) as (done, _):
            source = builder.sub(builder.sub(moving, done), ir.Constant(index, step))
            place = builder.gep(first, [source])
            word = builder.load(builder.bitcast(place, kind.as_pointer()), align=1)
            target = builder.gep(place, [ir.Constant(index, 1)])
            builder.store(word, builder.bitcast(target, kind.as_pointer()), align=1)

    loop(ir.Constant(index, 0), whole, lanes, ir.VectorType(element, lanes))
    loop(whole, moving, 1, element)
    builder.store(args[3], first)
    return context.get_dummy_value()


shift_row = _plain_shift_row if numba.config.DISABLE_JIT else _llvm_shift_row
"""shift_row(words, at, n, entering): move words[at : at + n] one place on, in place; `entering` comes first.

`words` is a flat array of float32, int64 or uint8; the last word drops out.
"""


def _plain_count_row(words: Any, at: int, others: Any, others_at: int, n: int, flag: int) -> int:
    """Twin of :func:`count_row` without vectors."""
    return int((words[at : at + n] & others[others_at : others_at + n] & flag != 0).sum())


@intrinsic
def _llvm_count_row(
    typing_context: Any, words: Any, at: Any, others: Any, others_at: Any, n: Any, flag: Any
) -> Any:
    return types.int64(words, types.int64, others, types.int64, types.int64, types.int64), _emit_count_row


def _emit_count_row(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    byte, index, lanes = ir.IntType(8), ir.IntType(64), 64
    starts = [
        builder.gep(context.make_array(signature.args[i])(context, builder, args[i]).data, [args[i + 1]])
        for i in (0, 2)
    ]
    flag = builder.trunc(args[5], byte)
    total = cgutils.alloca_once_value(builder, ir.Constant(index, 0))

    def loop(begin: Any, stop: Any, step: int) -> None:
        kind = ir.VectorType(byte, step) if step > 1 else byte
        wanted = _splat(builder, flag, kind) if step > 1 else flag
        none = ir.Constant(kind, [0] * step) if step > 1 else ir.Constant(byte, 0)
        with cgutils.for_range_slice(builder, begin, stop, ir.Constant(index, step), index) as (c, _):
            places = (builder.bitcast(builder.gep(start, [c]), kind.as_pointer()) for start in starts)
            one, other = (builder.load(place, align=1) for place in places)
            carried = builder.icmp_unsigned("!=", builder.and_(builder.and_(one, other), wanted), none)
            if step > 1:
                found = builder.ctpop(builder.bitcast(carried, index))
            else:
                found = builder.zext(carried, index)
            builder.store(builder.add(builder.load(total), found), total)

    whole = builder.and_(args[4], ir.Constant(index, -lanes))
    loop(ir.Constant(index, 0), whole, lanes)
    loop(whole, args[4], 1)
    return builder.load(total)


count_row = _plain_count_row if numba.config.DISABLE_JIT else _llvm_count_row
"""count_row(words, at, others, others_at, n, flag) -> in how many of n places both words carry the flag.

Flat uint8 arrays.
"""

block = _plain_block if numba.config.DISABLE_JIT else _llvm_block
"""block(a, i, k0, k1, panel, tile): tile[r, :] = sum over k0 <= k < k1, in rising k from 0, of
a[i + r, k] * panel[k - k0, :], for ROWS rows r; rows past the end of `a` repeat its last one.

a is (m, k), panel (>= k1 - k0, COLS), tile (ROWS, COLS), all C-contiguous float32 or int32; k1 > k0.
"""
