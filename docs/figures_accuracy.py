"""The README's figures, and how accurate each rung of the ladder is."""

from __future__ import annotations

import statistics
import textwrap

from figures_results import link, newest, peak_errors, percent
from write_rules import table

_ENGLISH = (
    (
        "**Memory, against what DeepSpeed allocates**: the estimate's peak is off by {shape_median} in the median "
        "of {shapes} shapes from 1B to 70B, by {shape_worst} at worst ({shape_date})."
    ),
    (
        "**Memory, against {runs} published GPU runs**: {run_median} low in the median ({run_deepspeed} on the "
        "{runs_deepspeed} with DeepSpeed): fragmentation, kernels' workspaces and settings that nobody wrote down, "
        "one reason for the 20 % headroom. Where public estimators answer they miss by {peers_least} to {peers_most}"
        ", this one by {ours_least} to {ours_most} on the same rows ({run_date}; [row by row](docs/accuracy.md))."
    ),
    (
        "**Step time**, a model with a range: on {steps} published runs off by {step_median} in the median ("
        "{step_deepspeed} on the {steps_deepspeed} with DeepSpeed), where each source is predicted by a fit to the "
        "others; {in_range} lie in the range, of the {with_adapters} with adapters {adapters_in_range} ({step_date})."
    ),
    (
        "**Choice**: {in_order} of {rankings} published rankings are predicted in their order ({choice_date}). Two "
        "CPU ranks, joined by a real link of 100 Mb/s, ran {pairs_right} pairs of plans in the order predicted; with "
        "16 micro steps stage 3 sent {times_sent} times the bytes of stage 1, and a step took {stage_3_seconds} s, "
        "against {stage_1_seconds} s ({wire_date})."
    ),
)
_CHINESE = (
    (
        "**显存，与 DeepSpeed 的实际分配相比**：在 1B 到 70B 的 {shapes} 种模型形状上，峰值估计的误差中位数为 "
        "{shape_median}，最大 {shape_worst}（{shape_date}）。"
    ),
    (
        "**显存，与 {runs} 次公开的 GPU 实测相比**：中位数偏低 {run_median}（其中用 DeepSpeed 的 {runs_deepspeed} "
        "次偏低 {run_deepspeed}），原因是显存碎片、算子工作区和未公开的设置，这也是默认留出 20% 余量的理由之一。在"
        "公开的估算工具能给出结果的那些实测上，它们的误差为 {peers_least} 到 {peers_most}，本工具为 {ours_least} "
        "到 {ours_most}（{run_date}；[逐行结果](docs/accuracy.md)）。"
    ),
    (
        "**单步时间，以区间给出**：在 {steps} 次公开实测上误差中位数为 {step_median}（其中 {steps_deepspeed} 次 "
        "DeepSpeed 训练为 {step_deepspeed}），采用留一来源验证：预测某个来源时，只用其余来源拟合。{in_range} 的实测"
        "落在区间内；{with_adapters} 次适配器训练中为 {adapters_in_range}（{step_date}）。"
    ),
    (
        "**方案排序**：{rankings} 组公开排名中有 {in_order} 组顺序预测正确（{choice_date}）。两个 CPU 进程经一条真实"
        "的 100 Mb/s 链路通信，{pairs_right_chinese}与预测的快慢顺序一致；累积 16 个微批次时，stage 3 的发送量是 "
        "stage 1 的 {times_sent} 倍，每步 {stage_3_seconds} 秒，而 stage 1 只需 {stage_1_seconds} 秒（{wire_date}）。"
    ),
)


def headline() -> str:
    """The README's list."""
    values = _values()
    filled = (f"* {text.format(**values)}" for text in _ENGLISH)
    wrap = textwrap.TextWrapper(120, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "".join(f"{wrap.fill(line)}\n" for line in filled)


def headline_chinese() -> str:
    """The same for README.zh-CN.md, with percent signs as Chinese sets them."""
    values = {name: value.replace(" %", "%") for name, value in _values().items()}
    return "".join(f"* {text.format(**values)}\n" for text in _CHINESE)


def _values() -> dict[str, str]:
    shapes = [abs(error) for error in peak_errors("memory-real-size")]
    memory, step_times = newest("memory-accuracy"), newest("step-time-accuracy")
    runs, runs_deepspeed = memory["summary"]["all"], memory["summary"]["DeepSpeed"]
    theirs, ours = ([one[who]["median_absolute"] for one in memory["peers"].values()] for who in ("theirs", "ours"))
    steps, steps_deepspeed = step_times["all"], step_times["engines"]["DeepSpeed"]
    adapters = [group for name, group in step_times["beside"].items() if name.endswith(", adapters")]
    with_adapters = sum(group["rows"] for group in adapters)
    held = sum(group["rows"] * group["in_band"] for group in adapters) / with_adapters
    choice, wire = newest("choice"), newest("shaped-link")
    right, pairs = wire["pairs_as_predicted"], wire["pairs_judged"]
    (many,) = (one for one in wire["stage_3_over_stage_1"] if one["cases"][0] == "stage-3/accumulation-16")
    return {
        "shapes": str(len(shapes)),
        "shape_median": percent(statistics.median(shapes), 1),
        "shape_worst": percent(max(shapes)),
        "shape_date": _here("memory-real-size"),
        "runs": str(runs["rows"]),
        "run_median": percent(runs["median_signed"]),
        "runs_deepspeed": str(runs_deepspeed["rows"]),
        "run_deepspeed": percent(runs_deepspeed["median_signed"]),
        "peers_least": percent(min(theirs)),
        "peers_most": percent(max(theirs)),
        "ours_least": percent(min(ours)),
        "ours_most": percent(max(ours)),
        "run_date": _here("memory-accuracy"),
        "steps": str(steps["rows"]),
        "step_median": percent(steps["left_out"]["median_absolute"]),
        "steps_deepspeed": str(steps_deepspeed["rows"]),
        "step_deepspeed": percent(steps_deepspeed["left_out"]["median_absolute"]),
        "in_range": percent(steps["in_band"]),
        "with_adapters": str(with_adapters),
        "adapters_in_range": percent(held),
        "step_date": _here("step-time-accuracy"),
        "in_order": str(choice["sets_in_order"]),
        "rankings": str(choice["sets"]),
        "choice_date": _here("choice"),
        "pairs_right": f"all {pairs}" if right == pairs else f"{right} of {pairs}",
        "pairs_right_chinese": f"{pairs} 对方案全部" if right == pairs else f"{pairs} 对方案中有 {right} 对",
        "times_sent": f"{many['bytes_ratio']:.0f}",
        "stage_3_seconds": f"{many['seconds'][0]:.1f}",
        "stage_1_seconds": f"{many['seconds'][1]:.1f}",
        "wire_date": _here("shaped-link"),
    }


def ladder() -> str:
    """What each rung costs, and how accurate it is."""
    dry, search = newest("dry-run-speed")["runs"], newest("search-speed")["generate"]["8B on 8 GPUs"]
    small, large = [run["seconds"] for run in dry if run["ranks"] == 8], max(run["seconds"] for run in dry)
    simulated = [run["seconds"] for run in newest("smoke-simulated")["simulated_beside_estimate"]]
    steps = newest("smoke-overhead")["median_seconds"]
    costs = {
        "textbook": "nothing",
        "analytic": f"{search['median_seconds']:.2f} s for an 8B on 8 GPUs ({link('search-speed')})",
        "dry run": f"{min(small):.0f} to {max(small):.0f} s for an 8B on 8 ranks, {large:.0f} s for a 70B on 64 "
        f"({link('dry-run-speed')})",
        "one of many": f"{min(simulated):.0f} to {max(simulated):.0f} s for a small model on a CPU "
        f"({link('smoke-simulated')})",
        "real": f"the steps themselves: {steps['smoke_test']:.1f} s, {steps['by_hand']:.1f} s by hand "
        f"({link('smoke-overhead')})",
    }
    rows = [
        f"the textbook | the row `textbook` of `zeroconf estimate` | {costs['textbook']} | {_textbook()}",
        f"analytic | `zeroconf generate`, `estimate`, `lint` | {costs['analytic']} | {_analytic()}",
        f"dry run | `zeroconf smoke-test ds_config.json ... --dry-run` | {costs['dry run']} | {_dry_run()}",
        f"one rank of many | `... --world-size 64` | {costs['one of many']} | {_simulated()}",
        f"real launch | `zeroconf smoke-test ds_config.json ...` | {costs['real']} | it is what happens",
    ]
    return table("rung | command | costs | how accurate", rows)


def _textbook() -> str:
    error = newest("memory-accuracy")["peers"]["closed formulas (Rajbhandari et al.)"]["theirs"]
    return (
        f"{percent(error['median_signed'])} low in the median of {error['rows']} GPU runs ({link('memory-accuracy')})"
    )


def _analytic() -> str:
    shapes = [abs(error) for error in peak_errors("memory-real-size")]
    runs = newest("memory-accuracy")["summary"]["all"]
    steps = newest("step-time-accuracy")["all"]
    return (
        f"{percent(statistics.median(shapes), 1)} off in the median, {percent(max(shapes))} at worst, from what "
        f"DeepSpeed allocates for {len(shapes)} shapes ({link('memory-real-size')}); {percent(runs['median_signed'])} "
        f"low in the median of {runs['rows']} GPU runs ({link('memory-accuracy')}); step times "
        f"{percent(steps['left_out']['median_absolute'])} off in the median of {steps['rows']} "
        f"({link('step-time-accuracy')})"
    )


def _dry_run() -> str:
    oracle, matrix = newest("memory-oracle")["summary"], newest("smoke-matrix")["summary"]
    within = oracle["compared"] - len(oracle["outside_the_bars"])
    return (
        f"within 2 % of real tensors in {within} of {oracle['compared']} configurations, the others by known causes "
        f"({link('memory-oracle')}); at most {percent(matrix['largest_error_of_dry_run'], 1)} off two real ranks in "
        f"{matrix['compared']} launches ({link('smoke-matrix')})"
    )


def _simulated() -> str:
    stages = newest("smoke-simulated")["real_beside_simulated"]
    worst = max(abs(error) for stage in stages for error in stage["peak_differences"].values())
    return f"at most {percent(worst, 1)} off real ranks at stages 0 to {len(stages) - 1} ({link('smoke-simulated')})"


def _here(benchmark: str) -> str:
    return link(benchmark, to_root="")
