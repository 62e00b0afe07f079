#!/usr/bin/env python3
"""Writes real XLA's own text of HLO modules: OUT/NAME.default and OUT/NAME.large for every DIR/NAME.hlo that it parses.

usage: xla_text.py DIR OUT      needs jaxlib (make peers)

Each batch runs in a child process: XLA's parser ends the process on some inputs, and those are skipped by name.
"""
import os
import subprocess
import sys


def child(folder, out, names):
    from jaxlib import _hlo

    for name in names:
        print("start", name, flush=True)
        with open(os.path.join(folder, name), encoding="utf-8", errors="surrogateescape") as f:
            text = f.read()
        try:
            module = _hlo.hlo_module_from_text(text)
        except Exception:  # refused: nothing to compare with
            continue
        for kind, large in (("default", False), ("large", True)):
            options = _hlo.HloPrintOptions()
            options.print_large_constants = large
            with open(os.path.join(out, name[:-4] + "." + kind), "w", encoding="utf-8", errors="surrogateescape") as f:
                f.write(module.to_string(options))


def main():
    if sys.argv[1] == "--child":
        return child(sys.argv[2], sys.argv[3], sys.argv[4:])
    folder, out = sys.argv[1], sys.argv[2]
    os.makedirs(out, exist_ok=True)
    todo = sorted(n for n in os.listdir(folder) if n.endswith(".hlo"))
    while todo:
        batch = todo[:400]
        run = subprocess.run([sys.executable, __file__, "--child", folder, out] + batch, capture_output=True, text=True)
        started = [line[6:] for line in run.stdout.splitlines() if line.startswith("start ")]
        if run.returncode != 0 and started:
            print("XLA ended its process on", started[-1], file=sys.stderr)
            todo = todo[todo.index(started[-1]) + 1:]
        elif run.returncode != 0:
            print(run.stderr, file=sys.stderr)
            return 1
        else:
            todo = todo[len(batch):]
    return 0


sys.exit(main())
