"""Debian's Chromium, driven over a pipe by its DevTools protocol: pages are opened, asked by
JavaScript, and pictured."""

import base64
import fcntl
import json
import os
import shutil
import subprocess

from berth import PATIENCE, wait_until


class Chromium:
    """Use as a context manager. `folder` holds its profile."""

    def __init__(self, folder, width=1280, height=1000, dark=False):
        if not shutil.which("chromium"):
            raise AssertionError("chromium is not installed: ./quickstart check-more installs it")
        self.number = 0
        self.events = []
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()

        def arrange():
            # As descriptors 3 and 4, whatever numbers they had.
            above = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (theirs_in, theirs_out)]
            for number, fd in enumerate(above, 3):
                os.dup2(fd, number)

        self.process = subprocess.Popen(
            ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu",
                "--disable-dev-shm-usage", "--no-first-run",
             "--disable-background-networking", "--remote-debugging-pipe",
             f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=arrange, close_fds=False,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self.reader, self.writer = os.fdopen(ours_in, "rb"), os.fdopen(ours_out, "wb")
        self.rest = b""
        self.session = None
        targets = wait_until(lambda: [one for one in self.call("Target.getTargets")["targetInfos"]
            if one["type"] == "page"], "a page is there")
        self.session = self.call("Target.attachToTarget", targetId=targets[0]["targetId"],
            flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
            deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.session = None
            self.call("Browser.close")
        except (AssertionError, OSError):
            self.process.kill()
        self.process.wait(PATIENCE)
        self.reader.close()
        self.writer.close()

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.writer.write(json.dumps(message).encode() + b"\0")
        self.writer.flush()
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def receive(self):
        while b"\0" not in self.rest:
            more = os.read(self.reader.fileno(), 1 << 16)
            if not more:
                raise AssertionError("chromium ended")
            self.rest += more
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def open(self, url):
        self.call("Page.navigate", url=url)

    def ask(self, expression):
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
            awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def text(self):
        return self.ask("document.body ? document.body.innerText : ''")

    def tab(self):
        """Presses the key that moves the focus on."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab",
                windowsVirtualKeyCode=9)

    def heard(self):
        """What a screen reader is told of: (role, name), in the order of the page."""
        nodes = self.call("Accessibility.getFullAXTree")["nodes"]
        return [(node["role"]["value"], node.get("name", {}).get("value", ""))
            for node in nodes if not node["ignored"]]

    def picture(self, file):
        """Takes the whole page, also what is below the window."""
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        file.write_bytes(base64.b64decode(data))

    def complaints(self):
        """What the browser's console would show: errors, and violations of the policy."""
        self.ask("0")
        found = [event["params"]["entry"] for event in self.events
            if event.get("method") == "Log.entryAdded"]
        return [entry["text"] for entry in found if entry["level"] in ("error", "warning")] + [
            event["params"]["exceptionDetails"]["text"] for event in self.events
            if event.get("method") == "Runtime.exceptionThrown"]

    def requested(self):
        return [event["params"]["request"]["url"] for event in self.events
            if event.get("method") == "Network.requestWillBeSent"]

