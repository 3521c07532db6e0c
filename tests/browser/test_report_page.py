"""The report in a real browser: what it shows is what zeroconf decided, and everyone can use it."""

from __future__ import annotations

import json
import re

import pytest

from zeroconf import api
from zeroconf.plan.choose import decide
from zeroconf.plan.reasons import title
from zeroconf.plan.scenarios import scenarios
from zeroconf.render.legend import stage_words
from zeroconf.render.text import faster_words
from zeroconf.units import gib, seconds

PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True}
DARK = {"color_scheme": "dark"}


def choose(page, group, value):
    page.locator(f"#pick-{group} label", has=page.locator(f"input[value='{value}']")).click()


def verdict(page):
    return page.locator("#verdict").inner_text()


def peaks(page):
    return page.locator("#memory-chart .row .value b").all_inner_texts()


def without_offload(decision):
    best = {}
    for candidate in decision.candidates:
        if candidate.plan.offload == "none" and candidate.plan.zero_hpz_partition_size == 1:
            best[candidate.plan.stage] = candidate
    return [best[stage] for stage in sorted(best)]


def test_it_shows_the_decision(visit, reports):
    page = visit("node")
    decision = decide(reports["node"][0])
    chosen = decision.chosen
    assert page.locator("h1").inner_text() == "llama-3.1-8b on 8 A100-SXM4-80GB in one node"
    assert verdict(page) == f"Chosen: {title(chosen.plan)}, comfortable."
    assert peaks(page) == [gib(one.estimate.gpu.peak_allocated_bytes) for one in without_offload(decision)]
    rows = page.locator("#candidates-table tbody tr")
    assert rows.count() == len(decision.candidates)
    assert page.locator("#candidates-table tr.chosen").inner_text().split("\t")[:3] == ["2", "none", chosen.plan.split]
    assert page.locator("#reasons-table tbody tr").count() == len(decision.reasons)


def test_bars_are_as_long_as_the_figures(visit, reports):
    page = visit("node")
    estimates = [one.estimate for one in without_offload(decide(reports["node"][0]))]
    page.wait_for_function("document.getAnimations().length === 0")
    widths = page.locator("#memory-chart .bar").evaluate_all(
        "bars => bars.map(bar => [...bar.children].reduce((sum, part) => sum + part.getBoundingClientRect().width, 0))"
    )
    line = page.locator("#memory-chart .limit.card-end").first.bounding_box()
    track = page.locator("#memory-chart .row .track").nth(1).bounding_box()
    card = line["x"] - track["x"]
    for width, cost in zip(widths, estimates, strict=True):
        share = cost.gpu.peak_allocated_bytes / cost.capacity_bytes
        assert width / card == pytest.approx(share, abs=0.02)


@pytest.mark.parametrize("name", ["node", "network", "nothing"])
def test_every_case_of_the_map_is_decided_as_zeroconf_decides(visit, reports, name):
    page = visit(name)
    for facts in scenarios(reports[name][0]):
        cluster, decision = facts.cluster, decide(facts)
        key = f"{cluster.num_gpus} {cluster.network.name}" if cluster.network else str(cluster.num_gpus)
        cell = page.locator(f"#map button[data-case='{key}']")
        if decision.chosen is None:
            assert cell.inner_text() == "does not fit"
            continue
        plan, step = decision.chosen.plan, decision.chosen.estimate.step
        stage = f"stage {stage_words(plan)}" if plan.stage else "DDP"
        offload = " + offload" if plan.offload != "none" else ""
        assert cell.inner_text().splitlines() == [stage + offload, seconds(step.seconds_per_sample)]


def test_a_switch_redraws_the_whole_page(visit, reports):
    page = visit("node")
    before = peaks(page)
    choose(page, "gpus", 64)
    choose(page, "network", "10gbe")
    wanted = next(
        facts
        for facts in scenarios(reports["node"][0])
        if facts.cluster.num_gpus == 64 and facts.cluster.network.name == "10gbe"
    )
    chosen = decide(wanted).chosen
    assert verdict(page) == f"Chosen: {title(chosen.plan)}, comfortable."
    assert gib(chosen.estimate.gpu.peak_allocated_bytes) in page.locator("#tiles").inner_text()
    assert peaks(page) != before
    assert "64 A100" in page.locator("h1").inner_text()
    lit = page.locator("#tree li.lit > .box").all_inner_texts()
    assert any(text.startswith(f"Chosen: {title(chosen.plan)}") for text in lit)
    page.locator("#reset").click()
    assert peaks(page) == before


@pytest.mark.parametrize(("name", "other"), [("node", 64), ("offload", 4)])
def test_the_faster_tight_plan_stands_in_the_tree_of_the_given_case(visit, reports, name, other):
    page, faster = visit(name), decide(reports[name][0]).faster_tight
    told = page.locator("#tree .box", has_text="Faster but tight: ")
    assert told.all_inner_texts() == ([faster_words(faster)] if faster else [])
    choose(page, "gpus", other)
    assert told.count() == 0


def test_stage_and_offload_are_selected(visit):
    page = visit("node")
    choose(page, "stage", 3)
    assert page.locator("#memory-chart .row.selected .name").inner_text() == "Stage 3"
    assert page.locator("#detail-words").inner_text().startswith("Stage 3:")
    choose(page, "offload", "optimizer")
    assert page.locator("#detail-words").inner_text().startswith("Stage 3, optimizer on the CPU:")
    assert "stage 0 has no offload" in page.locator("#memory-chart").inner_text()
    choose(page, "stage", 0)
    assert "no such plan" in page.locator("#detail-words").inner_text()


def test_a_users_file_stands_beside(visit, reports):
    page = visit("file")
    (cost,) = api.estimate(reports["file"][0], reports["file"][1].parent / "mine.json")[1]
    row = page.locator("#memory-chart .row").last
    assert row.locator(".name").inner_text() == "mine.json"
    assert peaks(page)[-1] == gib(cost.gpu.peak_allocated_bytes)
    assert re.search(r"mine.json: stage 3, optimizer on the CPU, comfortable, 1\.\d\dx the time\.$", verdict(page))
    choose(page, "stage", "own")
    assert seconds(cost.step.seconds_per_sample) in page.locator("#detail-words").inner_text()
    choose(page, "gpus", 4)
    assert "counted for the given case only" in page.locator("#memory-chart").inner_text()
    assert "mine.json" not in verdict(page)


def test_on_one_node_the_network_is_not_asked(visit):
    page = visit("node")
    assert page.locator("#pick-network input:enabled").count() == 0
    choose(page, "gpus", 16)
    assert page.locator("#pick-network input:disabled").count() == 0


def test_the_keyboard_is_enough(visit):
    page = visit("network")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent").startswith("Skip to")
    page.locator("#pick-stage input:checked").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#memory-chart .row.selected .name").inner_text() == "Stage 2"
    cell = page.locator("#map button[data-case='32 1gbe']")
    cell.focus()
    page.keyboard.press("Enter")
    assert cell.get_attribute("aria-pressed") == "true"
    assert page.evaluate("document.activeElement.dataset.case") == "32 1gbe"
    assert (
        page.locator("#announce")
        .inner_text()
        .startswith("llama-3.1-8b on 32 A100-SXM4-80GB in 8 nodes of 4 over 1gbe.")
    )


def test_an_address_keeps_what_is_shown(visit):
    page = visit("node")
    choose(page, "gpus", 16)
    choose(page, "network", "1gbe")
    choose(page, "stage", 3)
    address = page.url
    assert address.endswith("#gpus=16&network=1gbe&stage=3&offload=none")
    again = visit("node", fragment=address[address.index("#") :])
    assert again.locator("#detail-words").inner_text() == page.locator("#detail-words").inner_text()
    assert "over 1gbe" in again.locator("h1").inner_text()


def test_back_at_the_bare_address_is_the_given_case(visit):
    page = visit("node")
    page.evaluate("location.hash = 'gpus=16&network=1gbe&stage=3&offload=none'")
    page.wait_for_function("() => document.querySelector('h1').textContent.includes('on 16')")
    page.go_back()
    page.wait_for_function("() => document.querySelector('h1').textContent.includes('on 8')")
    assert verdict(page) == "Chosen: stage 2, comfortable."


def test_what_a_screen_reader_meets(visit):
    page = visit("node")
    rows = page.get_by_role("list", name="Memory of one GPU").get_by_role("listitem")
    assert [row.split()[0] for row in rows.all_inner_texts()] == ["DDP", "Stage", "Stage", "Stage"]
    assert page.get_by_role("radio", name="8 (as given)").is_checked()
    label = page.get_by_role("img", name=re.compile("^GiB")).get_attribute("aria-label")
    assert label.startswith("GiB. DDP: 1 GPU ")


@pytest.mark.parametrize("fragment", ["#gpus=7", "#nonsense", "#gpus=16&network=none&stage=9&offload=all", "#%"])
def test_an_odd_address_shows_the_given_case(visit, fragment):
    page = visit("node", fragment=fragment)
    assert re.match(r"llama-3.1-8b on (8|16) A100", page.locator("h1").inner_text())


def test_the_cures_stand_with_the_given_case_alone(visit, reports):
    page = visit("nothing")
    cures = api.decide(reports["nothing"][0]).cures
    assert page.locator("#cures-table tbody tr").count() == len(cures) > 0
    assert verdict(page).startswith("Nothing fits.")
    choose(page, "gpus", 8)
    assert page.locator("#cures-section").is_hidden()
    assert verdict(page).startswith("Chosen: stage 3")


def test_light_and_dark(visit):
    grounds = {}
    for scheme in ("light", "dark"):
        page = visit("node", color_scheme=scheme)
        grounds[scheme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert grounds["light"] != grounds["dark"]
    page.locator("#theme").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == grounds["light"]


@pytest.mark.parametrize("name", ["node", "network", "nothing", "offload"])
def test_it_fits_a_phone(visit, name):
    page = visit(name, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_long_name_stays_in_the_window(visit, reports, tmp_path):
    config = tmp_path / f"{'of my cluster ' * 10}.json"
    config.write_bytes((reports["file"][1].parent / "mine.json").read_bytes())
    path = tmp_path / "report.html"
    path.write_text(api.report(reports["node"][0], config), encoding="utf-8")
    page = visit(path=path, **PHONE)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_enlarged_the_controls_do_not_cover_the_page(visit):
    position = "getComputedStyle(document.getElementById('controls')).position"
    assert visit("file", viewport={"width": 1280, "height": 900}).evaluate(position) == "sticky"
    assert visit("file", viewport={"width": 640, "height": 450}).evaluate(position) == "static"


def test_words_of_the_lines_stay_in_the_chart_when_the_card_is_small(visit):
    page = visit("hopeless")
    choose(page, "offload", "none")
    chart = page.locator("#memory-chart").bounding_box()
    words = page.locator("#memory-chart .limits-row span.card-end")
    assert words.inner_text() == "card, 23.6 GiB; 80%: comfortable"
    for mark in page.locator("#memory-chart .limits-row span").all():
        assert not mark.inner_text() or mark.bounding_box()["x"] >= chart["x"]


@pytest.mark.parametrize("name", ["node", "network"])
def test_one_kind_has_one_colour(visit, name):
    page = visit(name)
    colour = "[item.innerText, getComputedStyle(item.firstChild).backgroundColor]"
    read = f"items => Object.fromEntries(items.map(item => {colour}))"
    held = page.locator("#memory-legend li").evaluate_all(read)
    sent = page.locator("#traffic-legend li").evaluate_all(read)
    assert (sent["weights"], sent["gradients"]) == (held["parameters"], held["gradients"])
    assert len(set(sent.values())) == len(sent)


def test_forced_colours_leave_the_parts_apart(visit):
    page = visit("node", forced_colors="active")
    parts = page.locator("#memory-chart .row").nth(1).locator(".bar i")
    read = "all => all.map(one => getComputedStyle(one).backgroundColor)"
    assert len(set(parts.evaluate_all(read))) == parts.count()
    assert len(set(page.locator("#pick-stage span").evaluate_all(read))) == 2


def test_the_textbook_says_what_it_does_not_count(visit):
    textbook = "119.7 GiB (it knows no offload and no adapters)"
    page = visit("offload")
    assert textbook in page.locator("#host-words").inner_text()
    assert textbook in page.locator(".figures[data-stage='3']").inner_text()
    assert "it knows no" not in visit("node").locator("main").inner_text()


def test_on_paper_it_says_what_is_shown(visit):
    page = visit("node", **DARK)
    page.emulate_media(media="print")
    assert page.locator("#controls").is_hidden()
    assert page.locator("#state").inner_text() == "Shown: 8 GPUs in one node; selected: stage 2, offload None."
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_without_scripts_the_text_is_there(visit):
    page = visit("file", java_script_enabled=False)
    assert "charts need JavaScript" in page.locator("main > noscript").inner_text()
    text = page.locator("pre").inner_text()
    assert ">  2      -               1 x 16" in text
    assert "mine.json\n" in text
    assert "Plan      stage 3, optimizer on the CPU" in text
    headings = page.get_by_role("heading", level=2).all_inner_texts()
    assert headings == ["The stages, for someone who meets ZeRO for the first time", "What this rests on"]
    assert page.get_by_role("button").count() == 0


def test_names_are_text(visit, tmp_path):
    folder = tmp_path / "<img src=x onerror=alert(1)><!--<script>"
    folder.mkdir()
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 512, "vocab_size": 32000}
    config |= {"num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 1024}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    facts, _ = api.load_facts({"model": str(folder), "hardware": "1xA100-80GB"})
    path = tmp_path / "report.html"
    path.write_text(api.report(facts), encoding="utf-8")
    page = visit(path=path)
    assert folder.name in page.locator("h1").inner_text()
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("options", [{}, DARK, PHONE], ids=["light", "dark", "phone"])
@pytest.mark.parametrize("name", ["file", "network", "nothing"])
def test_axe_finds_nothing(visit, axe, name, options):
    page = visit(name, **options)
    page.evaluate(axe)
    page.wait_for_function("document.getAnimations().length === 0")
    found = page.evaluate("axe.run()")
    assert found["passes"]
    assert [(one["id"], one["impact"], one["nodes"][0]["html"][:120]) for one in found["violations"]] == []


def test_axe_finds_nothing_after_a_switch_and_on_paper(visit, axe):
    page = visit("file", **DARK, reduced_motion="reduce")
    page.evaluate(axe)
    choose(page, "offload", "optimizer")
    choose(page, "stage", "own")
    for media in ("screen", "print"):
        page.emulate_media(media=media)
        assert [(one["id"], one["nodes"][0]["html"][:120]) for one in page.evaluate("axe.run()")["violations"]] == []
