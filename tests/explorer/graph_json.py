#!/usr/bin/env python3
"""`plot -o x.json` against Model Explorer itself (pip install ai-edge-model-explorer): every field is
one of its graph classes', every edge begins at a node of its graph, every subgraph is there.

    graph_json.py HLOSH [MODULE...]

Exit 77 where it is not installed; HLOSH_MODEL_EXPLORER names a folder that holds the package."""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile


def graph_builder():
    """Its graph_builder.py alone: the package itself wants a graphics stack."""
    own = os.environ.get("HLOSH_MODEL_EXPLORER")
    if own:
        path = os.path.join(own, "model_explorer", "graph_builder.py")
    else:
        found = importlib.util.find_spec("model_explorer")
        path = found and os.path.join(os.path.dirname(found.origin), "graph_builder.py")
    if not path or not os.path.exists(path):
        return None
    spec = importlib.util.spec_from_file_location("graph_builder", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["graph_builder"] = module
    spec.loader.exec_module(module)
    return module


def check(gb, data):
    assert set(data) == {"label", "graphs"} and data["graphs"]
    ids = [g["id"] for g in data["graphs"]]
    assert len(set(ids)) == len(ids)
    for g in data["graphs"]:
        nodes = []
        for n in g["nodes"]:
            kept = dict(n)
            kept["attrs"] = [gb.KeyValue(**x) for x in n["attrs"]]
            kept["incomingEdges"] = [gb.IncomingEdge(**x) for x in n["incomingEdges"]]
            kept["outputsMetadata"] = [gb.MetadataItem(id=x["id"], attrs=[gb.KeyValue(**y) for y in x["attrs"]]) for x in n["outputsMetadata"]]
            nodes.append(gb.GraphNode(**kept))
        graph = gb.Graph(id=g["id"], nodes=nodes)
        names = {n.id for n in graph.nodes}
        assert len(names) == len(nodes), "ids are not unique"
        for n in graph.nodes:
            assert all(e.sourceNodeId in names for e in n.incomingEdges), n.id
            assert all(s in ids for s in n.subgraphIds), n.id
    return sum(len(g["nodes"]) for g in data["graphs"])


def main():
    gb = graph_builder()
    if gb is None:
        print("no ai-edge-model-explorer")
        return 77
    hlosh, modules = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "m.json")
        for m in modules or ["example mlp; pipeline cpu", "example attention"]:
            line = [m, "-c", "plot -o " + path] if modules else ["-c", m + "; plot -o " + path]
            subprocess.run([hlosh, "--no-rc"] + line, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            print("%s: %d nodes" % (m, check(gb, json.load(open(path)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
