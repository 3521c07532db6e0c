"""ZC280 to ZC289: machines that find each other, in an Accelerate YAML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zeroconf.document.edits import Fix, replace
from zeroconf.rules.accelerate.reading import FILTERS, STANDARD, launcher, num_machines, uses_deepspeed, whole_number
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import AccelerateConfig

_LOOPBACK = {"localhost", "127.0.0.1", "0.0.0.0", "::1"}  # noqa: S104  (named to be recognised, nothing is bound)
_PLACEHOLDER = re.compile(r"<.*>|\$.*|x+(\.x+)+|.*\b(your|todo|change_?me)\b.*", re.IGNORECASE)


@rule("ZC280", "processes-not-per-machine", severity="error")
def processes_not_per_machine(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """num_processes does not divide over the machines.

    `num_processes` counts the processes of all machines together; the launcher divides it with the remainder
    dropped (accelerate/utils/launch.py, prepare_deepspeed_cmd_env: num_processes // num_machines; accelerate#1317).
    15 on 2 machines start 7 on each, and fewer processes than machines start none with the standard launcher and
    every slot of the hostfile with the others.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 15
        main_process_ip: 10.0.0.1
        deepspeed_config:
          deepspeed_multinode_launcher: standard
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        main_process_ip: 10.0.0.1
        deepspeed_config:
          deepspeed_multinode_launcher: standard
        ```
    """
    machines = num_machines(accelerate)
    processes = whole_number(accelerate.get("num_processes")) or 0
    if not uses_deepspeed(accelerate) or machines == 1 or processes <= 0:
        return
    is_filtered = launcher(accelerate) != STANDARD and any(accelerate.deepspeed(name) for name in FILTERS)
    if processes % machines and not is_filtered:
        each = processes // machines
        message = (
            f"num_processes counts all machines: {processes} // {machines} = {each} on each, {each * machines} in all"
        )
        yield Problem(message, accelerate.path("num_processes"))


@rule("ZC281", "machines-without-hostfile", severity="error")
def machines_without_hostfile(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """Several machines are named, but the launcher has no hostfile and trains on this one only.

    Without `deepspeed_multinode_launcher` Accelerate takes pdsh, and without `deepspeed_hostfile` it starts
    `deepspeed --hostfile None` (accelerate/utils/launch.py, prepare_deepspeed_cmd_env). DeepSpeed finds no such
    file and goes on "with training with local resources only" (deepspeed/launcher/runner.py, fetch_hostfile;
    accelerate#2601). `standard` needs no hostfile: run the launch on each machine.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        main_process_ip: 10.0.0.1
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        main_process_ip: 10.0.0.1
        deepspeed_config:
          deepspeed_multinode_launcher: standard
        ```
    """
    machines = num_machines(accelerate)
    if not uses_deepspeed(accelerate) or machines == 1:
        return
    name = launcher(accelerate)
    if name != STANDARD and accelerate.deepspeed("deepspeed_hostfile") is None:
        message = (
            f"{machines} machines, but the launcher {name} has no deepspeed_hostfile and starts this machine only: "
            "name one, or write deepspeed_multinode_launcher: standard and launch on each machine"
        )
        yield Problem(message, accelerate.path("num_machines"))


@rule("ZC282", "left-to-the-command-line", severity="info")
def left_to_the_command_line(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """The file leaves a value to the command line that the launch cannot do without.

    Without `num_processes` Accelerate stops ("You need to manually pass in `--num_processes`",
    accelerate/commands/launch.py); with several machines and the standard launcher every machine needs
    `--main_process_ip`, else each looks for a host of the name None (accelerate/utils/launch.py; accelerate#2601).
    Fine when the launch line gives them, as job scripts do.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        deepspeed_config:
          deepspeed_multinode_launcher: standard
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        main_process_ip: 10.0.0.1
        deepspeed_config:
          deepspeed_multinode_launcher: standard
        ```
    """
    if not uses_deepspeed(accelerate):
        return
    missing = []
    if accelerate.get("num_processes", default=-1) == -1:
        missing.append("num_processes")
    if accelerate.has("num_machines") and accelerate.get("num_machines") is None:
        missing.append("num_machines")
    if num_machines(accelerate) > 1:
        if accelerate.has("machine_rank") and accelerate.get("machine_rank") is None:
            missing.append("machine_rank")
        address = accelerate.get("main_process_ip", default="None")
        if launcher(accelerate) == STANDARD and (address == "None" or _PLACEHOLDER.fullmatch(str(address))):
            missing.append("main_process_ip")
    for name in missing:
        given = accelerate.get(name)
        shows = f"'{given}' is only a placeholder" if isinstance(given, str) else "the file gives none"
        yield Problem(f"the launch needs --{name}: {shows}", accelerate.path(name))


@rule("ZC283", "main-process-address", severity="error")
def main_process_address(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """main_process_ip is no plain host name or address that all machines reach.

    torchrun gets `main_process_ip:main_process_port` (accelerate/utils/launch.py, prepare_deepspeed_cmd_env):
    "user@host" is refused, a port in the address becomes a second one (accelerate#1317). An address of the machine
    itself, like localhost, makes each machine wait for the others at its own door: a warning, since a tunnel could
    be behind it.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        main_process_ip: user@10.0.0.1
        deepspeed_config:
          deepspeed_multinode_launcher: standard
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        main_process_ip: 10.0.0.1
        deepspeed_config:
          deepspeed_multinode_launcher: standard
        ```
    """
    address = accelerate.get("main_process_ip")
    if not uses_deepspeed(accelerate) or num_machines(accelerate) == 1 or not isinstance(address, str):
        return
    path = accelerate.path("main_process_ip")
    host, _, port = address.partition(":")
    plain = address.rpartition("@")[2]
    if "@" in address:
        fix = Fix(f"Write {plain}", replace(accelerate.document, path, plain))
        yield Problem(f"main_process_ip takes a host or address without a user: {plain}", path, fix=fix)
    elif port.isdecimal():
        message = f"main_process_ip takes no port; {host} here and main_process_port: {port} are meant"
        yield Problem(message, path)
    elif address.lower() in _LOOPBACK:
        message = f"{address} is each machine itself: {num_machines(accelerate)} machines need an address of machine 0"
        yield Problem(message, path, severity="warning")


@rule("ZC284", "machine-rank-out-of-range", severity="error")
def machine_rank_out_of_range(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """machine_rank is not one of the machines' numbers.

    The machines count from 0, and the first one is the rendezvous (accelerate/utils/launch.py: node_rank;
    torch/distributed/run.py): with a rank beyond them the launch waits for a machine that never comes.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        machine_rank: 2
        main_process_ip: 10.0.0.1
        deepspeed_config:
          deepspeed_multinode_launcher: standard
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        machine_rank: 1
        main_process_ip: 10.0.0.1
        deepspeed_config:
          deepspeed_multinode_launcher: standard
        ```
    """
    machines = num_machines(accelerate)
    rank = whole_number(accelerate.get("machine_rank", default=0))
    uses_rank = machines > 1 and launcher(accelerate) in {STANDARD, "nossh"}
    if uses_deepspeed(accelerate) and uses_rank and rank is not None and not 0 <= rank < machines:
        message = f"machine_rank {rank} of {machines} machines: they count from 0 to {machines - 1}"
        yield Problem(message, accelerate.path("machine_rank"))


@rule("ZC289", "random-port-on-several-machines", severity="error")
def random_port_on_several_machines(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """main_process_port 0 lets each machine pick its own port.

    0 stands for a free port of the machine that launches (accelerate/utils/launch.py, prepare_deepspeed_cmd_env:
    get_free_port), which is meant for one machine; with several, each waits at a port that the others do not know.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        main_process_ip: 10.0.0.1
        main_process_port: 0
        deepspeed_config:
          deepspeed_multinode_launcher: standard
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_machines: 2
        num_processes: 16
        main_process_ip: 10.0.0.1
        main_process_port: 29500
        deepspeed_config:
          deepspeed_multinode_launcher: standard
        ```
    """
    port = accelerate.number("main_process_port")
    each_picks = num_machines(accelerate) > 1 and launcher(accelerate) in {STANDARD, "nossh"}
    if uses_deepspeed(accelerate) and port == 0 and each_picks:
        path = accelerate.path("main_process_port")
        fix = Fix("Write 29500", replace(accelerate.document, path, 29500))
        yield Problem("main_process_port 0 is another port on each machine: name one for all", path, fix=fix)
