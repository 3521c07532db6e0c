"""Fixes: all that help, none that do not, and nothing else of the file touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint_texts import NEW, OLD, refuses_small_batches, renames

from zeroconf.document.edits import Edit, Fix, insert, remove, rename, replace
from zeroconf.document.read import parse_document
from zeroconf.lint.check import check
from zeroconf.lint.fix import Fixed, fix_document
from zeroconf.lint.settings import Options, SettingsFinder
from zeroconf.rules.registry import Problem


def raises_the_batch(config):
    """An unsafe fix that has to be repeated: any batch below 16 is one too small."""
    batch = config.number("train_batch_size")
    if batch is not None and batch < 16:
        edits = replace(config.document, ("train_batch_size",), batch + 1)
        yield Problem("too small", ("train_batch_size",), fix=Fix("one more", edits, safe=False))


def fixed(text, *, unsafe=False, **options):
    settings = SettingsFinder(Options(**options)).for_folder(Path("/"))
    document = parse_document(text.encode(), "a.json")
    return fix_document(Fixed(document, check(document, settings)), lambda one: check(one, settings), unsafe=unsafe)


def test_a_safe_fix_is_applied_and_twice_is_once(make_rule):
    make_rule(renames)
    once = fixed(OLD)
    assert once.document.text == NEW
    assert [one.rule.code for one in once.cured] == ["ZC901"]
    assert fixed(NEW).cured == ()


def test_fixes_of_different_rules_come_together(make_rule):
    make_rule(renames)
    make_rule(lambda config: (yield from removes(config)), code="ZC902")
    assert fixed(OLD).document.text == '{"train_batch_size": 8}\n'


def removes(config):
    if config.has("zero_optimization"):
        path = ("zero_optimization",)
        yield Problem("not wanted", path, fix=Fix("remove it", remove(config.document, path)))


def test_overlapping_fixes_take_turns(make_rule):
    def restages(config):
        if config.stage == 2:
            path = ("zero_optimization", "stage")
            yield Problem("not 2", path, fix=Fix("3", replace(config.document, path, 3)))

    make_rule(restages)
    make_rule(removes, code="ZC902")
    assert fixed(OLD).document.text == '{"train_batch": 8}\n'


def test_unsafe_fixes_only_when_asked(make_rule):
    make_rule(raises_the_batch, severity="warning")
    make_rule(renames, code="ZC902")
    assert fixed(OLD).document.text == NEW
    # the rule finds as much as before, so its fix cured nothing
    assert fixed(OLD, unsafe=True).document.text == NEW


def test_a_fix_that_breaks_the_file_is_left_out(make_rule):
    def breaks(config):
        if not config.has("broken"):
            yield Problem("whole", (), fix=Fix("break it", (Edit(0, 1, "["),)))

    make_rule(breaks)
    make_rule(renames, code="ZC902")
    assert fixed(OLD).document.text == NEW


def test_a_fix_that_contradicts_itself_is_left_out(make_rule):
    def contradicts(config):
        if config.has("train_batch"):
            yield Problem("x", ("train_batch",), fix=Fix("both", (Edit(1, 5, "a"), Edit(2, 6, "b"))))

    make_rule(contradicts)
    assert fixed(OLD).document.text == OLD


def test_fixes_that_undo_each_other_end(make_rule):
    def renames_back(config):
        if config.has("train_batch_size"):
            edits = rename(config.document, ("train_batch_size",), "train_batch")
            yield Problem("new name", ("train_batch_size",), fix=Fix("rename it", edits))

    make_rule(renames)
    make_rule(renames_back, code="ZC902")
    assert fixed(OLD).document.text in {OLD, NEW}


def test_many_fixes_of_one_rule(make_rule):
    def unpads(config):
        for key in [member.key for member in config.root.members if member.key.startswith("pad")]:
            yield Problem("padding", (key,), fix=Fix("remove it", remove(config.document, (key,))))

    make_rule(unpads)
    text = "{\n" + "".join(f'  "pad{n}": {n},\n' for n in range(60)) + '  "train_batch_size": 8\n}\n'
    assert fixed(text).document.text == '{\n  "train_batch_size": 8\n}\n'


def test_inserts(make_rule):
    def clips(config):
        if not config.has("gradient_clipping"):
            edits = insert(config.document, ("gradient_clipping",), 1.0)
            yield Problem("no clipping", ("gradient_clipping",), fix=Fix("clip", edits))

    make_rule(clips)
    assert fixed(OLD).document.text == OLD.replace("2}}", '2}, "gradient_clipping": 1.0}')


# --- a fix that makes an error -------------------------------------------------------------------


def test_a_rename_that_switches_on_an_error_is_taken_back_alone(make_rule):
    make_rule(renames)
    make_rule(removes, code="ZC902")
    make_rule(refuses_small_batches, code="ZC903")
    result = fixed(OLD)
    assert result.document.text == '{"train_batch": 8}\n'
    assert [one.rule.code for one in result.cured] == ["ZC902"]
    assert {one.rule.code: why for one, why in result.left_out.items()} == {
        "ZC901": "would bring an error: ZC903 too small"
    }
    assert fixed(result.document.text).document.text == result.document.text


@pytest.mark.parametrize("options", [{"select": ["ZC901"]}, {"ignore": ["ZC903"]}])
def test_a_hidden_error_is_one_too(make_rule, options):
    make_rule(renames)
    make_rule(refuses_small_batches, code="ZC903")
    assert fixed(OLD, **options).document.text == OLD


def test_an_error_that_the_file_ignores_is_one_too(make_rule):
    make_rule(renames)
    make_rule(refuses_small_batches, code="ZC903")
    text = OLD.replace("}}", '}, "_zeroconf": {"ignore": {"ZC903": "known"}}}')
    assert fixed(text).document.text == text


def test_a_warning_does_not_stop_a_fix(make_rule):
    make_rule(renames)
    make_rule(refuses_small_batches, code="ZC903", severity="warning")
    assert fixed(OLD).document.text == NEW


def test_an_error_that_was_there_before_is_not_the_fixs(make_rule):
    def refuses_small(config):
        for key in ("train_batch", "train_batch_size"):
            if config.has(key):
                yield Problem("too small", (key,))

    make_rule(renames)
    make_rule(refuses_small, code="ZC903")
    assert fixed(OLD).document.text == NEW


def test_an_error_that_only_shows_now_does_not_stop_a_fix(make_rule):
    def unquotes(config):
        path = ("train_batch_size",)
        if config.document.root.at(path).value == "8":
            yield Problem("text", path, fix=Fix("write 8", replace(config.document, path, 8)))

    def mends(document):
        if document.root is None:
            yield Problem("no comma", fix=Fix("add it", (Edit(22, 22, ","),)))

    make_rule(unquotes)
    make_rule(mends, code="ZC902")
    make_rule(refuses_small_batches, code="ZC903")
    assert fixed(NEW.replace("8", '"8"')).document.text == NEW
    assert fixed(NEW.replace(",", "")).document.text == NEW


def renames_steps(config):
    if config.has("steps"):
        edits = rename(config.document, ("steps",), "gradient_accumulation_steps")
        yield Problem("old name", ("steps",), on_key=True, fix=Fix("rename it", edits))


def needs_both(config):
    if config.has("train_batch_size") != config.has("gradient_accumulation_steps"):
        yield Problem("one without the other")


def shouts(config):
    if config.has("pad"):
        yield Problem("pad", ("pad",), fix=Fix("shout", rename(config.document, ("pad",), "PAD")))


def refuses_shouts(config):
    if config.has("PAD"):
        yield Problem("PAD", ("PAD",))


@pytest.mark.parametrize("text", ['{%s"train_batch": 8, "steps": 2}\n', '{"train_batch": 8, "steps": 2%s}\n'])
def test_fixes_that_need_each_other_come_together(make_rule, text):
    """Either alone would bring an error, and a third spoils the first batch."""
    for code, one in enumerate((renames, renames_steps, needs_both, shouts, refuses_shouts), 901):
        make_rule(one, code=f"ZC{code}")
    pad = '"pad": 1, ' if text.startswith("{%s") else ', "pad": 1'
    new = text.replace("train_batch", "train_batch_size").replace("steps", "gradient_accumulation_steps")
    for written in ("", pad):
        result = fixed(text % written)
        assert result.document.text == new % written
        assert [one.rule.code for one in result.left_out] == (["ZC904"] if written else [])


def test_one_bad_fix_among_many_costs_few_checks(make_rule):
    def unpads(config):
        for key in [member.key for member in config.root.members if member.key.startswith("pad")]:
            yield Problem(f"padding {key}", (key,), fix=Fix("remove it", remove(config.document, (key,))))

    calls = []

    def counts(document):
        calls.append(document)
        yield from ()

    def needs_pad31(config):
        if not config.has("pad31"):
            yield Problem("pad31 is missing")

    make_rule(unpads)
    make_rule(counts, code="ZC902")
    make_rule(needs_pad31, code="ZC903")
    text = "{\n" + "".join(f'  "pad{n}": {n},\n' for n in range(64)) + '  "train_batch_size": 8\n}\n'
    result = fixed(text)
    assert result.document.text == '{\n  "pad31": 31,\n  "train_batch_size": 8\n}\n'
    assert len(calls) < 30
