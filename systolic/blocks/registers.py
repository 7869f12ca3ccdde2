"""The registers of every PE of an array, and the kernels that clock them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from ..chips.tpu import Array
from ..dtypes import DTYPES
from ..kernels import multicycle, output_stationary, stationary
from ..kernels.output_stationary import HELD, MOVING
from ..kernels.stationary import REAL, TOKEN
from ..numerics.rounding import integer_range

Shapes = dict[str, tuple[tuple[int, ...], Any]]
Words = tuple[Any, ...]


class Registers(ABC):
    """What an array holds, all of it, and what it has counted.

    Parameters
    ----------
    array, lanes
        The array; rows of the streamed operand per cycle.
    output_stationary
        False for weight stationary, and for input stationary with operands exchanged.
    acc
        Format of the sums.

    Attributes
    ----------
    counts
        Indexed by MACS, SLOTS, … of :mod:`systolic.kernels.stationary`.
    """

    def __init__(self, array: Array, lanes: int, output_stationary: bool, acc: str) -> None:
        self.array, self.lanes, self.output_stationary = array, lanes, output_stationary
        self.number: Any = np.float32 if DTYPES[acc].kind == "float" else np.int64
        self.range = _range_of(acc, self.number)
        self.counts = np.zeros(6, np.int64)
        shapes = self._shapes()
        self.values: dict[str, Any] = {name: np.zeros(*shape) for name, shape in shapes.items()}

    @staticmethod
    def of(array: Array, lanes: int, output_stationary: bool, acc: str) -> Registers:
        """The registers of an array with sums in format `acc`."""
        if is_plain(array, acc):
            return PlainRegisters(array, lanes, output_stationary, acc)
        return MulticycleRegisters(array, lanes, output_stationary, acc)

    def clock(self, words: Words) -> Words:
        """Clock the array with words at its edges, as its kernel takes them; what left below, and flags."""
        clocks, cols = words[0].shape[0], self.array.cols
        left, left_flags, top, *rest = words
        edges = (left.astype(self.number, copy=False), left_flags, top.astype(self.number, copy=False), *rest)
        lanes = () if self.output_stationary else (self.lanes,)
        bottom = np.zeros((clocks, *lanes, cols), self.number)
        flags = np.zeros(bottom.shape, np.uint8)
        self._step(edges, bottom, flags)
        return bottom, flags

    def state(self) -> dict[str, np.ndarray]:
        """Copies of the registers; `valid` says whether the word in `act` is an operand."""
        state = self._state()
        state["valid"] = (state["flags"] & REAL) != 0
        return state

    @abstractmethod
    def _shapes(self) -> Shapes:
        """Name -> shape and type."""

    @abstractmethod
    def _step(self, edges: Words, bottom: np.ndarray, flags: np.ndarray) -> None:
        """Run the kernel."""

    @abstractmethod
    def _state(self) -> dict[str, np.ndarray]:
        """Copies of what each PE holds."""


class PlainRegisters(Registers):
    """Of an array whose MAC takes one clock."""

    def _shapes(self) -> Shapes:
        return _plain_shapes(self)

    def _step(self, edges: Words, bottom: np.ndarray, flags: np.ndarray) -> None:
        step: Any = stationary.step_stationary
        if self.output_stationary:
            step = output_stationary.step_output_stationary
        step(*edges, *self.values.values(), bottom, flags, self.counts, self.range)

    def _state(self) -> dict[str, np.ndarray]:
        return {name: values.copy() for name, values in self.values.items()}


class MulticycleRegisters(Registers):
    """Of an array whose MAC takes several clocks, or whose sums keep fewer bits than their arithmetic."""

    def __init__(self, array: Array, lanes: int, output_stationary: bool, acc: str) -> None:
        super().__init__(array, lanes, output_stationary, acc)
        kept = DTYPES[acc].precision or DTYPES["fp32"].precision
        self.dropped = DTYPES["fp32"].precision - kept

    def _shapes(self) -> Shapes:
        shapes = _plain_shapes(self)
        stays = {"weight", "weight_real", "shadow", "shadow_real"}
        if self.output_stationary:
            sums, number = shapes.pop("shadow")
            del shapes["shadow_state"]
            stays = {"psum", "held", "held_full"}
            shapes |= {"held": (sums, number), "held_full": (sums, np.uint8)}
            shapes |= {"leaving": (sums, number), "leaving_full": (sums, np.uint8)}
        hop, latency = self.array.mac_interval, self.array.mac_latency
        lines: Shapes = {n: (s if n in stays else (hop, *s), dtype) for n, (s, dtype) in shapes.items()}
        lines["product"] = ((latency, *shapes["act"][0]), shapes["act"][1])
        lines["product_flags"] = ((latency, *shapes["flags"][0]), shapes["flags"][1])
        return lines

    def _step(self, edges: Words, bottom: np.ndarray, flags: np.ndarray) -> None:
        step: Any = multicycle.step_stationary_multicycle
        if self.output_stationary:
            step = multicycle.step_output_stationary_multicycle
        step(*edges, self.values, bottom, flags, self.counts, self.range, self.dropped)

    def _state(self) -> dict[str, np.ndarray]:
        """A line of registers holds at most one word, and is shown as one register."""
        values = self.values
        state: dict[str, Any] = {n: values[n].copy() for n in ("product", "product_flags")}
        lines = {"act": "flags", "flags": "flags"}
        if self.output_stationary:
            lines |= {"weight": "weight_flags", "weight_flags": "weight_flags"}
            left = values["leaving_full"].any(axis=0)
            state["psum"] = values["psum"].copy()
            state["shadow"] = values["held"] + values["leaving"].sum(axis=0)
            state["shadow_state"] = (HELD * values["held_full"] + MOVING * left).astype(np.uint8)
        else:
            lines |= dict.fromkeys(("moving", "moving_flags", "moving_hops"), "moving_flags")
            state |= {n: values[n].copy() for n in ("weight", "weight_real", "shadow", "shadow_real")}
            state["psum"] = values["psum"].sum(axis=0)
        for name, flags in lines.items():
            there = values[flags] & TOKEN != 0
            state[name] = np.where(there, values[name], 0).sum(axis=0).astype(values[name].dtype)
        return state


def is_plain(array: Array, acc: str) -> bool:
    """Whether a MAC takes one clock, and its sum is what its arithmetic gives."""
    return array.mac_latency == 1 and (DTYPES[acc].kind == "int" or acc == "fp32")


def _range_of(acc: str, number: Any) -> np.ndarray:
    """[low, high, span] of the sums, as the kernels take it."""
    if DTYPES[acc].kind == "float":
        return np.array([-np.inf, np.inf, 0], number)
    low, high = integer_range(acc)
    return np.array([low, high, high - low + 1], number)


def _plain_shapes(of: Registers) -> Shapes:
    """In the order in which the kernels take them."""
    rows, cols, lanes, ways = of.array.rows, of.array.cols, of.lanes, of.array.weight_rows
    number = of.number
    shapes: Shapes = {"act": ((lanes, rows, cols), number), "flags": ((lanes, rows, cols), np.uint8)}
    if of.output_stationary:
        return shapes | {
            "weight": ((lanes, rows, cols), number),
            "weight_flags": ((lanes, rows, cols), np.uint8),
            "psum": ((rows, cols), number),
            "shadow": ((rows, cols), number),
            "shadow_state": ((rows, cols), np.uint8),
        }
    return shapes | {
        "weight": ((rows, cols), number),
        "weight_real": ((rows, cols), np.uint8),
        "shadow": ((rows, cols), number),
        "shadow_real": ((rows, cols), np.uint8),
        "moving": ((ways, rows, cols), number),
        "moving_flags": ((ways, rows, cols), np.uint8),
        "moving_hops": ((ways, rows, cols), np.int16),
        "psum": ((lanes, rows, cols), number),
    }
