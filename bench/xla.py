#!/usr/bin/env python3
"""Our cpu backend beside real XLA, as jaxlib has it and as the PJRT plug-in has it, in one trial per module.

usage: xla.py [--hlosh PATH] [--seconds S] [--p10] [--json OUT] FILE.hlo...

Each line is a module: the median milliseconds of hlosh (tuned pipeline), jaxlib (the better allocator) and the plug-in,
and theirs divided by ours. The programs of a module run in the same rounds of `speedup`, on the same arguments, and their
results are compared. A file of arguments beside the module (.args) is used. Last come the geometric means.
"""
import argparse
import json
import math
import os
import subprocess


def trials(hlosh, files, seconds):
    """The report of `speedup` for each file, from one session: its processes serve all modules."""
    p = subprocess.Popen([hlosh, '--json', '--keep-going'], stdin=subprocess.PIPE,
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    def ask(line):
        p.stdin.write(line + '\n')
        p.stdin.flush()
        answer = p.stdout.readline()
        return json.loads(answer) if answer else {'errors': [{'message': 'hlosh ended'}]}
    for path in files:
        lines = ['load ' + path, 'speedup --peer=both --seconds=%g' % seconds]
        args = os.path.splitext(path)[0] + '.args'
        if os.path.exists(args):
            lines.insert(1, 'inputs ' + args)
        d = {'status': 'ok'}
        for line in lines:
            d = ask(line) if d.get('status') == 'ok' else d
        yield path, d
    p.stdin.close()
    p.wait()


def geomean(v):
    return math.exp(sum(map(math.log, v)) / len(v)) if v else math.nan


def main():
    a = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    a.add_argument('files', nargs='+')
    a.add_argument('--hlosh', default='build/hlosh')
    a.add_argument('--seconds', type=float, default=6)
    a.add_argument('--p10', action='store_true', help='compare the fastest tenth, for a machine that is not quiet')
    a.add_argument('--json')
    o = a.parse_args()
    time = 'time_p10_ms' if o.p10 else 'time_ms'
    rows, ratios = [], {'xla': [], 'xla_plugin': []}
    print('%-40s %10s %10s %10s %8s %8s  allocator' %
          ('', 'hlosh ms', 'jaxlib', 'plug-in', 'jaxlib', 'plug-in'))
    for path, d in trials(o.hlosh, o.files, o.seconds):
        ours = d.get('optimized', {}).get(time)
        row = {'file': os.path.basename(path), 'hlosh_ms': ours}
        for key in ratios:
            theirs = d.get(key, {}).get(time)
            row[key + '_ms'] = theirs
            row[key + '_ratio'] = theirs / ours if ours and theirs else None
            if ours and theirs:
                ratios[key].append(theirs / ours)
        row['agree'] = d.get('results_agree', False)
        row['allocator'] = d.get('jax', {}).get('setting', '')
        failed = d.get('errors') or [d.get('xla', {}).get('error')]
        row['error'] = failed[0] and failed[0]['message']
        rows.append(row)
        text = ['-' if row[k] is None else '%.3f' % row[k] for k in
                ('hlosh_ms', 'xla_ms', 'xla_plugin_ms', 'xla_ratio', 'xla_plugin_ratio')]
        print('%-40s %10s %10s %10s %8s %8s  %s%s' %
              (row['file'], *text, row['allocator'],
               '' if row['agree'] else '  FAIL ' + str(row['error'])[:120]), flush=True)
    for key, name in (('xla', 'jaxlib'), ('xla_plugin', 'plug-in')):
        print('geomean of %s / hlosh over %d modules: %.2f' %
              (name, len(ratios[key]), geomean(ratios[key])))
    if o.json:
        with open(o.json, 'w') as f:
            json.dump(rows, f, indent=1)


if __name__ == '__main__':
    main()
