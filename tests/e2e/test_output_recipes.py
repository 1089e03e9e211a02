"""The recipes of docs/FOLLOW.md, each run as it is written there."""

import json
import subprocess
import unittest

from berth import wait_until
from outputs import Members, record
from proxies import HAProxy, Nginx, Server, get, missing
from recipes import RecipeTest, blocks, recipe_names

FILE_RECIPES = {
    "envoy": "etc/envoy/web.json",
    "prometheus-file": "etc/prometheus/web.json",
    "shell": "run/berth/web.env",
}


class Files(RecipeTest):
    def text_of(self, name):
        self.members.put("c1", 8001)
        agent = self.recipe(name).start()
        file = self.root / FILE_RECIPES[name]
        wait_until(file.exists, f"{file} is written")
        self.members.put("c2", 8002)
        wait_until(lambda: "8002" in file.read_text(), "it has c2")
        return agent, file

    def test_every_recipe_is_run_here_or_with_the_larger_tools(self):
        self.assertEqual(
            set(recipe_names()), {*FILE_RECIPES, "haproxy-runtime", "haproxy-file", "nginx",
                "pgbouncer", "prometheus-http", "server"}
        )

    def test_envoy(self):
        _, file = self.text_of("envoy")
        (resource,) = json.loads(file.read_text())["resources"]
        self.assertEqual(resource["cluster_name"], "web")
        ports = [item["endpoint"]["address"]["socket_address"]["port_value"]
            for item in resource["endpoints"][0]["lb_endpoints"]]
        self.assertEqual(ports, [8001, 8002])

    def test_prometheus_by_a_file(self):
        _, file = self.text_of("prometheus-file")
        self.assertEqual([item["targets"] for item in json.loads(file.read_text())],
            [["127.0.0.1:8001"], ["127.0.0.1:8002"]])
        self.members.remove("c1")
        self.members.remove("c2")
        wait_until(lambda: json.loads(file.read_text()) == [], "no target is left")

    def test_a_shell_script(self):
        self.text_of("shell")
        script = next(block for block in blocks("sh"))
        result = subprocess.run(["sh", "-c", self.place_below(script)], capture_output=True,
            text=True, check=True)
        self.assertEqual(result.stdout, "there is 127.0.0.1:8001\nthere is 127.0.0.1:8002\n")

    def test_pgbouncer(self):
        # A process that has the signal's effect stands in for PgBouncer itself.
        heard = self.folder / "heard"
        reloaded = self.script(
            f"trap 'echo reload >>{heard}' HUP; echo $$ >{self.root}/run/pgbouncer.pid; while :; "
            "do sleep 0.05; done")
        process = subprocess.Popen([reloaded])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until((self.root / "run/pgbouncer.pid").exists, "it runs")
        members = "/users/devteam/postgres/prod/components"
        for number in (1, 2):
            content = record(5432, host=f"10.0.0.{number}", protocol="postgresql")
            content["external"][0]["api"] = "urn:postgresql"
            self.put(f"{members}/db{number}", content)
        content["external"][0]["addresses"] = [{"host": "6.6.6.6 port=1\n[pgbouncer]\nx=", "port":
            "5432"}, {"host": "a..b", "port": "5432"}, {"host": "10.0.0.3"}]
        Members(self.registry, members).put_content("db0", content)
        self.recipe("pgbouncer").start()
        file = self.root / "etc/pgbouncer/databases.ini"
        wait_until(heard.exists, "the command has told PgBouncer")
        self.assertEqual(file.read_text(), "[databases]\napp = host=10.0.0.1,10.0.0.2 port=5432\n")


class Proxies(RecipeTest):
    def serve(self, name):
        server = Server()
        self.addCleanup(server.stop)
        self.members.put(name, server.port)
        return server.port

    def haproxy(self, text, files=()):
        haproxy = HAProxy(self.root / "etc/haproxy")
        haproxy.use(self.place_below(text), self.root / "run/haproxy/admin.sock",
            self.root / "run/haproxy.pid", files)
        self.addCleanup(haproxy.end)
        return haproxy

    @unittest.skipIf(missing("haproxy"), missing("haproxy"))
    def test_haproxy_at_run_time(self):
        haproxy = self.haproxy(blocks("haproxy")[0]).start()
        first = self.serve("c1")
        self.recipe("haproxy-runtime").start()
        wait_until(lambda: get(haproxy.port) == first, "c1 serves")
        second = self.serve("c2")
        self.members.remove("c1")
        wait_until(lambda: haproxy.servers().keys() == {"berth:c2"}, "c1 is gone")
        wait_until(lambda: get(haproxy.port) == second, "c2 serves")

    @unittest.skipIf(missing("haproxy"), missing("haproxy"))
    def test_haproxy_by_a_file(self):
        file = self.root / "etc/haproxy/web.cfg"
        haproxy = self.haproxy(blocks("haproxy")[0].rpartition("backend web\n")[0], [file])
        first = self.serve("c1")
        file.write_text("backend web\n")
        haproxy.start()
        self.recipe("haproxy-file").start()
        wait_until(lambda: get(haproxy.port) == first, "c1 serves")

    @unittest.skipIf(missing("nginx"), missing("nginx"))
    def test_nginx(self):
        file = self.root / "etc/nginx/web.servers"
        file.write_text("server 127.0.0.1:9 down;\n")
        nginx = Nginx(self.root / "nginx", file)
        self.addCleanup(nginx.end)
        nginx.start()
        first = self.serve("c1")
        command = "/usr/sbin/nginx -q -s reload"
        agent = self.recipe("nginx", command=(command, nginx.reload_command)).start()
        wait_until(lambda: get(nginx.port) == first, "c1 serves")
        self.wait_state(agent, "current")
        self.assertIn(f"include {file.parent}/.web.servers", (self.root /
            "run/berth/check.conf").read_text())

    @unittest.skipIf(missing("nginx"), missing("nginx"))
    def test_the_check_for_nginx_refuses_what_nginx_would_refuse(self):
        agent = self.recipe("nginx")
        check = next(line for line in (agent.folder / "conf.d/recipe.ini").read_text().splitlines()
            if line.startswith("check = ")).removeprefix("check = ")
        servers = self.folder / "servers"
        command = check.replace("{}", str(servers))
        for text, good in (("server 127.0.0.1:9;\n", True), ("server no-such-host.invalid:9;\n",
                False), ("", False)):
            servers.write_text(text)
            status = subprocess.run(["/bin/sh", "-c", command], capture_output=True,
                check=False).returncode
            self.assertEqual(status == 0, good, text)


if __name__ == "__main__":
    unittest.main()
