"""ZC131 to ZC133: the keys of an Accelerate YAML."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from zeroconf.document.edits import Fix, insert, move, remove, rename
from zeroconf.keys import key_table
from zeroconf.rules.accelerate.reading import is_local, uses_deepspeed
from zeroconf.rules.facts import AUTO
from zeroconf.rules.keys.near import most_in_common
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zeroconf.document.node import Member
    from zeroconf.keys import Key, Release, Releases
    from zeroconf.rules.facts import AccelerateConfig

# spellings of DeepSpeed and of old notes for Accelerate's own fields
_OWN_NAME = {
    "stage": "zero_stage",
    "zero3_init": "zero3_init_flag",
    "offload_optimizer": "offload_optimizer_device",
    "offload_param": "offload_param_device",
    "hostfile": "deepspeed_hostfile",
    "stage3_gather_16bit_weights_on_model_save": "zero3_save_16bit_model",
    "stage3_gather_fp16_weights_on_model_save": "zero3_save_16bit_model",
    "gather_16bit_weights_on_model_save": "zero3_save_16bit_model",
}
# converted by BaseConfig.process_config, no fields of their own any more
_CONVERTED = {"fp16", "dynamo_backend"}
_ALIKE = 0.84  # difflib's measure: twice the letters in common by the letters of both
# fields of SageMakerConfig, which a cluster's file may not have
_SAGEMAKER_ONLY = {
    *("ec2_instance_type", "iam_role_name", "image_uri", "profile", "region", "base_job_name", "pytorch_version"),
    *("transformers_version", "py_version", "sagemaker_inputs_file", "sagemaker_metrics_file", "additional_args"),
}
# the first release that knows the key and the first that does not any more, by the tags of accelerate's repository
_RELEASES: dict[str, tuple[Release, Release | None]] = {
    "ipex_config": ((0, 19), (1, 13)),
    "debug": ((0, 22), None),
    "mpirun_config": ((0, 28), None),
    "enable_cpu_affinity": ((0, 29), None),
    "deepspeed_moe_layer_cls_names": ((0, 30), None),
    "fp8_config": ((0, 34), None),
    "tp_config": ((1, 4), (1, 7)),
    "parallelism_config": ((1, 10), None),
}
# `accelerate launch` copies every key of a block onto the option of the same name, so that these take effect
_OPTIONS = {
    *("num_processes", "num_machines", "machine_rank", "main_process_ip", "main_process_port", "mixed_precision"),
    *("gpu_ids", "debug", "enable_cpu_affinity", "main_training_function", "rdzv_backend", "rdzv_conf", "cpu"),
    *("use_deepspeed", "module", "no_python", "max_restarts", "monitor_interval", "log_dir", "role", "tee", "quiet"),
}


@rule("ZC131", "accelerate-unknown-key", severity="error")
def accelerate_unknown_key(accelerate: AccelerateConfig, releases: Releases) -> Iterator[Problem]:
    """A key at the top level that Accelerate does not know stops the launch.

    `accelerate launch` reads the file into a dataclass and refuses any other key: "The config file ... had unknown
    keys" (accelerate/commands/config/config_args.py, BaseConfig.from_yaml_file). The fields of DeepSpeed stand in
    `deepspeed_config`; DeepSpeed's own keys stand in a ds_config.json that `deepspeed_config_file` names.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        zero_stage: 3
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 3
        ```
    """
    if not is_local(accelerate):
        return
    blocks = key_table("accelerate").blocks
    known = {name: key for name, key in blocks[""].keys.items() if name not in _SAGEMAKER_ONLY}
    for member in accelerate.root.members:
        if member.key in _CONVERTED or _is_known(member.key, known, releases.accelerate):
            continue
        why, fix = _top_level_cure(accelerate, member, known, blocks["deepspeed_config"].keys)
        message = f"Accelerate refuses the file because of the unknown key '{member.key}': {why}"
        yield Problem(message, accelerate.path(member.key), on_key=True, fix=fix)


def _top_level_cure(
    accelerate: AccelerateConfig, member: Member, known: dict[str, Key], inside: dict[str, Key]
) -> tuple[str, Fix | None]:
    """What the key should have been, in words, and the edits for it."""
    name, document = member.key, accelerate.document
    path = accelerate.path(name)
    own = name if name in inside else _OWN_NAME.get(name, "")
    near = _nearest(name, known)
    why, fix = "remove it, or use a release that knows it", None
    if name in _SAGEMAKER_ONLY:
        why = "it belongs to compute_environment: AMAZON_SAGEMAKER"
    elif name in _RELEASES:
        why = _release_words(name)
    elif own in inside:
        why = f"it belongs in deepspeed_config, as deepspeed_config.{own}"
        if name == own and not accelerate.has("deepspeed_config", own):
            to = accelerate.path("deepspeed_config", own)
            fix = Fix(f"Move to {own} in deepspeed_config", move(document, path, to), makes=to)
        elif accelerate.has("deepspeed_config", own):
            inner, outer = accelerate.deepspeed(own), member.node.plain()
            why += f", which is {'there' if inner == outer else f'{json.dumps(inner)} there'} already"
    elif name == "use_deepspeed":
        why = "'distributed_type: DEEPSPEED' says it"
        fix = Fix("Remove", remove(document, path), safe=uses_deepspeed(accelerate))
    elif places := _ds_places(name):
        why = _of_the_json(accelerate, places, "deepspeed_config.deepspeed_config_file")
    elif near:
        why = f"did you mean '{near}'?"
        fix = None if accelerate.has(near) else Fix(f"Rename to {near}", rename(document, path, near), makes=(near,))
    return why, fix


def _of_the_json(accelerate: AccelerateConfig, places: str, field: str) -> str:
    """Where a key of DeepSpeed's own belongs: in the file that the field names, or should."""
    is_named = accelerate.deepspeed("deepspeed_config_file")
    where = f", which {field} names" if is_named else f"; put it in one and name that in {field}"
    return f"it is a key of a ds_config.json ({places}){where}"


@rule("ZC132", "accelerate-ignored-key", severity="error")
def accelerate_ignored_key(accelerate: AccelerateConfig, releases: Releases) -> Iterator[Problem]:
    """A key in deepspeed_config that Accelerate does not know is ignored without a word.

    Only the top level of the file is checked. `accelerate launch` copies the keys of `deepspeed_config` onto its
    options (accelerate/commands/launch.py, _validate_launch_command) and exports the ones it knows
    (accelerate/utils/launch.py, prepare_deepspeed_cmd_env); DeepSpeed's own keys, like `overlap_comm` or
    `train_micro_batch_size_per_gpu`, reach nobody (accelerate#2298, MOSS#272). They belong in a ds_config.json that
    `deepspeed_config_file` names. A key that is neither DeepSpeed's nor nearly one of Accelerate's is a warning.

    Example:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 3
          stage3_gather_16bit_weights_on_model_save: true
        ```

    Use instead:
        ```yaml
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 3
          zero3_save_16bit_model: true
        ```
    """
    block = accelerate.node("deepspeed_config")
    if block is None or not uses_deepspeed(accelerate):
        return
    blocks = key_table("accelerate").blocks
    known = blocks["deepspeed_config"].keys
    for member in block.members:
        name = member.key
        path = accelerate.path("deepspeed_config", name)
        if _is_known(name, known, releases.accelerate):
            continue
        if name in _OPTIONS:
            message = f"'{name}' is taken as the launch option of that name; it belongs at the top level"
            yield Problem(message, path, on_key=True, severity="info")
            continue
        if name in known:
            yield Problem(f"Accelerate ignores '{name}': {_release_words(name)}", path, on_key=True)
            continue
        near = _OWN_NAME.get(name) or _nearest(name, known)
        is_taken = near is None or accelerate.has("deepspeed_config", near)
        if near and (name not in _OWN_NAME or member.node.kind == "scalar"):
            edits = () if is_taken else rename(accelerate.document, path, near)
            fix = Fix(f"Rename to {near}", edits, makes=(*path[:-1], near)) if edits else None
            yield Problem(f"Accelerate ignores '{name}'; its field is '{near}'", path, on_key=True, fix=fix)
        elif name in blocks[""].keys or name in _CONVERTED:
            yield Problem(f"Accelerate ignores '{name}' here: it belongs at the top level", path, on_key=True)
        elif places := _ds_places(name):
            message = f"Accelerate ignores '{name}': {_of_the_json(accelerate, places, 'deepspeed_config_file')}"
            lost = _is_default(name, member.node.plain())
            yield Problem(message, path, on_key=True, severity="warning" if lost else None)
        else:
            message = f"'{name}' has no effect: neither Accelerate nor DeepSpeed knows it"
            yield Problem(message, path, on_key=True, severity="warning")


@rule("ZC133", "accelerate-no-distributed-type", severity="error")
def accelerate_no_distributed_type(accelerate: AccelerateConfig) -> Iterator[Problem]:
    """The file does not say which distributed type to launch.

    "A `distributed_type` must be specified in the config file" (accelerate/commands/config/config_args.py,
    BaseConfig.process_config), also where a `deepspeed_config` leaves no doubt.

    Example:
        ```yaml
        compute_environment: LOCAL_MACHINE
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
        ```

    Use instead:
        ```yaml
        compute_environment: LOCAL_MACHINE
        distributed_type: DEEPSPEED
        num_processes: 8
        deepspeed_config:
          zero_stage: 2
        ```
    """
    if accelerate.root.kind != "mapping" or accelerate.has("distributed_type"):
        return
    path = accelerate.path("distributed_type")
    fix = None
    if accelerate.get("deepspeed_config"):
        edits = insert(accelerate.document, path, "DEEPSPEED")
        fix = Fix("Add distributed_type: DEEPSPEED", edits, safe=False)
    yield Problem("'distributed_type' is missing; with DeepSpeed it is DEEPSPEED", path, fix=fix)


def _is_known(name: str, keys: dict[str, Key], release: Release) -> bool:
    first, gone = _RELEASES.get(name, ((), None))
    return name in {*keys, *_RELEASES} and first <= release and (gone is None or release < gone)


def _release_words(name: str) -> str:
    first, gone = _RELEASES.get(name, ((), None))
    if gone is not None:
        return f"Accelerate knew it from {_text(first)} until before {_text(gone)}"
    return f"Accelerate knows it since {_text(first)}"


def _text(release: Release) -> str:
    return ".".join(map(str, (*release, 0)))


def _ds_places(name: str) -> str:
    """Where a ds_config.json has the key, in words; empty when nowhere."""
    places = [f"{path}.{name}" if path else name for path in key_table("deepspeed").places(name)]
    return " or ".join(sorted(places, key=len)[:2])


def _is_default(name: str, value: Any) -> bool:
    """Whether nothing is lost by ignoring the value: DeepSpeed's default is the same."""
    blocks = key_table("deepspeed").blocks.values()
    return value == AUTO or any(name in block.keys and block.keys[name].default == value for block in blocks)


def _nearest(name: str, names: Iterable[str]) -> str | None:
    from difflib import get_close_matches  # noqa: PLC0415  (only files with a wrong key pay for it)

    needed = _ALIKE / 2
    likely = [known for known in names if most_in_common(name, known) >= needed * (len(name) + len(known))]
    return next(iter(get_close_matches(name, likely, n=1, cutoff=_ALIKE)), None) if likely else None
