"""Hostfiles that the launcher takes."""

from __future__ import annotations

import pytest

from zeroconf.document.read import parse_document
from zeroconf.lint import lint_document


def drawn(text):
    document = parse_document(text.encode(), "hostfile")
    assert document.kind == "hostfile"
    found = lint_document(document).findings
    return {(finding.rule.code, finding.severity) for finding in found if "hostfile" in finding.rule.needs}


@pytest.mark.parametrize(
    "text",
    [
        "worker-0 slots=8\nworker-1 slots=2  # smaller\n",
        "localhost slots=4\n",
        "10.0.0.1 slots=8\n10.0.0.2 slots=8\n",
        "node-1 slots=8 max_slots=8\nnode-2 slots=8, spare\nnode-3 slots=8#8\nuser@node-4 slots=8\nfe80:: slots=8\n",
        "shipyard slots=4\nip-10-0-0-1 slots=4\n",
    ],
)
def test_legal_hostfiles_draw_nothing(text):
    assert drawn(text) == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node-1 slots=8\nnode-2 slots=0\n", {("ZC295", "warning")}),
        ("node-1 slots=0\nnode-2 slots=8\n", {("ZC295", "error")}),
        ("127.0.0.1 slots=8\nnode-2 slots=8\n", {("ZC296", "info")}),
        ("node_ip slots=8\n", {("ZC297", "info")}),
        ("ip1 slots=8\nip2 slots=8\n", {("ZC297", "info")}),
        ("<host> slots=8\n", {("ZC297", "info")}),
        ("node-9, slots=8\n", {("ZC293", "error")}),
        ("node-9: slots=8\n", {("ZC293", "error")}),
        ("node-9 slots=8.5\n", {("ZC294", "warning")}),
        ("node-9 slots=1e1\n", {("ZC294", "warning")}),
    ],
)
def test_hosts_that_do_not_train(text, expected):
    assert drawn(text) == expected


def test_a_hosts_comma_goes_unless_the_host_is_there_already():
    found = lint_document(parse_document(b"node-1 slots=8\nnode-1, slots=8\nnode-2, slots=8\n", "hostfile")).findings
    assert [one.fix and [edit.text for edit in one.fix.edits] for one in found] == [None, ["node-2"]]
