"""ZC318 to ZC320: numbers that a model's shapes or values do not allow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zeroconf.choices import OVERFLOW_IN_FP16
from zeroconf.document import edits
from zeroconf.rules.batch_equation import parallel_sizes
from zeroconf.rules.facts import AUTO
from zeroconf.rules.keys.cures import cure
from zeroconf.rules.registry import Problem, rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.rules.facts import DsConfig, Reader
    from zeroconf.types import Cluster, Gpu, ModelSpec

_QWZ: Final = ("zero_optimization", "zero_quantized_weights")


@rule("ZC318", "quantized-shards-not-of-eights", severity="error", confidence="medium")
def quantized_shards_not_of_eights(config: DsConfig, model: ModelSpec, cluster: Cluster) -> Iterator[Problem]:
    """zero_quantized_weights, and a rank's part of a module's weights is no multiple of 8 elements.

    "Qantized weight requires the number of weights be a multiple of 8" in the first forward
    (runtime/zero/partition_parameters.py, CUDAQuantizer.quantize; DeepSpeed#4386), which gathers each module's own
    parameters by themselves: a part is a parameter's elements by the ranks, rounded up. Normalisations of a few hundred
    elements are quantized too, so that many GPUs are refused for them, powers of two as well.

    Example:
        ```json model=llama-3.1-8b hardware=3x8xA100-80GB
        {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "zero_quantized_weights": true}}
        ```

    Use instead:
        ```json model=llama-3.1-8b hardware=4x8xA100-80GB
        {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3, "zero_quantized_weights": true}}
        ```
    """
    if config.stage != 3 or not config.is_on(*_QWZ) or parallel_sizes(config):
        return
    from zeroconf.estimate.quantizer import refused  # noqa: PLC0415  (start-up)

    if found := refused(model, cluster.num_gpus):
        fewer = 2 ** ((cluster.num_gpus - 1).bit_length() - 1)
        while refused(model, fewer):
            fewer //= 2
        path = config.path(*_QWZ)
        other = f", or train on {fewer} GPUs" if fewer > 1 else ""
        yield Problem(
            f"{found}: switch it off{other}",
            path,
            fix=cure("Write false", edits.replace(config.document, path, value=False), safe=False),
        )


@rule("ZC319", "fp16-of-a-model-that-overflows", severity="warning")
def fp16_of_a_model_that_overflows(config: DsConfig, model: ModelSpec, gpu: Gpu) -> Iterator[Problem]:
    """T5 in fp16 on a GPU that has bf16.

    T5, mT5 and their like were trained in bf16 and their hidden states pass the 65,504 that fp16 reaches:
    Transformers clamps what became infinite in forward (models/t5/modeling_t5.py, T5Block), the gradients overflow
    all the same, until "Current loss scale already at minimum - cannot decrease scale anymore. Exiting run."
    (runtime/fp16/loss_scaler.py; DeepSpeedExamples#418, transformers#14531). bf16 has the range of fp32.

    Example:
        ```json model=t5-large hardware=8xA100-80GB
        {"train_micro_batch_size_per_gpu": 1, "fp16": {"enabled": true}, "zero_optimization": {"stage": 2}}
        ```

    Use instead:
        ```json model=t5-large hardware=8xA100-80GB
        {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
        ```
    """
    if model.architecture in OVERFLOW_IN_FP16 and gpu.bf16 and config.enabled("fp16"):
        yield Problem(
            f"{model.name} was trained in bf16, and overflows in fp16; {gpu.name} has bf16",
            config.path("fp16", "enabled"),
        )


@rule("ZC320", "width-not-found", severity="warning", confidence="medium")
def width_not_found(config: DsConfig, model: ModelSpec, reader: Reader) -> Iterator[Problem]:
    """Accelerate fills bucket sizes from the model's hidden_size, and looks for it outside text_config only.

    A vision-language model's configuration has it inside: "Can find neither `model.config.hidden_size` nor
    `model.config.hidden_sizes`, therefore it's not possible to automatically fill out the following `auto` entries"
    (accelerate/accelerator.py, _prepare_deepspeed). The Trainer, which looks there too
    (transformers/integrations/deepspeed.py, trainer_config_finalize), fills them before; and a model that is loaded
    without its vision tower, as AutoModelForCausalLM does for some, has the text_config as its own.

    Example:
        ```json for=accelerate model=gemma-3-4b
        {"train_micro_batch_size_per_gpu": 1,
         "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}}
        ```

    Use instead:
        ```json for=accelerate model=gemma-3-4b
        {"train_micro_batch_size_per_gpu": 1,
         "zero_optimization": {"stage": 2, "reduce_bucket_size": 6553600}}
        ```
    """
    if reader.name != "accelerate" or not model.has_text_config:
        return
    width = model.hidden_size
    filled = {
        "reduce_bucket_size": width * width,
        "stage3_prefetch_bucket_size": int(0.9 * width * width),
        "stage3_param_persistence_threshold": 10 * width,
    }
    for key, value in filled.items():
        if config.zero(key) != AUTO:
            continue
        path = config.path("zero_optimization", key)
        told = f"Accelerate finds no hidden_size for this auto: {model.name}'s stands in its text_config"
        if key.startswith("stage3_") and config.stage in (0, 1, 2):
            fix = cure(f"Remove {key}", edits.remove(config.document, path))
            yield Problem(f"{told}; stage {config.stage} does not read the key", path, fix=fix)
        else:
            fix = cure(f"Write {value}", edits.replace(config.document, path, value))
            yield Problem(f"{told}; the Trainer would write {value}", path, fix=fix)
