"""Reads portable artifacts with jaxlib, beside the texts that they were made of.

usage: artifacts.py VERSION FILE.mlirbc...
Each NAME.mlirbc must be what stablehlo.deserialize_portable_artifact reads, and the module that it
makes of NAME.mlir as jaxlib writes that for the version: attributes that say the usual are left out
of both. Operations of chlo are composites in artifacts: of such a module the operations are
compared by their number. Prints "FAIL FILE: reason" and last "jaxlib: P/T"; ends with 77 where
jaxlib is missing.
"""
import os
import sys

from stablehlo import context, ir, stablehlo  # ends with 77 where jaxlib is missing


def operations(text):
    """How many lines begin an operation, the declared decompositions apart."""
    lines = text.splitlines()
    return sum(" = " in line or "return" in line for line in lines)


def compare(name, version):
    with open(name, "rb") as f:
        ours = f.read()
    with open(name[: -len("bc")]) as f:
        text = ir.Module.parse(f.read())
    composites = "chlo." in str(text)
    artifacts = [ours]
    if not composites:
        artifacts.append(stablehlo.serialize_portable_artifact(text, version))
    modules = [stablehlo.deserialize_portable_artifact(ir.Context.current, a) for a in artifacts]
    modules[0].operation.verify()
    made, wanted = (str(m) for m in (modules + [text])[:2])
    if composites:
        if operations(made) != operations(wanted):
            raise ValueError("%d operations, not %d" % (operations(made), operations(wanted)))
    elif made != wanted:
        pairs = zip(made.splitlines(), wanted.splitlines())
        raise ValueError(next((a + " | " + b for a, b in pairs if a != b), "lengths differ"))


def main(version, files):
    good = 0
    with context():
        for name in files:
            try:
                compare(name, version)
                good += 1
            except Exception as error:  # whatever jaxlib raises is the file's failure
                print("FAIL", os.path.basename(name) + ":", " ".join(str(error).split())[:600])
    print("jaxlib: %d/%d" % (good, len(files)))
    return 0 if good == len(files) else 1


sys.exit(main(sys.argv[1], sys.argv[2:]))
