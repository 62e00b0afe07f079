# Whether speedup, profile and memory give their tables on a backend: measured.py HLOSH BACKEND [--seconds S]
# [--limit S] FILE.hlo...
#
# For each module one session with the arguments beside it (NAME.args); --limit is the time of all three commands
# together. A command passes when it succeeds and its figures are complete: every row of speedup has a time and
# results agree; profile has one (0 where a run takes no longer than an empty call); memory has a peak. What does not is a line "FAIL COMMAND NAME: why".
# Last line: "measured: P/T", modules of which all three pass.
import argparse, json, os, subprocess, sys

ROWS = ('baseline', 'unoptimized', 'optimized')


def wrong_speedup(d):
    for row in ROWS:
        e = d[row].get('error')
        if e:
            return '%s: %s' % (row, e['message'])
        if not d[row]['time_ms'] > 0:
            return '%s has no time' % row
    return 'results differ' if d.get('results_agree') is False else None


def wrong_profile(d):
    if not d['kernels']:
        return 'no kernels'
    if d['late_share'] > 0.03:
        return '%.0f %% of the estimated time not reached in time' % (100 * d['late_share'])
    # an isolated kernel's time is less the time of a call, of which nothing may be left of a program that is no longer
    no_more_than_a_call = d['isolated'] and 0 < d['run_ms'] <= 2 * d['call_ms']
    return None if d['measured_ms'] > 0 or no_more_than_a_call else 'no time'


def wrong_memory(d):
    return None if d['current']['peak_bytes'] > 0 else 'no peak'


WRONG = {'speedup': wrong_speedup, 'profile': wrong_profile, 'memory': wrong_memory}


def session(hlosh, backend, seconds, limit, path):
    """Yields (command, what is wrong) of one module."""
    args = os.path.splitext(path)[0] + '.args'
    lines = ['inputs ' + args] if os.path.exists(args) else []
    lines += ['backend ' + backend, 'speedup --seconds=%g' % seconds, 'profile --seconds=%g' % seconds, 'memory']
    p = subprocess.Popen([hlosh, '--no-rc', '--json', '--keep-going', path, '-c', '; '.join(lines)],
                         stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        out = p.communicate(timeout=limit)[0]
        ended = 'no answer (exit %d)' % p.returncode
    except subprocess.TimeoutExpired:
        p.terminate()
        out = p.communicate()[0]
        ended = 'no answer in %g s' % limit
    seen = {}
    for line in out.splitlines():
        try:
            d = json.loads(line)
        except ValueError:
            continue
        seen[d['command'] if d['status'] == 'ok' or d['command'] in WRONG else 'other'] = d
    if 'other' in seen:
        yield 'session', seen['other']['errors'][0]['message']
    for command, wrong in WRONG.items():
        d = seen.get(command)
        if not d:
            yield command, ended
        elif d['status'] != 'ok':
            yield command, d['errors'][0]['message']
        elif wrong(d):
            yield command, wrong(d)


def main():
    p = argparse.ArgumentParser()
    p.add_argument('hlosh')
    p.add_argument('backend')
    p.add_argument('files', nargs='+')
    p.add_argument('--seconds', type=float, default=0.2)
    p.add_argument('--limit', type=float, default=200)
    o = p.parse_args()
    good = 0
    for path in o.files:
        bad = list(session(o.hlosh, o.backend, o.seconds, o.limit, path))
        good += not bad
        for command, why in bad:
            print('FAIL %s %s: %s' % (command, os.path.basename(path), why), flush=True)
    print('measured: %d/%d' % (good, len(o.files)))
    return good != len(o.files)


sys.exit(main())
