"""The status page in a real browser: it shows what the agent says, follows it, and does nothing
that its policy forbids."""

import collections
import itertools
import json
import os
import pathlib
import socket
import subprocess
import unittest

from berth import BUILD, PATIENCE, AgentTest, berth, exists, service_record, wait_until
from chromium import Chromium
from ports import reserve_port


SHOP = "/users/joe/shop/prod/components"
# A text of each view, by its place.
VIEWS = {"": "web-1", "#/": "users", f"#{SHOP}": "eu-1/rack1", f"#{SHOP}/c1": "yarn:persistence"}


class Page(AgentTest):
    def setUp(self):
        super().setUp()
        self.port = reserve_port(self)
        self.url = f"http://127.0.0.1:{self.port}/"
        self.flag = self.folder / "flag"
        self.flag.write_text("")

    def start(self, check, **sections):
        agent = self.web_agent(check=check, description="a web server",
            extra={"agent": {"listen": f"127.0.0.1:{self.port}"}, **sections})
        agent.start()
        agent.wait_state("registered")
        return agent

    def shows(self, browser, text):
        wait_until(lambda: text in browser.text(), f"the page shows {text!r}")

    def browser(self, **options):
        browser = Chromium(self.folder / f"profile{len(list(self.folder.glob('profile*')))}",
            **options)
        self.addCleanup(browser.__exit__)
        return browser

    def test_it_shows_the_agent_and_follows_it(self):
        agent = self.start(exists(self.flag))
        browser = self.browser()
        browser.open(self.url)
        self.shows(browser, "web-1")
        self.shows(browser, agent.PATH)
        self.shows(browser, "alive")
        self.assertEqual(browser.ask("document.getElementById('overall').textContent"),
            "registered")
        self.shows(browser, "http://127.0.0.1:8080/")  # what is announced
        wait_until(lambda: socket.gethostname() in browser.ask(
            "document.getElementById('registry').innerText"), "the page says which host it is")
        self.check_history(browser)
        self.flag.unlink()
        self.shows(browser, "withdrawn")
        self.shows(browser, "0 of 1 registered")
        self.flag.write_text("")
        wait_until(lambda: browser.ask("document.getElementById('overall').textContent")
            == "registered", "it is registered again")
        self.assertEqual(berth("--socket", agent.socket, "drain", "--reason",
            "<b>new</b> disk").returncode, 0)
        self.shows(browser, "<b>new</b> disk")  # as text
        self.assertEqual(browser.ask("document.querySelectorAll('main b').length"), 0)
        self.assertEqual(agent.stop(), 0)
        self.shows(browser, "no answer from the agent")
        self.assertTrue(all(url.startswith(self.url) for url in browser.requested()),
            browser.requested())

    def check_history(self, browser):
        self.shows(browser, "\u2192")
        history = browser.ask("[...document.querySelectorAll('#history tbody tr')]"
            ".map(one => one.innerText)")
        self.assertFalse([line for line in history if "writing" in line], history)
        times = browser.ask("[...document.querySelectorAll('#history .time')]"
            ".map(one => one.title)")
        self.assertTrue(times)
        for time in times:
            self.assertRegex(time, r"^\d{4}-\d\d-\d\dT[\d:.]+Z$")

    def test_it_comes_back_with_the_agent(self):
        agent = self.start("true")
        browser = self.browser()
        browser.open(self.url)
        self.shows(browser, "web-1")
        agent.stop()
        self.shows(browser, "no answer from the agent")
        agent.start()
        agent.wait_state("registered")
        wait_until(lambda: browser.ask("document.getElementById('overall').textContent")
            == "registered", "the page has found the agent")

    def put_shop(self):
        for number in range(3):
            self.put(f"{SHOP}/c{number}", service_record(f"10.0.0.{number}", 8080,
                **{"berth:zone": f"eu-1/rack{number}"}))

    def test_the_registry_is_a_tree_of_links(self):
        agent = self.start("true")
        self.put_shop()
        self.put(f"{SHOP}/bad", service_record("10.0.0.9", 1, description="<b>bold</b>",
            external=[{"api": "bad", "addressType": "uri", "protocol": "http",
                "addresses": [{"uri": "javascript:alert(1)"}]}]))
        browser = self.browser()
        browser.open(self.url)
        self.shows(browser, "web-1")
        browser.ask("document.getElementById('to-registry').click()")
        for name in SHOP[1:].split("/"):
            link = f"[...document.querySelectorAll('#nodes a')].find(one => one.text === '{name}')"
            wait_until(lambda: browser.ask(f"!!{link}"), f"{name} is a link")
            browser.ask(f"{link}.click()")
        self.shows(browser, "10.0.0.1:8080")
        self.shows(browser, "eu-1/rack1")
        self.shows(browser, "<b>bold</b>")
        self.shows(browser, "live")
        links = browser.ask("[...document.querySelectorAll('#nodes a')].map(one => one.href)")
        self.assertIn("http://10.0.0.2:8080/", links)
        self.assertFalse([one for one in links if one.startswith("javascript")], links)
        # A node that comes or goes is seen at once, here and in its own view.
        self.put(f"{SHOP}/later", service_record("10.0.0.77", 8080))
        self.shows(browser, "10.0.0.77:8080")
        browser.open(f"{self.url}#{SHOP}/later")
        self.shows(browser, '"yarn:persistence"')
        self.shows(browser, "Written")
        self.put(f"{SHOP}/later", service_record("10.0.0.78", 8080))
        self.shows(browser, "10.0.0.78:8080")
        self.remove(f"{SHOP}/later")
        self.shows(browser, "no such path")
        browser.open(f"{self.url}#/")
        self.shows(browser, "users")
        browser.ask("document.getElementById('api').value = 'bad'; "
                    "document.querySelector('#search button').click()")
        self.shows(browser, f"{SHOP}/bad")
        self.remove(f"{SHOP}/bad")
        self.shows(browser, "Nothing below / has this api.")
        browser.ask("window.history.back()")
        self.shows(browser, "users")
        agent.stop()
        self.shows(browser, "no answer\n")

    def test_further_registries_have_states_ages_and_trees(self):
        east = self.folder / "east"
        self.put("/users/joe/far", service_record("10.0.1.5", 8080), f"dir:{east}")
        agent = self.start("true", **{"registry east": {"url": f"dir:{east}"},
            "registry west": {"url": f"zookeeper://127.0.0.1:{reserve_port(self)}"}})
        browser = self.browser()
        browser.open(self.url)

        def says(name, word):
            rows = browser.ask("[...document.querySelectorAll('#further tbody tr')]"
                ".map(one => one.innerText)")
            return any(row.startswith(name) and word in row for row in rows)
        for name, word in (("east", "connected"), ("east", "live"), ("west", "attempt")):
            wait_until(lambda name=name, word=word: says(name, word), f"{name} is {word}")
        browser.open(f"{self.url}#/")
        for place, wanted in (("/net", "net"), ("/net/east", "east"), ("/net/east/users", "users"),
                ("/net/east/users/joe", "joe")):
            link = f"document.querySelector('#nodes a[href=\"#{place}\"]')"
            wait_until(lambda link=link: browser.ask(f"!!{link}"), f"{place} is a link")
            self.assertEqual(browser.ask(f"{link}.text"), wanted)
            browser.ask(f"{link}.click()")
        self.shows(browser, "10.0.1.5:8080")
        east.rename(self.folder / "elsewhere")
        self.shows(browser, "registry away")  # while its questions still wait for a change
        self.shows(browser, "as of ")
        self.shows(browser, "10.0.1.5:8080")
        browser.open(f"{self.url}#/net")
        self.shows(browser, "away")
        browser.open(f"{self.url}#/users")
        self.shows(browser, "live")
        browser.open(f"{self.url}#")
        wait_until(lambda: says("east", "stale for "), "the age of its answers is there")
        self.assertEqual(browser.complaints(), [])
        agent.stop()

    def test_the_focus_stays_and_goes_on_in_the_order_of_the_page(self):
        self.start("true")
        self.put_shop()
        browser = self.browser()
        browser.open(f"{self.url}#{SHOP}")
        self.shows(browser, "10.0.0.2:8080")
        browser.ask("document.querySelector('#nodes a[href$=c1]').focus()")
        self.put(f"{SHOP}/a-first", service_record("10.0.0.77", 8080))
        self.shows(browser, "10.0.0.77:8080")
        self.assertEqual(browser.ask("document.activeElement.text"), "c1")
        places = ("[...document.querySelectorAll('a, button, input')]"
            ".filter(one => one.offsetParent)")
        count = browser.ask(f"{places}.length")
        browser.ask(f"{places}[0].focus()")
        for number in range(1, count):
            browser.tab()
            self.assertEqual(browser.ask(f"{places}.indexOf(document.activeElement)"), number)
            self.assertNotEqual(browser.ask("getComputedStyle(document.activeElement)"
                ".outlineStyle"), "none")
        # After a link the focus is where the new view begins.
        browser.ask("document.querySelector('#nodes a[href$=c1]').click()")
        wait_until(lambda: browser.ask("document.activeElement.id") == "crumbs",
            "the focus is at the head of the view")
        self.assertEqual(browser.ask("document.title"), f"Berth: {SHOP}/c1")

    def test_nothing_is_too_wide_and_nothing_complains(self):
        self.start("true")
        self.put_shop()
        for width, dark in itertools.product((1280, 400), (False, True)):
            browser = self.browser(width=width, dark=dark)
            for view, text in VIEWS.items():
                with self.subTest(width=width, dark=dark, view=view):
                    browser.open(self.url + view)
                    self.shows(browser, text)
                    self.shows(browser, "live")
                    self.check_looks(browser)
                    if "BERTH_PICTURES" in os.environ:  # a folder for those who want to look
                        name = f"{width}-{'dark' if dark else 'light'}-{len(view)}.png"
                        browser.picture(pathlib.Path(os.environ["BERTH_PICTURES"]) / name)
            self.assertEqual(browser.complaints(), [])

    def check_looks(self, browser):
        wide = ("[...document.querySelectorAll('main *')].filter(one => one.localName !== 'caption'"
                " && one.getBoundingClientRect().right > innerWidth + 1)"
                ".map(one => one.outerHTML.slice(0, 80))")
        self.assertEqual(browser.ask(wide), [])
        # The contrast of text and its ground is 4.5 to 1 at least, as WCAG asks.
        self.assertEqual(browser.ask(CONTRAST), [])
        wait_until(lambda: self.is_heard(browser), "what is shown can be heard")
        self.assertEqual(browser.ask("[...document.querySelectorAll('[tabindex]')].filter(one => "
            "one.tabIndex > 0).length"), 0)  # the order of the focus is that of the page

    def is_heard(self, browser):
        """For those who hear the page, also that of a phone, a table is one: it has a name, and a
        cell two headings. All that can be used has a name."""
        heard = browser.heard()
        for role, name in heard:
            if role in ("table", "columnheader", "link", "button", "textbox"):
                self.assertTrue(name.strip(), role)
        seen = {role: browser.ask(f"[...document.querySelectorAll('{them}')]"
            ".filter(one => one.offsetParent).length") for role, them in (("table", "table"),
                ("columnheader", "th[scope=col]"), ("rowheader", "tbody th[scope=row]"),
                ("link", "a"))}
        roles = collections.Counter(role for role, _ in heard)
        return seen == {role: roles[role] for role in seen} and (
            browser.ask("[...document.querySelectorAll('tbody tr')]"
                ".every(one => one.querySelectorAll('th').length === 1)"))

    def test_the_policy_keeps_other_scripts_out(self):
        self.start("true")
        browser = self.browser()
        browser.open(self.url)
        self.shows(browser, "web-1")
        browser.ask("{ const made = document.createElement('script'); made.textContent = "
                    "'window.taken = 1'; document.body.append(made); }")
        self.assertIsNone(browser.ask("window.taken"))
        self.assertTrue(any("Content Security Policy" in text for text in browser.complaints()))
        self.assertFalse(browser.ask("fetch('http://127.0.0.1:1/').then(() => true, () => false)"))

    def test_berth_web_serves_it_too_with_what_checks_print(self):
        agent = self.start("/bin/sh -c 'echo all is quiet'")
        web = subprocess.Popen([BUILD / "berth", "--socket", agent.socket, "web"],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(web.communicate)
        self.addCleanup(web.kill)
        url = web.stdout.readline().strip()
        browser = self.browser()
        browser.open(url)
        self.shows(browser, "web-1")
        self.shows(browser, "all is quiet")
        self.shows(browser, "From the cache")
        self.assertEqual(berth("--socket", agent.socket, "drain", "--reason",
            "a new disk").returncode, 0)
        self.shows(browser, "a new disk")
        self.assertEqual(browser.complaints(), [])
        self.assertTrue(all(one.startswith(url) for one in browser.requested()),
            browser.requested())
        # A page of the same machine, but of another port, reads nothing: it neither knows the
        # address nor may read answers.
        browser.open(self.url)
        self.shows(browser, "web-1")
        self.assertFalse(browser.ask(f"fetch({url!r}).then(() => true, () => false)"))
        web.terminate()
        self.assertEqual(web.wait(PATIENCE), 0)

    def test_programs_get_the_list_still(self):
        agent = self.start("true")
        self.assertEqual(json.loads(agent.get("/").body)["name"], "berthd")
        self.assertEqual(agent.get("/", Accept="*/*").headers["Content-Type"], "application/json")
        self.assertTrue(agent.get("/",
            Accept="text/html,*/*;q=0.8").headers["Content-Type"].startswith("text/html"))


CONTRAST = """(() => {
	const parse = text => (text.match(/[\\d.]+/g) || []).map(Number);
	const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
		.map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
	const ground = one => { for (; one; one = one.parentElement) {
		const found = parse(getComputedStyle(one).backgroundColor);
		if (found.length === 3 || found[3] > 0) return found; } return [255, 255, 255]; };
	const hasText = one => one.offsetParent &&
		[...one.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
	return [...document.querySelectorAll('main *, header *')].filter(hasText).filter(one => {
		const [a, b] = [light(parse(getComputedStyle(one).color)), light(ground(one))]
			.sort((x, y) => y - x);
		return (a + .05) / (b + .05) < 4.5; }).map(one => one.textContent);
})()"""

del AgentTest

if __name__ == "__main__":
    unittest.main()
