"""The recipes of docs/FOLLOW.md, as they are written there."""

import pathlib
import re

from outputs import Members, OutputTest

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "FOLLOW.md"


def blocks(language):
    """The code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), re.S | re.M)


def recipe_names():
    return re.findall(r"^; recipe: (\S+)$", "".join(blocks("ini")), re.M)


class RecipeTest(OutputTest):
    """An agent whose configuration is a recipe, with every absolute directory replaced by one of
    the test's."""

    def setUp(self):
        super().setUp()
        self.members = Members(self.registry, "/users/devteam/web/prod/components")
        self.root = self.folder / "root"
        for name in ("etc/haproxy", "etc/nginx", "etc/envoy", "etc/prometheus", "etc/pgbouncer",
                "run/berth", "run/haproxy"):
            (self.root / name).mkdir(parents=True)

    def place_below(self, text):
        """The text with /etc and /run below the test's folder."""
        return re.sub(r"(?<![\w.])/(etc|run)/", rf"{self.root}/\1/", text)

    def recipe(self, name, **replacements):
        text = next(block for block in blocks("ini") if block.startswith(f"; recipe: {name}\n"))
        text = self.place_below(text)
        for before, after in replacements.values():
            assert before in text, before
            text = text.replace(before, after)
        agent = self.agent("agent")
        part = agent.folder / "conf.d"
        part.mkdir()
        (part / "recipe.ini").write_text(text)
        return agent
