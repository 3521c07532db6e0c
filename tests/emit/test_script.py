"""What a plan needs of the training script: the Trainer's flags are parsed by the Trainer, the lines by Python."""

from __future__ import annotations

import ast
import json
import shlex
import warnings

import pytest
from transformers import HfArgumentParser, TrainingArguments

from zeroconf import api
from zeroconf.errors import NoPlanFits

SMALL = {"model": "llama-3.1-8b", "hardware": "8xA100-80GB"}
QLORA = {"model": "llama-3.1-70b", "hardware": "4xA100-80GB", "lora_rank": 16, "quantize": "nf4-double"}
STAGE_3 = {**QLORA, "zero_stage": 3, "activation_checkpointing": "full"}


def generated(**options):
    facts, _ = api.load_facts(options)
    return api.generate(facts)


def trainer_arguments(made, folder):
    """The flags as the Trainer reads them; it warns that gradient_checkpointing gets another name in Transformers 6."""
    words = shlex.split(made.commands["torchrun"])
    flags = words[words.index("--per_device_train_batch_size") :]
    parser = HfArgumentParser(TrainingArguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        (args,) = parser.parse_args_into_dataclasses(["--output_dir", str(folder), *flags, "--use_cpu", "true"])
    return args


@pytest.mark.parametrize(("optimizer", "name"), [("adamw-8bit", "adamw_bnb_8bit"), ("lion-8bit", "lion_8bit")])
def test_the_trainer_builds_the_8_bit_optimizer(optimizer, name, tmp_path):
    made = generated(**SMALL, optimizer=optimizer)
    assert trainer_arguments(made, tmp_path).optim == name
    config = json.loads(made.files["ds_config.json"])
    assert "optimizer" not in config
    assert made.decision.chosen.plan.offload == "none"
    assert {candidate.plan.offload for candidate in made.decision.candidates} == {"none"}


@pytest.mark.parametrize(("reader", "said"), [("trainer", None), ("accelerate", None), ("deepspeed", True)])
def test_who_allows_an_untested_optimizer(reader, said):
    """Accelerate and the Trainer set it themselves (accelerator.py, integrations/deepspeed.py)."""
    made = generated(**SMALL, optimizer="adamw-8bit", reader=reader, zero_stage=2)
    assert json.loads(made.files["ds_config.json"]).get("zero_allow_untested_optimizer") is said
    owner = any("bitsandbytes.optim.AdamW8bit" in note for note in made.decision.notes)
    assert owner == (reader != "trainer")


def test_stage_3_recomputes_reentrantly(tmp_path):
    made = generated(**STAGE_3)
    args = trainer_arguments(made, tmp_path)
    assert args.gradient_checkpointing_kwargs == {"use_reentrant": True}
    notes = " ".join(made.decision.notes)
    assert "use_gradient_checkpointing=True, gradient_checkpointing_kwargs={'use_reentrant': True}" in notes
    assert "after each GPU has loaded all of them" in notes


def test_below_stage_3_nothing_is_said_of_it(tmp_path):
    made = generated(**QLORA, zero_stage=2)
    assert trainer_arguments(made, tmp_path).gradient_checkpointing_kwargs is None
    assert not any("after each GPU" in note for note in made.decision.notes)


def test_the_line_that_loads_the_model_is_python():
    (note,) = [note for note in generated(**STAGE_3).decision.notes if "from_pretrained" in note]
    line = note[note.index("from_pretrained") : note.index(", then takes")]
    call = ast.parse(line.replace("...", "name"), mode="eval").body
    (settings,) = [word.value for word in call.keywords if word.arg == "quantization_config"]
    values = {word.arg: ast.unparse(word.value) for word in settings.keywords}
    assert values["load_in_4bit"] == values["bnb_4bit_use_double_quant"] == "True"
    assert values["bnb_4bit_quant_storage"] == values["bnb_4bit_compute_dtype"] == "torch.bfloat16"


def test_packed_weights_have_no_command_that_tries_them():
    made = generated(**QLORA)
    assert (made.smoke_test, made.dry_run) == ("", "")
    assert any("builds no packed weights" in note for note in made.decision.notes)


def test_qlora_is_a_cure():
    facts, _ = api.load_facts({"model": "llama-3.1-8b", "hardware": "1xRTX4090", "offload": "none"})
    with pytest.raises(NoPlanFits) as refused:
        api.generate(facts)
    cures = {cure.option: cure.fits for cure in refused.value.decision.cures}
    assert cures["--lora-rank 16 --quantize nf4"]
    assert not cures["--optimizer adamw-8bit"]
