"""The worked examples of docs/BUILDING.md: each block is run as written, on the same arguments as a formula in plain Python.
Prints a line per example that differs and, last, how many agree. Usage: formulas.py HLOSH BUILDING.md"""
import ast, math, os, random, re, struct, subprocess, sys, tempfile, zipfile


def read_npy(path):
    """Elements in row-major order as a flat list."""
    data = open(path, "rb").read()
    size = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10 : 10 + size].decode())
    code = {"<f4": "f", "<i4": "i"}[head["descr"]]
    body = data[10 + size :]
    return list(struct.unpack("<%d%s" % (len(body) // 4, code), body))


def write_npy(path, values, dims):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % "".join("%d, " % d for d in dims)
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        f.write(struct.pack("<%df" % len(values), *values))


def rows(v, n):
    return [v[k : k + n] for k in range(0, len(v), n)]


def soft(r):
    e = [math.exp(a - max(r)) for a in r]
    return [a / sum(e) for a in e]


def softmax(x):
    return [[a for r in rows(x, 8) for a in soft(r)]]


def attention(q, k, v):
    out = []
    q, k, v = rows(q, 4), rows(k, 4), rows(v, 4)
    for i in range(6):
        p = soft([sum(a * b for a, b in zip(q[i], k[j])) / 2 for j in range(i + 1)])
        out += [sum(p[j] * v[j][d] for j in range(i + 1)) for d in range(4)]
    return [out]


def layernorm(x, gamma, beta):
    out = []
    for r in rows(x, 8):
        mean = sum(r) / 8
        var = sum((a - mean) ** 2 for a in r) / 8
        out += [(a - mean) / math.sqrt(var + 1e-5) * g + b for a, g, b in zip(r, gamma, beta)]
    return [out]


def ema(x):
    out, mean = [], 0.0
    for a in x:
        mean = 0.9 * mean + 0.1 * a
        out.append(mean)
    return [out]


def convnet(image, filt, dense):
    out = []
    for b in range(2):
        at = lambda y, x: image[b * 64 + y * 8 + x] if 0 <= y < 8 and 0 <= x < 8 else 0.0
        c = [[[max(0.0, sum(at(y + i - 1, x + j - 1) * filt[(i * 3 + j) * 4 + f] for i in range(3) for j in range(3)))
               for f in range(4)] for x in range(8)] for y in range(8)]
        flat = [max(c[2 * y + i][2 * x + j][f] for i in range(2) for j in range(2))
                for y in range(4) for x in range(4) for f in range(4)]
        logits = [sum(flat[k] * dense[k * 3 + o] for k in range(64)) for o in range(3)]
        total = math.log(sum(math.exp(a) for a in logits))
        out += [a - total for a in logits]
    return [out]


def own(x):
    r = rows(x, 8)
    return [[math.sqrt(sum(a * a for a in v)) for v in r], [v.index(max(v)) for v in r],
            [a for v in r for a in sorted(v, reverse=True)]]


def main():
    hlosh, page = os.path.abspath(sys.argv[1]), open(sys.argv[2]).read()
    blocks = re.findall(r"(?m)(?:^    .*\n(?:\n(?=    ))?)+", page)
    blocks = [re.sub(r"(?m)^    ", "", b) for b in blocks if b.lstrip().startswith("new ")]
    good = 0
    random.seed(7)
    for text in blocks:
        name = text.split()[1]
        params = re.findall(r"(?m)^param (\w+) f32\[([0-9,]+)\]", text)
        with tempfile.TemporaryDirectory() as tmp:
            args, given = [], []
            for p, dims in params:
                dims = [int(d) for d in dims.split(",")]
                values = [struct.unpack("<f", struct.pack("<f", random.uniform(-2, 2)))[0] for _ in range(math.prod(dims))]
                write_npy(os.path.join(tmp, p + ".npy"), values, dims)
                args.append(values)
                given.append("%s=%s.npy" % (p, p))
            script = text + "verify\ninputs %s\nrun -o out.npz\n" % " ".join(given)
            r = subprocess.run([hlosh], input=script, capture_output=True, text=True, cwd=tmp)
            if os.path.exists(os.path.join(tmp, "out.npz")):
                zipfile.ZipFile(os.path.join(tmp, "out.npz")).extractall(tmp)
            want = globals()[name](*args)
            files = sorted(f for f in os.listdir(tmp) if f.endswith(".npy") and f[:-4] not in [p for p, _ in params])
            got = [read_npy(os.path.join(tmp, f)) for f in files]
            worst = max([abs(a - b) / (1 + abs(b)) for g, w in zip(got, want) for a, b in zip(g, w)] or [math.inf])
            if r.returncode or [len(g) for g in got] != [len(w) for w in want] or not worst < 2e-6:
                print("FAIL %s: exit %d, largest error %g\n%s" % (name, r.returncode, worst, r.stderr))
            else:
                good += 1
    print("formulas: %d/%d" % (good, len(blocks)))
    return 0 if blocks and good == len(blocks) else 1


sys.exit(main())
