"""Who raised an error, and whether it is a refusal of the configuration."""

from __future__ import annotations

import pytest
import records

from zeroconf.smoke.outcome import judge


def raised_in(tmp_path, folder: str, text: str) -> BaseException:
    """What a program raises that calls ``run`` of a module in a folder."""
    path = tmp_path / folder / "module.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    name = folder.partition("-packages/")[2].replace("/", ".") or "module"
    values: dict[str, object] = {"__name__": name}
    exec(compile(text, str(path), "exec"), values)  # noqa: S102
    own = compile("def main(run):\n    run()\n", str(tmp_path / "train.py"), "exec")
    mine: dict[str, object] = {"__name__": "__main__"}
    exec(own, mine)  # noqa: S102
    with pytest.raises(Exception) as caught:
        mine["main"](values["run"])  # type: ignore[operator]
    return caught.value


@pytest.mark.parametrize(
    ("folder", "text", "library"),
    [
        ("site-packages/deepspeed", "def run():\n    raise ValueError('x')\n", True),
        ("site-packages/transformers", "import json\ndef run():\n    json.loads('{')\n", True),
        ("dist-packages/numpy", "def run():\n    raise ValueError('x')\n", False),
        ("project", "def run():\n    raise ValueError('x')\n", False),
        ("project", "import json\ndef run():\n    json.loads('{')\n", False),
    ],
)
def test_who_raised_an_error(tmp_path, folder, text, library):
    assert records.by_library(raised_in(tmp_path, folder, text)) is library


@pytest.mark.parametrize(
    ("folder", "function", "error", "phase", "outcome"),
    [
        ("site-packages/transformers/training_args", "__post_init__", "ValueError", "the script", "rejected"),
        ("site-packages/accelerate/accelerator", "_prepare_deepspeed", "ValueError", "the script", "rejected"),
        ("site-packages/deepspeed/runtime/zero/config", "check", "AssertionError", "the script", "rejected"),
        ("site-packages/deepspeed/runtime/engine", "_do_sanity_check", "AssertionError", "init", "rejected"),
        ("site-packages/transformers/modeling_utils", "_flash_attn_can_dispatch", "ImportError", "build", "rejected"),
        # libraries, but not of the configuration
        ("site-packages/accelerate/accelerator", "load_state", "ValueError", "the script", "crash"),
        ("site-packages/transformers/tokenization_utils", "pad", "ValueError", "init", "crash"),
        ("site-packages/transformers/modeling_utils", "from_pretrained", "ImportError", "the script", "crash"),
        ("site-packages/accelerate/accelerator", "prepare", "ValueError", "forward", "crash"),
        ("site-packages/accelerate/accelerator", "prepare", "OSError", "the script", "crash"),
        # a project of the user's, whatever its folder is called
        ("deepspeed/config", "check", "ValueError", "init", "crash"),
    ],
)
def test_what_a_librarys_configuring_code_refuses_is_rejected(tmp_path, folder, function, error, phase, outcome):
    text = f"def {function}():\n    raise {error}('x')\ndef run():\n    {function}()\n"
    assert records.classify(raised_in(tmp_path, folder, text), phase) == outcome


def test_a_real_refusal_of_the_trainers_file_is_rejected(tmp_path):
    config = pytest.importorskip("transformers.integrations.deepspeed").HfTrainerDeepSpeedConfig
    arguments = pytest.importorskip("transformers").TrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    filled = config({"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}})
    filled.trainer_config_process(arguments)
    with pytest.raises(ValueError, match="Please correct the following") as caught:
        filled.trainer_config_finalize(arguments, None, 1)
    assert records.classify(caught.value, "the script") == "rejected"
    message = records.describe(caught.value)
    record = {"rank": 0, "state": "failed", "phase": "the script", "step": 0, "failed_at": 1.0, "message": message}
    ending = {"num_processes": 1, "timed_out": False, "timeout_seconds": 60, "log": ""}
    _, explanation, cure = judge([record | {"outcome": "rejected"}], **ending)
    assert "the script's arguments differ from the file" in explanation
    assert cure.startswith("pass the arguments that the file was written for")


def test_an_error_of_the_worker_is_no_programs():
    with pytest.raises(TypeError) as caught:
        records.Record(None, 0)
    error = caught.value
    # this test is the program that called it
    assert records.by_library(error) is True


def raised(error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.mark.parametrize(
    ("error", "phase", "outcome"),
    [
        (ValueError("bad key"), "config", "rejected"),
        (ValueError("from our own code"), "init", "crash"),
        (ValueError("bad shape"), "forward", "crash"),
        (MemoryError(), "build", "host-oom"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "backward", "host-oom"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), "backward", "oom"),
        (ImportError("no module"), "config", "crash"),
        (Exception("Current loss scale already at minimum - cannot decrease scale anymore."), "step", "not-finite"),
    ],
)
def test_errors_are_classified_by_what_and_when(error, phase, outcome):
    assert records.classify(raised(error), phase) == outcome
