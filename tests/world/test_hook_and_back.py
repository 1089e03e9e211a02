"""A proxy's file goes from one state to a second one, whose reload command fails, and back to the
first: the command has to run again, for nobody knows what the proxy has loaded.

Source: consul-template #1279 (a command that failed is not run again for the same content)
"""

import unittest

from berth import wait_until
from outputs import OutputTest

ONE, TWO = "127.0.0.1:8001\n", "127.0.0.1:8001\n127.0.0.1:8002\n"


class HookAndBack(OutputTest):
    def test_the_first_content_is_delivered_again(self):
        loaded = self.folder / "loaded"
        hook = self.script(f'cat "$BERTH_OUTPUT_PATH" >>{loaded}; echo >>{loaded}\n'
            '! grep -q 8002 "$BERTH_OUTPUT_PATH"')
        self.put_member("c1", 8001)
        agent = self.output_agent(on_change=hook).start()
        self.wait_state(agent, "current")
        self.assertEqual(loaded.read_text(), f"{ONE}\n")
        self.put_member("c2", 8002)
        self.wait_state(agent, "failed")
        self.wait_text(TWO)
        self.remove_member("c2")
        self.wait_text(ONE)
        wait_until(lambda: loaded.read_text().endswith(f"{TWO}\n{ONE}\n"),
            "the command has seen the first content again")
        self.wait_state(agent, "current")


if __name__ == "__main__":
    unittest.main()
