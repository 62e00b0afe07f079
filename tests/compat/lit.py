"""XLA's lit tests as written: the RUN lines of hlo-opt, run_hlo_module and compute_cost of a folder of .hlo files, through FileCheck.
Lines of --platform=gpu and of test-only passes are left out, as are those of other tools (a file's lines are run in order, as lit
does, and what a line of another tool would have made is not there for the next). A failure is named with its cause.
Usage: lit.py HLOSH DIR...; prints `FAIL file: line: cause` and, last, `lit: P/T`. Exit 1 when something failed that known_lit.txt,
beside this file, does not name."""
import os, re, shutil, subprocess, sys, tempfile

TOOLS = ("hlo-opt", "run_hlo_module", "compute_cost")


def run_lines(path):
    """RUN lines with their continuations joined."""
    lines, open_line = [], None
    for text in open(path, errors="replace"):
        m = re.search(r"RUN:\s?(.*)", text)
        if not m:
            continue
        part = m.group(1).rstrip()
        if open_line is not None:
            part = open_line + " " + part.lstrip()
            open_line = None
        if part.endswith("\\"):
            open_line = part[:-1].rstrip()
        else:
            lines.append(part)
    return lines


def wanted(lines):
    """Whether a file's lines are of these tools, and none of what is left out."""
    text = "\n".join(lines)
    ours = re.search(r"(?<![\w-])(%s)(?![\w-])" % "|".join(TOOLS), text)
    return ours and not re.search(r"--platform=(gpu|CUDA)|test-only|-translate|_opt |fusion_to|test_correctness", text)


def known():
    """What does not hold, with its cause: FILE: CAUSE a line."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "known_lit.txt")
    pairs = [l.rstrip("\n").split(": ", 1) for l in open(path) if l.strip() and l[0] != "#"]
    return dict(pairs)


def main():
    hlosh = os.path.abspath(sys.argv[1])
    check = next((c for c in ["FileCheck"] + ["FileCheck-%d" % k for k in range(30, 10, -1)] + ["filecheck"] if shutil.which(c)), None)
    if not check:
        print("no FileCheck (apt-get install llvm, or pip install filecheck)")
        return 77
    excused, passed, total, bad = known(), 0, 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        tools = os.path.join(tmp, "bin")
        os.mkdir(tools)
        for t in TOOLS:
            os.symlink(hlosh, os.path.join(tools, t))
        os.symlink(shutil.which(check), os.path.join(tools, "FileCheck"))
        env = dict(os.environ, PATH=tools + ":" + os.environ["PATH"])
        env.pop("XLA_FLAGS", None)
        files = sorted(os.path.join(d, f) for d in sys.argv[2:] for f in os.listdir(d) if f.endswith(".hlo"))
        for path in files:
            lines = run_lines(path)
            if not wanted(lines):
                continue
            name, base = os.path.basename(path), os.path.join(tmp, os.path.basename(path))
            for line in lines:
                line = line.replace("%s", os.path.abspath(path)).replace("%S", os.path.dirname(os.path.abspath(path)))
                line = re.sub(r"%t", base, line)
                if re.search(r"\.hlo/\.\./\S+\.pb", line):
                    continue  # reads a file beside the test, which the folder does not have
                total += 1
                r = subprocess.run(["bash", "-o", "pipefail", "-c", line], env=env, capture_output=True, text=True, timeout=300)
                if r.returncode == 0:
                    passed += 1
                    continue
                said = [l for l in r.stderr.splitlines() if "error" in l or "hlo-opt:" in l] or r.stderr.splitlines() or ["exit %d" % r.returncode]
                print("FAIL %s: %s: %s" % (name, line.replace(tmp, "TMP")[:160], excused.get(name, said[0][:200])))
                bad += name not in excused
    print("lit: %d/%d" % (passed, total))
    return 1 if bad else 0


sys.exit(main())
