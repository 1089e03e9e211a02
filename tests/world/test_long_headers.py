"""An application sends more than 16 KiB of header fields, none of them long: the check says that "a
line" is too long, and a client of the agent with long cookies is told the same.

Source: applications with many Set-Cookie and Content-Security-Policy fields
"""

import unittest

from berth import AgentTest, wait_until
from odd_server import OddServer

FIELDS = b"".join(b"Set-Cookie: a%d=%s\r\n" % (number, b"x" * 200) for number in range(100))


class LongHeaders(AgentTest):
    def test_a_check_names_the_fields_and_passes_by_the_status_alone(self):
        server = OddServer(lambda connection: connection.sendall(
            b"HTTP/1.1 200 OK\r\n" + FIELDS + b"Content-Length: 2\r\n\r\nUP"))
        self.addCleanup(server.close)
        check = {"type": "http", "target": f"http://127.0.0.1:{server.port}/", "interval": "1h"}
        agent = self.web_agent(check="", extra={"check status": check,
            "check body": {**check, "match": "UP"}}).start()
        for name, state, said in (("status", "up", "status 200"),
                ("body", "pending", "its header fields have more than 16 KiB")):
            wait_until(lambda name=name: agent.check_named(name).get("last"), f"{name} has run")
            found = agent.check_named(name)
            self.assertEqual(found["state"], state)
            self.assertIn(said, found["last"]["detail"])

    def test_a_client_of_the_agent_is_told_of_its_fields(self):
        agent = self.agent().start()
        answer = agent.get("/v1/list/", **{f"X-{number}": "x" * 200 for number in range(50)})
        self.assertEqual(answer.status, 431)
        self.assertIn("header fields have more than 8 KiB", answer.body.decode())


if __name__ == "__main__":
    unittest.main()
