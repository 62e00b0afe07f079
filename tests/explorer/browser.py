"""A headless Chromium, driven over its DevTools protocol through two pipes: no port, no network, no
library. Missing is told by the missing program: Browser.find() is None then."""
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time


class Browser:
    @staticmethod
    def find():
        for name in ("chromium", "chromium-browser", "google-chrome"):
            if shutil.which(name):
                return shutil.which(name)
        return None

    def __init__(self, width=1600, height=1000):
        self.home = tempfile.mkdtemp(prefix="hlosh-browser-")
        in_read, self.to = os.pipe()
        self.back, out_write = os.pipe()

        def ends():  # 3 and 4 are where it looks; the copies keep them from being closed
            a, b = os.dup(in_read), os.dup(out_write)
            os.dup2(a, 3), os.dup2(b, 4)

        self.process = subprocess.Popen(
            [self.find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-background-networking", "--remote-debugging-pipe",
             "--user-data-dir=" + self.home, "--window-size=%d,%d" % (width, height), "about:blank"],
            preexec_fn=ends, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(in_read), os.close(out_write)
        self.number, self.buffer, self.events = 0, b"", []
        target = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"][0]
        self.session = None
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        self.call("Page.enable"), self.call("Runtime.enable"), self.call("Network.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            if time.time() > deadline:
                raise TimeoutError("the browser does not answer")
            block = os.read(self.back, 1 << 20)
            if not block:
                raise EOFError("the browser has ended")
            self.buffer += block
        line, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(line)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if getattr(self, "session", None):
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.receive(time.time() + 60)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(method + ": " + answer["error"]["message"])
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def wait(self, event, seconds=30):
        end = time.time() + seconds
        while not any(e["method"] == event for e in self.events):
            answer = self.receive(end)
            if "method" in answer:
                self.events.append(answer)

    def load(self, path):
        """Opens a file; milliseconds until its program has run and the first picture is drawn."""
        self.events = []
        begin = time.time()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait("Page.loadEventFired", 60)
        self.eval("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return 1e3 * (time.time() - begin)

    def eval(self, expression):
        r = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in r:
            d = r["exceptionDetails"]
            raise RuntimeError(d.get("exception", {}).get("description", d["text"]))
        return r["result"].get("value")

    def complaints(self):
        """What the page threw or logged as an error, and every address it asked for but its own."""
        out = []
        for e in self.events:
            if e["method"] == "Runtime.exceptionThrown":
                d = e["params"]["exceptionDetails"]
                out.append(d.get("exception", {}).get("description", d["text"]))
            if e["method"] == "Network.requestWillBeSent":
                url = e["params"]["request"]["url"]
                if not url.startswith(("file:", "data:", "blob:")):
                    out.append("asked for " + url)
        return out

    def click(self, x, y, count=1):
        for kind in ("mousePressed", "mouseReleased") * count:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=count)

    def key(self, key, text=None):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)
