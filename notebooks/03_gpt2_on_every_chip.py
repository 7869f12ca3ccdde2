# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # GPT-2 on every chip
#
# The same model, the same 256 tokens, on TPUs from v2 to v7 and on GPUs from P100 to B200. The same question
# each time: where do the cycles go?
#
# Two kinds of run, since a language model has two lives. **Prefill** reads the prompt: all its tokens at
# once, large matmuls. **Decode** writes the answer: one token at a time, each of which needs *every* weight
# of the model once.

# %%
import pandas as pd

import systolic
from systolic.engine.advice import advise

TPUS = ["tpu-v2", "tpu-v3", "tpu-v4", "tpu-v5e", "tpu-v5p", "tpu-v6e", "tpu-v7"]
GPUS = ["p100", "v100", "t4", "a100", "l4", "rtx-4090", "h100", "b200"]
prefill = systolic.simulate(systolic.load_model("gpt2", seq=256), on=TPUS + GPUS)
decode = systolic.simulate(systolic.load_model("gpt2", phase="decode", kv_len=1024), on=TPUS + GPUS)

# %% [markdown]
# ## Reading the prompt

# %%
systolic.plot(prefill, "comparison")

# %% [markdown]
# Green is the time in which multipliers are fed. A fast chip is not one whose bar is all green: it is one
# whose bar is short. Mind the right side as well: the chips with the most multipliers use the smallest part
# of them. 124 million parameters were a large model once; for today's chips a layer is over before it has
# properly begun, and what remains is waiting for memory (`stall_dram`, `stall_latency`) and, on GPUs,
# starting kernels (`launch`).


# %%
def table(report):
    """One row for each chip, the fastest first."""
    rows = [
        {
            "chip": chip.chip.name,
            "format": chip.matmuls[0].op.dtype,
            "time, us": round(chip.seconds * 1e6),
            "bound by": chip.totals.bound_by,
            "utilization, %": round(100 * chip.utilization, 2),
        }
        for chip in report.chips
    ]
    return pd.DataFrame(rows).sort_values("time, us").reset_index(drop=True)


table(prefill)

# %% [markdown]
# The P100 has no tensor cores and no bf16, so it runs in its native fp32: the price of a chip from before
# the transformer. The column `bound by` is the largest cause of each chip's cycles.
#
# ## Writing the answer

# %%
systolic.plot(decode, "comparison")

# %% [markdown]
# Hardly any green is left. Each weight is read from memory, used for one multiply-add per output, and thrown
# away: two FLOP for two bytes. The roofline shows how hopeless that is. A chip needs hundreds of FLOP per
# byte to be bound by compute; every matmul with weights sits at 1.

# %%
systolic.plot(decode, "roofline", chip="tpu-v6e")

# %% [markdown]
# Prefill on the same chip is further right: there, 256 tokens share each weight that is read.

# %%
systolic.plot(prefill, "roofline", chip="tpu-v6e")

# %% [markdown]
# ## If decode only reads weights, time is bytes over bandwidth
#
# Is it? GPT-2 in bf16 is about 237 MiB, plus a KV cache of 36 MiB at 1024 tokens. Beside the simulated time
# stands what the bytes alone would take at the bandwidth that long streams reach.

# %%
rows = []
for chip in decode.chips:
    memory = chip.chip.memory["dram"]
    moved = sum(row.level_bytes("dram") for row in chip.rows)
    alone = moved / (memory.bytes_per_s * memory.sustained_percent / 100)
    ratio = chip.seconds / alone
    rows.append({"chip": chip.chip.name, "MiB": round(moved / 2**20), "us, bytes alone": round(alone * 1e6)})
    rows[-1] |= {"us, simulated": round(chip.seconds * 1e6), "ratio": round(ratio, 2)}
    assert ratio > 0.99
pd.DataFrame(rows)

# %% [markdown]
# The ratio is never below 1, as it must be, and it is largest where the memory is fastest: on a B200 the
# bytes would pass in a tenth of the time. What is left over is the latency of memory, the start of each of
# the model's many small steps, and, on the oldest TPU, weights that shift into the array more slowly than
# memory delivers them.
#
# ## What would help?
#
# The report says it for each matmul, by a fixed rule. On a TPU v6e, for decode:

# %%
chip = next(chip for chip in decode.chips if chip.chip.name == "tpu-v6e")
for row in chip.matmuls:
    print(f"{row.name:9} {row.bound_by:12} {advise(row, chip.chip).text}")

# %% [markdown]
# "More rows per weight" is what serving systems do: they decode many conversations at once, so that each
# weight that is read serves all of them. Let us try it: tokens per second of the whole chip, by batch.

# %%
rows = []
for batch in (1, 4, 16, 64, 256):
    report = systolic.simulate(
        systolic.load_model("gpt2", phase="decode", kv_len=128, batch=batch), on=["tpu-v6e", "h100"]
    )
    rates = {chip.chip.name: round(batch / chip.seconds) for chip in report.chips}
    rows.append({"batch": batch, **{f"{name}, tokens/s": rate for name, rate in rates.items()}})
batches = pd.DataFrame(rows)
batches

# %% [markdown]
# On the GPU the rate grows nearly with the batch; on the TPU it flattens. Why? Ask what takes the time at a
# batch of 256:

# %%
for chip in report.chips:
    total = chip.totals.cycles
    attention = [row for row in chip.matmuls if row.name in ("attn.qk", "attn.pv")]
    share = sum(row.cycles for row in attention) / total
    print(f"{chip.chip.name:8} attention {share:.0%} of the time, bound by {attention[0].bound_by}")

# %% [markdown]
# The weights are shared by all conversations, but each conversation has a KV cache of its own. For a
# systolic array that cache takes the place of the weights: it is loaded into the PEs for a *single* row that
# streams through, 256 × 12 times in each layer, and each time the array waits for it. (So this model plans
# it: one head of one conversation after the other. Serving kernels for TPUs exist that do better.) A GPU's
# warps take many of these small products at once.
#
# The same page for a browser, with tables that sort: `systolic run gpt2 --on tpu-v6e,h100 --html
# report.html`. Try a model that is larger (`llama-3-8b`), and see the chips come into their own.
