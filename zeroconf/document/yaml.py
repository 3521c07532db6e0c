"""YAML with the place of every value, read as PyYAML's ``safe_load`` reads it, which is YAML 1.1.

The nodes are built from PyYAML's events, so that neither depth, nor recursive anchors, nor a tower of aliases can
hang the linter, and so that second keys stay visible.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import yaml

from zeroconf.document.document import Mark
from zeroconf.document.json import duplicates
from zeroconf.document.node import Member, Node
from zeroconf.document.trouble import MAX_DEPTH, SyntaxTrouble, too_deep

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zeroconf.document.node import Path

_Loader: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_MAX_ALIASED = 100_000  # values that aliases may stand for; a file of nested aliases grows without bound
_COMMENT = re.compile(r"(?:^|(?<=[ \t\r\n]))#[^\r\n]*")
_ANCHOR = re.compile(r"&[^\s,\[\]{}]+\s*")
_MERGE = "tag:yaml.org,2002:merge"
_STRING = "tag:yaml.org,2002:str"
_VALUE = "tag:yaml.org,2002:value"


def read_yaml(text: str) -> tuple[Node, list[Mark]]:
    """The root value of the first document and the marks: comments, second keys, further documents.

    Raises:
        SyntaxTrouble: the text is no YAML, or ``safe_load`` cannot make values of it.
    """
    try:
        return _Reader(text).read()
    except yaml.MarkedYAMLError as error:
        raise _trouble(text, error) from None
    except yaml.reader.ReaderError as error:
        position = error.position
        if _Loader is not yaml.SafeLoader:  # libyaml counts bytes
            position = len(text.encode()[:position].decode(errors="ignore"))
        words = f"a character (U+{ord(text[position : position + 1] or '?'):04X}) that YAML does not allow"
        raise SyntaxTrouble(position, position + 1, words) from None


def scalars(text: str) -> Iterator[tuple[int, Any]]:
    """PyYAML's event of every scalar of a text that is YAML, with the number of its document, from 1."""
    documents = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
        elif isinstance(event, yaml.ScalarEvent):
            yield documents, event


class _Open:
    """A collection that is being read; ``key`` is the key of a mapping whose value comes next."""

    __slots__ = ("anchor", "key", "merged", "node", "size")

    def __init__(self, node: Node, anchor: str | None) -> None:
        self.node = node
        self.anchor = anchor
        self.key: tuple[str, int, int] | None = None
        self.merged: list[Member] = []
        self.size = 1


class _Reader:
    """One pass over the events; ``open`` holds the collections around the place, innermost last."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.loader = _Loader(text)
        self.marks: list[Mark] = []
        self.open: list[_Open] = []
        self.anchors: dict[str, tuple[Node, int]] = {}
        self.aliased = 0
        self.scalars: list[tuple[int, int]] = []
        self.root: Node | None = None

    def read(self) -> tuple[Node, list[Mark]]:
        """Every event; the nodes of the first document only."""
        documents = 0
        while True:
            event: Any = self.loader.get_event()
            kind = type(event)
            if kind is yaml.StreamEndEvent:
                break
            place = event.start_mark.index, event.end_mark.index
            if kind is yaml.DocumentStartEvent:
                documents += 1
                if documents == 2:
                    self.marks.append(Mark("second-document", *place))
            elif documents == 1:
                self._take(event)
            elif kind is yaml.ScalarEvent:
                self.scalars.append(place)
        if self.root is None:
            raise SyntaxTrouble(0, 0, "the file is empty", "empty")
        self.marks += self._comments()
        return self.root, self.marks

    def _take(self, event: Any) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.CollectionStartEvent):
            kind: Any = "mapping" if isinstance(event, yaml.MappingStartEvent) else "sequence"
            place: Any = event.end_mark
            node = Node(kind, [], self._start(event), place.index)
            if event.tag not in {None, "!", f"tag:yaml.org,2002:{'map' if kind == 'mapping' else 'seq'}"}:
                raise SyntaxTrouble(node.start, node.end, f"a tag that makes no plain {kind} of what follows it")
            self.open.append(_Open(node, event.anchor))
            if len(self.open) > MAX_DEPTH:
                raise too_deep(node.start)
            self._name(event, node, 0)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close(event)

    def _start(self, event: Any) -> int:
        """Behind the anchor, which is no part of the value."""
        start: int = event.start_mark.index
        anchor = _ANCHOR.match(self.text, start) if event.anchor else None
        return min(anchor.end(), event.end_mark.index) if anchor else start

    def _name(self, event: Any, node: Node, size: int) -> None:
        """Keeps a node under its anchor, with the number of values that an alias will stand for."""
        if not event.anchor:
            return
        if event.anchor in self.anchors:
            start = event.start_mark.index
            raise SyntaxTrouble(start, event.end_mark.index, f"a second anchor &{event.anchor}: PyYAML takes only one")
        self.anchors[event.anchor] = (node, size)

    def _scalar(self, event: Any) -> None:
        start, end = self._start(event), int(event.end_mark.index)
        tag = event.tag
        if tag is None or tag == "!":
            tag = self.loader.resolve(yaml.ScalarNode, event.value, event.implicit)
        if event.style in {"|", ">"}:
            end = start + len(self.text[start:end].rstrip())
        self.scalars.append((start, event.end_mark.index))
        value: Any = event.value
        holder = self.open[-1] if self.open else None
        is_key = holder is not None and holder.node.kind == "mapping" and holder.key is None
        if is_key and tag == _MERGE:
            value = _MERGE
        elif tag != _STRING and not (is_key and tag == _VALUE):
            value = self._constructed(event, tag)
        node = Node("scalar", value, start, end)
        self._name(event, node, 1)
        self._add(node, 1)

    def _constructed(self, event: Any, tag: str) -> Any:
        scalar = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark)
        try:
            return self.loader.construct_object(scalar, deep=True)
        except (ValueError, LookupError, AttributeError) as error:  # 2024-13-01; its own slips on !!int, !!bool x
            start, end = self._start(event), event.end_mark.index
            shown = event.value if len(event.value) <= 30 else event.value[:29] + "…"
            why = str(error).partition(";")[0] if isinstance(error, ValueError) else "a value does not fit its tag"
            words = f"PyYAML cannot make a value of {shown!a}: {why}"
            raise SyntaxTrouble(start, end, words) from None

    def _alias(self, event: Any) -> None:
        start, end = event.start_mark.index, event.end_mark.index
        if event.anchor not in self.anchors:
            raise SyntaxTrouble(start, end, f"the alias *{event.anchor} has no anchor &{event.anchor} before it")
        node, size = self.anchors[event.anchor]
        self.aliased += size
        if any(one.node is node for one in self.open):
            raise SyntaxTrouble(start, end, f"the alias *{event.anchor} stands inside what it names", "too-deep")
        if self.aliased > _MAX_ALIASED:
            raise SyntaxTrouble(start, end, f"the aliases stand for more than {_MAX_ALIASED} values", "too-deep")
        self._add(Node(node.kind, node.value, start, end), size)

    def _close(self, event: Any) -> None:
        done = self.open.pop()
        node = done.node
        if event.end_mark.index > event.start_mark.index:
            node.end = event.end_mark.index  # flow style: behind its bracket
        elif node.value:
            last = node.value[-1]
            node.end = last.node.end if isinstance(last, Member) else last.end
        if node.kind == "mapping":
            self.marks += duplicates(node.value, self._path())
            node.value[:0] = done.merged
        if done.anchor:
            self.anchors[done.anchor] = (node, done.size)
        self._add(node, done.size)

    def _add(self, node: Node, size: int) -> None:
        """A complete value goes into the collection around it, or is the root."""
        if not self.open:
            self.root = node
            return
        holder = self.open[-1]
        holder.size += size
        if holder.node.kind == "sequence":
            holder.node.value.append(node)
        elif holder.key is None:
            holder.key = (self._key(node), node.start, node.end)
        else:
            if holder.key[0] == _MERGE:
                holder.merged += self._merged(node)
            else:
                holder.node.value.append(Member(*holder.key, node))
            holder.key = None

    def _key(self, node: Node) -> str:
        """A key as a string; one that is no string for YAML (``no``, ``1``) as it is written."""
        if node.kind != "scalar":
            raise SyntaxTrouble(node.start, node.end, "a list or a mapping as a key: PyYAML cannot make a dict of it")
        return node.value if isinstance(node.value, str) else self.text[node.start : node.end]

    def _merged(self, node: Node) -> list[Member]:
        """The members that ``<<`` brings; of several mappings the first wins, so it comes last."""
        mappings = [node] if node.kind == "mapping" else node.items[::-1]
        if node.kind == "scalar" or any(mapping.kind != "mapping" for mapping in mappings):
            raise SyntaxTrouble(node.start, node.end, "<< takes a mapping or a list of mappings")
        return [member for mapping in mappings for member in mapping.members]

    def _path(self) -> Path:
        """The path of what is being read now."""
        return tuple(one.key[0] if one.key else len(one.node.value) for one in self.open)

    def _comments(self) -> list[Mark]:
        if "#" not in self.text:
            return []
        starts = [start for start, _ in self.scalars]
        marks = []
        for comment in _COMMENT.finditer(self.text):
            before = bisect_right(starts, comment.start()) - 1
            if before < 0 or comment.start() >= self.scalars[before][1]:
                marks.append(Mark("comment", *comment.span()))
        return marks


def _trouble(text: str, error: yaml.MarkedYAMLError) -> SyntaxTrouble:
    """A YAML error in words that name the slip."""
    mark = error.problem_mark or error.context_mark
    start = min(mark.index, len(text)) if mark else 0
    problem = error.problem or "no YAML"
    line = text[text.rfind("\n", 0, start) + 1 : start]
    if text[start : start + 1] == "\t" or ("\t" in line and not line.strip()):
        problem = "a tab where YAML takes only spaces"
    elif problem.startswith("mapping values are not allowed"):
        problem = "a second colon, or a key that is indented deeper than the ones above it"
    elif problem.startswith("could not determine a constructor"):
        problem = "a tag that PyYAML's safe_load does not know"
    elif error.context:
        problem = f"{problem} {error.context}"
    return SyntaxTrouble(start, min(start + 1, len(text)), problem)
