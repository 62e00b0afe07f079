"""The programs that the wheel installs: hlosh, and hlosh under the names of XLA's tools (docs/COMPAT.md)."""
import os
import sys

from .module import HERE, program


def main():
    """Becomes the program; its name is the script's."""
    path = program()
    name = os.path.basename(sys.argv[0])
    os.execv(path, [path] + ([] if name in ("hlosh", "__main__.py") else [name]) + sys.argv[1:])


def check_gpu():
    """hlosh-check-gpu: becomes the script that the wheel carries."""
    script = str(HERE / "tree" / "check-gpu")
    os.execv(sys.executable, [sys.executable, script] + sys.argv[1:])
