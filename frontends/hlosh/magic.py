"""%hlosh in IPython and Jupyter: one shell per notebook, whose module, versions and settings stay from one cell to the next.

    %hlosh example softmax; pass algsimp     commands, as at the prompt
    %hlosh -m f                              the Python variable f (a lowered or compiled function, a path, an hlosh.Module) as a module
    %hlosh -m f speedup                      and a command on it
    %%hlosh                                  the cell's lines are commands
    %hlosh explore                           the explorer, in the notebook
"""
import atexit
import pathlib
import signal
import subprocess
import tempfile
import uuid

from .module import Module, Page, program

SHELL = None


class Shell:
    """A process of hlosh that reads commands."""

    def __init__(self):
        self.process = subprocess.Popen([program(), "--no-rc", "--keep-going", "--color=never"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)
        self.modules = []  # their files must stay

    def __call__(self, lines):
        """Runs the lines, prints what they say, and returns it."""
        mark = f"hlosh-{uuid.uuid4().hex}"
        try:
            self.process.stdin.write(("\n".join(lines) + f"\n!echo {mark}\n").encode())
            self.process.stdin.flush()
        except BrokenPipeError:
            return ""
        said = []
        while True:
            try:
                line = self.process.stdout.readline().decode("utf-8", "replace")
            except KeyboardInterrupt:
                self.process.send_signal(signal.SIGINT)  # the command's end, not the shell's
                continue
            if not line or line.rstrip("\n") == mark:
                break
            print(line, end="")
            said.append(line)
        return "".join(said)

    def close(self):
        self.process.stdin.close()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def shell():
    """The notebook's shell, started when there is none, or after `quit`."""
    global SHELL
    if SHELL is None or SHELL.process.poll() is not None:
        SHELL = Shell()
    return SHELL


def close():
    global SHELL
    if SHELL is not None:
        SHELL.close()
    SHELL = None


def hlosh(line, cell=None, namespace=None):
    """The magic: options, then commands. A page for the explorer, else None: what commands say is printed."""
    lines, words = [], line.split(None, 2)
    sh = shell()
    if words and words[0] == "-m":
        if len(words) < 2 or words[1] not in (namespace or {}):
            raise NameError(f"%hlosh -m NAME: {words[1] if len(words) > 1 else 'NAME'} is no variable")
        what = namespace[words[1]]
        module = what if isinstance(what, Module) else Module(what)
        sh.modules.append(module)
        lines += module._start(quiet=True) + module.done
        line = words[2] if len(words) > 2 else ""
    commands = [c for c in [line, *(cell or "").splitlines()] if c.strip()]
    last = commands[-1].split() if commands else []
    page = None
    if last and last[0] == "explore" and "-o" not in last and ";" not in commands[-1]:
        page = pathlib.Path(tempfile.mkdtemp(prefix="hlosh-")) / "page.html"
        commands[-1] += f" -o '{page}' > /dev/null"
    sh(lines + commands)
    if page is None:
        return None
    try:
        return Page(page.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None  # the command said why
    finally:
        if page.exists():
            page.unlink()
        page.parent.rmdir()


def register(ipython):
    from IPython.core.magic import no_var_expand

    @no_var_expand  # braces are HLO's
    def magic(line, cell=None):
        return hlosh(line, cell, ipython.user_ns)

    ipython.register_magic_function(magic, magic_kind="line_cell", magic_name="hlosh")
    atexit.register(close)


def unregister(ipython):
    for kind in ("line", "cell"):
        ipython.magics_manager.magics[kind].pop("hlosh", None)
    atexit.unregister(close)
    close()
