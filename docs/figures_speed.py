"""How fast the commands are."""

from __future__ import annotations

from figures_results import link, newest, versions
from write_rules import table


def lint_speed() -> str:
    """Whole processes, beside bare Python and peers."""
    found = newest("lint-speed")
    rows = [
        f"`{command}` | {took['median_seconds'] * 1000:.0f} ms | {took['ratio']:.1f}x"
        for command, took in found["commands"].items()
    ]
    after = found["milliseconds_per_file_after_start"]
    text = f"\nAfter the start a file takes {after:.1f} ms, of {found['files']:,} files in one call. "
    return table("whole process | median | beside bare Python", rows) + text + _made("lint-speed", found["runs"])


def search_speed() -> str:
    """``generate``, by the size of its search."""
    found = newest("search-speed")
    rows = [
        f"{case} | {took['median_seconds'] * 1000:.0f} ms | {took['ratio_to_bare_python']:.0f}x"
        for case, took in found["generate"].items()
        if case != "python -c pass"
    ]
    tried = found["exhaustive"]
    text = (
        f"\nThe search leaves out what cannot win: of {tried['candidates']:,} candidates of {tried['cases']} random "
        f"cases {tried['costed_by_the_search']:,} were costed, and {len(tried['different_winner'])} winners differed "
        "from those of an exhaustive search. "
    )
    header = "`zeroconf generate` | median | beside bare Python"
    return table(header, rows) + text + _made("search-speed", found["runs"])


def dry_run_speed() -> str:
    """The dry run, by model and ranks."""
    rows = [
        f"{run['model']} | {run['stage']} | {run['ranks']} | {run['seconds']:.0f} s | "
        f"{run['ratio_to_bare_python']:,}x | {run['resident_bytes'] / 2**20:.0f} MiB"
        for run in newest("dry-run-speed")["runs"]
    ]
    header = "model | stage | ranks | takes | beside bare Python | host memory"
    return table(header, rows) + "\n" + _made("dry-run-speed", 1)


def smoke_overhead() -> str:
    """The smoke test beside the same steps started by hand."""
    found = newest("smoke-overhead")
    rows = [
        f"{name} | {found['first_run_seconds'][key]:.1f} s | {found['median_seconds'][key]:.1f} s"
        for name, key in (("`zeroconf smoke-test`", "smoke_test"), ("the same steps by hand", "by_hand"))
    ]
    text = (
        f"\nThe smoke test's first run comes first of all and compiles DeepSpeed's optimizer; {found['cores']} cores. "
    )
    others = len(found["seconds"]["by_hand"])
    return table(" | first run | median of the others", rows) + text + _made("smoke-overhead", others)


def _made(benchmark: str, runs: int) -> str:
    many = "one run" if runs == 1 else f"{runs} runs"
    script = f"benchmarks/{benchmark.replace('-', '_')}.py"
    return f"{link(benchmark)}, {many} of each, {versions(newest(benchmark))}; `python {script}`.\n"
