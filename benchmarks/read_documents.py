"""How long reading a file takes as it doubles: JSON, HJSON, YAML, broken and hostile texts. Time must double too.

Run: ``python benchmarks/read_documents.py [KILOBYTES]``; the largest text has eight times as many.
"""

from __future__ import annotations

import json
import sys
import time

from zeroconf.document.read import parse_document

CONFIG = {
    "train_batch_size": "auto",
    "fp16": {"enabled": "auto", "loss_scale": 0, "hysteresis": 2, "min_loss_scale": 1},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "pin_memory": True}, "x": [1, 2.5e8]},
}
MEMBER = json.dumps(CONFIG, indent=2)
HJSON = "{\n  // a note\n  name: some text\n  'stage': 2,\n  [1 2]: 3\n}".replace("[1 2]: 3", "list: [1 2]")
YAML = (
    "  - train_batch_size: auto # a note\n    zero_optimization: {stage: 3, lr: 1.0e-5}\n    fp16:\n      enabled: no\n"
)
SHAPES = {
    "JSON": lambda size: ("x.json", '{"a": [' + ", ".join([MEMBER] * (size // len(MEMBER))) + "]}"),
    "HJSON": lambda size: ("x.json", '{"a": [' + ", ".join([HJSON] * (size // len(HJSON))) + "]}"),
    "YAML": lambda size: ("x.yaml", "zero_optimization:\n" + YAML * (size // len(YAML))),
    "hostfile": lambda size: ("hostfile", "".join(f"node-{n} slots=8\n" for n in range(size // 16))),
    "truncated JSON": lambda size: ("x.json", '{"a": [' + ", ".join([MEMBER] * (size // len(MEMBER)))),
    "open brackets": lambda size: ("x.json", "[" * size),
    "open quotes": lambda size: ("x.json", "'" * size),
    "open comments": lambda size: ("x.json", "/*" * (size // 2)),
    "same keys": lambda size: ("x.json", "{" + '"a": 1, ' * (size // 8) + '"b": 2}'),
    "long number": lambda size: ("x.json", '{"a": ' + "9" * size + "}"),
    "long text": lambda size: ("x.json", '{"a": "' + "\\n" * (size // 2) + '"}'),
    "no line ends": lambda size: ("x.json", "{a: " + "b" * size),
    "NUL bytes": lambda size: ("x.json", "\0" * size),
    "slots": lambda size: ("x", "x" * size),
    "braces": lambda size: ("x.yaml", "{{" * (size // 2)),
}


def main() -> None:
    """One line a shape: seconds at each size."""
    size = int(sys.argv[1]) * 1000 if len(sys.argv) > 1 else 250_000
    sizes = [size * factor for factor in (1, 2, 4, 8)]
    print(f"{'':16}" + "".join(f"{size / 1e6:8.2f} MB" for size in sizes))
    for shape, made in SHAPES.items():
        times = []
        for size in sizes:
            name, text = made(size)
            content = text.encode()
            start = time.perf_counter()
            parse_document(content, name)
            times.append(time.perf_counter() - start)
        print(f"{shape:16}" + "".join(f"{seconds:9.3f} s" for seconds in times))


if __name__ == "__main__":
    main()
