"""Writes the wheel: the Python packages of frontends/, and under hlosh/tree what `make dist` made. A wheel is a zip file with a list of
its files; nothing but the standard library is needed to write one, so no build tool, isolated environment or network is.

usage: python3 wheel.py TREE VERSION GLIBC OUT TOOL...     TOOL: a name of XLA's that the program answers to"""
import base64
import hashlib
import os
import pathlib
import platform
import sys
import time
import zipfile

FRONTENDS = pathlib.Path(__file__).resolve().parent.parent / "frontends"
ROOT = FRONTENDS.parent
# Not in the wheel: the packages lie beside the tree, and manual page and completion have no place where pip puts things.
LEFT_OUT = ("share/hlosh/python/", "share/man/", "share/bash-completion/", "share/zsh/", "lib/pkgconfig/", "README.txt")


class Wheel:
    def __init__(self, path, date):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.date, self.record = date, []

    def add(self, name, content, executable=False):
        info = zipfile.ZipInfo(name, self.date)
        info.external_attr = (0o100755 if executable else 0o100644) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}")


def main():
    tree, version, glibc, out, tools = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4]), sys.argv[5:]
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_{platform.machine()}"
    name, info = f"hlosh-{version}-{tag}.whl", f"hlosh-{version}.dist-info"
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("hlosh-*.whl"):
        old.unlink()
    w = Wheel(out / name, time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800))[:6])
    for path in sorted(FRONTENDS.rglob("*.py")):
        w.add(str(path.relative_to(FRONTENDS)), path.read_bytes())
    for path in sorted(tree.rglob("*")):
        place = path.relative_to(tree).as_posix()
        if path.is_file() and not path.is_symlink() and not place.startswith(LEFT_OUT):
            w.add(f"hlosh/tree/{place}", path.read_bytes(), os.access(path, os.X_OK))
    licenses = sorted((tree / "share/licenses/hlosh").iterdir())
    for path in licenses:
        w.add(f"{info}/licenses/{path.name}", path.read_bytes())
    readme = (ROOT / "docs" / "PYTHON.md").read_text(encoding="utf-8")
    readline = "; with GNU readline, which the program carries, GPL-3.0-or-later as a whole" if any(tree.glob("lib/*readline*")) else ""
    metadata = ["Metadata-Version: 2.4", "Name: hlosh", f"Version: {version}", "Summary: An interactive shell and profiler for XLA's HLO",
                "License: Apache-2.0" + readline + "; see licenses/PACKAGES",
                *(f"License-File: {p.name}" for p in licenses), "Requires-Python: >=3.9", "Requires-Dist: numpy",
                "Provides-Extra: jax", 'Requires-Dist: jax; extra == "jax"', "Provides-Extra: notebook", 'Requires-Dist: ipython; extra == "notebook"',
                "Keywords: jax,xla,hlo,compiler,profiler", "Classifier: Operating System :: POSIX :: Linux",
                "Description-Content-Type: text/markdown", "", readme]
    w.add(f"{info}/METADATA", "\n".join(metadata).encode())
    w.add(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: hlosh\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    scripts = "".join(f"{t} = hlosh.tools:main\n" for t in ["hlosh", *tools])
    w.add(f"{info}/entry_points.txt", f"[console_scripts]\n{scripts}hlosh-check-gpu = hlosh.tools:check_gpu\n\n"
                                      "[jax_plugins]\nhlosh = jax_plugins.hlosh\n".encode())
    record = "\n".join([*w.record, f"{info}/RECORD,,"]) + "\n"
    w.zip.writestr(zipfile.ZipInfo(f"{info}/RECORD", w.date), record)
    w.zip.close()
    size = (out / name).stat().st_size
    print(f"wheel: {out / name}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
