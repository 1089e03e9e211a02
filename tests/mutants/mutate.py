"""Makes mutants of a C source: copies with one small change, as a slip of the hand would make it.

The text is read as tokens, in the style that clang-format keeps in this tree: a function's body
begins and ends with a brace at the start of a line, and a binary operator has a blank on both
sides.
"""

import bisect
import dataclasses
import re

OPERATORS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&",
    "+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "&": "|", "|": "&", "<<": ">>", ">>": "<<",
    "+=": "-=", "-=": "+=", "|=": "&=", "&=": "|=", "++": "--", "--": "++", "!": "",
}  # fmt: skip
EITHER_SIDE = {"++", "--", "!"}  # these need no blanks

TOKEN = re.compile(
    r"""
    (?P<comment>/\*.*?\*/|//[^\n]*)
  | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
  | (?P<string>"(?:\\.|[^"\\\n])*")
  | (?P<char>'(?:\\.|[^'\\\n])*')
  | (?P<number>\b(?:0[xX][0-9a-fA-F]+|\d+)(?:[uUlL]*)\b(?!\.))
  | (?P<word>[A-Za-z_]\w*)
  | (?P<operator><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|
        [-+*/%&|^!~<>=?:;,.(){}\[\]])
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)

# Calls without behaviour of the program: words for a person, and checks of our own reasoning.
LEFT_ALONE = re.compile(r"(log_\w+|registry_zk_log|assert|va_start|va_end)$")

LEVELS = re.compile(r"REGISTRY_LOG_")

CHARACTERS = {r"'\0'": "'0'", r"'\r'": r"'\n'", r"'\n'": r"'\r'", r"'\t'": "' '", r"'\\'": "'/'",
    r"'\''": "'\"'"}
WORDS = {"true": "false", "false": "true"}


ENUM = re.compile(r"\benum(?:\s+\w+)?\s*\{([^{}]*)\}")


def neighbours_in(text):
    """{enumerator: the next one of its enum}, the last one with the one before it. Enumerators that
    are given numbers are constants, and have none."""
    neighbours = {}
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    for body in ENUM.findall(text):
        names = [name.strip() for name in body.split(",") if name.strip()]
        if "=" not in body and len(names) > 1:
            neighbours.update(zip(names, names[1:] + [names[-2]]))
    return neighbours


@dataclasses.dataclass(frozen=True)
class Token:
    kind: str
    text: str
    begin: int
    end: int


@dataclasses.dataclass(frozen=True)
class Mutant:
    """The text between two offsets is replaced; `function` is empty outside of functions. A
    constant that has a name and is used in functions alone has its `uses` replaced, when all
    mutants are one text."""

    begin: int
    end: int
    text: str
    change: str
    function: str
    line: int
    before: str
    after: str
    uses: tuple = ()  # (begin, end)

    def places(self):
        return self.uses or ((self.begin, self.end),)


@dataclasses.dataclass(frozen=True)
class Function:
    name: str
    begin: int  # the offsets of what is between its braces
    end: int


class Source:
    def __init__(self, text, neighbours=None):
        self.text = text
        self.neighbours = neighbours or {}
        self.starts = [0] + [match.end() for match in re.finditer("\n", text)]
        self.functions = list(self.find_functions())
        kinds = ("comment", "directive")
        self.tokens = [token for token in self.read_tokens() if token.kind not in kinds]
        self.mutants = []
        self.pairs = self.match_brackets()
        self.make()

    # ---- reading ----

    def find_functions(self):
        for match in re.finditer(r"^\{\n(.*?)^\}$", self.text, re.DOTALL | re.MULTILINE):
            head = re.sub(r"/\*.*?\*/", "", self.text[: match.start()], flags=re.DOTALL).rstrip()
            head = re.split(r"[;}]\s*\n|\n\n", head)[-1]
            name = re.search(r"(\w+)\s*\(", re.sub(r"__attribute__\s*\(\(.*?\)\)", "", head,
                flags=re.DOTALL))
            if name:
                yield Function(name.group(1), match.start(1), match.end(1))

    def read_tokens(self):
        for match in TOKEN.finditer(self.text):
            yield Token(match.lastgroup, match.group(), match.start(), match.end())

    def match_brackets(self):
        pairs = {}
        stack = []
        for index, token in enumerate(self.tokens):
            if token.text in "([{" and token.kind == "operator":
                stack.append(index)
            elif token.text in ")]}" and token.kind == "operator" and stack:
                other = stack.pop()
                pairs[other] = index
                pairs[index] = other
        return pairs

    def line_of(self, offset):
        return bisect.bisect_right(self.starts, offset)

    def function_at(self, offset):
        index = bisect.bisect_right(self.functions, offset, key=lambda function: function.begin) - 1
        if index >= 0 and offset < self.functions[index].end:
            return self.functions[index]
        return None

    def mutated(self, mutant):
        return self.text[: mutant.begin] + mutant.text + self.text[mutant.end :]

    # ---- mutants ----

    def add(self, begin, end, text, change, uses=()):
        function = self.function_at(begin)
        first = self.starts[self.line_of(begin) - 1]
        last = self.text.find("\n", end)
        squeezed = lambda part: re.sub(r"\s+", " ", part).strip()
        # As many lines go as come, so that a line has its number in every mutant.
        text += "\n" * (self.text.count("\n", begin, end) - text.count("\n"))
        self.mutants.append(
            Mutant(
                begin, end, text, change, function.name if function else "", self.line_of(begin),
                squeezed(self.text[first:last]),
                squeezed(self.text[first:begin] + text + self.text[end:last]), uses,
            )
        )  # fmt: skip

    def make(self):
        for index, token in enumerate(self.tokens):
            inside = self.function_at(token.begin) is not None
            if token.kind == "number":
                self.constant(index, token)
            elif token.kind == "word" and token.text in WORDS:
                self.add(token.begin, token.end, WORDS[token.text],
                    f"{token.text} becomes {WORDS[token.text]}")
            elif token.kind == "char":
                text = CHARACTERS.get(token.text) or (f"'{chr(ord(token.text[1]) ^ 1)}'"
                    if len(token.text) == 3 else "")
                if text and text not in ("'''", r"'\'"):
                    self.add(token.begin, token.end, text, f"{token.text} becomes {text}")
            elif inside and token.kind == "operator" and token.text in OPERATORS:
                self.operator(token)
            elif inside and token.text in ("if", "while"):
                self.condition(index, token)
            elif inside and token.text == "return":
                self.returned(index, token)
            elif inside and token.text in self.neighbours and not LEVELS.match(token.text):
                self.enumerator(index, token)
            elif inside and token.kind == "word":
                self.call(index, token)

    def constant(self, index, token):
        line = self.text[self.starts[self.line_of(token.begin) - 1] : self.text.find("\n",
            token.end)]
        around = [self.tokens[i].text if 0 <= i < len(self.tokens) else ""
            for i in (index - 1, index + 1)]
        declares = re.match(r"\s*(static |const |struct |unsigned )*\w+( \**|\s)\w+\[",
            line) and around == ["[", "]"]
        if declares or around == ["{", "}"]:
            return  # the room of an array; a struct of zeros
        if around[0] in ("<", ">="):
            return  # the same as another operator
        if around[0] == "(" and self.tokens[index - 2].text == "allocate_zeroed":
            return  # no items get the room of one
        digits = token.text.rstrip("uUlL")
        value = int(digits, 0) if not re.match(r"0\d", digits) else int(digits, 8)
        text = str(0 if value == 1 else value + 1) + token.text[len(digits) :]
        self.add(token.begin, token.end, text, f"{token.text} becomes {text}",
            self.uses_of(index, around))

    def uses_of(self, index, around):
        """Where the constant that this number defines (NAME = 5, in an enum) is used; () if not in
        functions alone."""
        name = self.tokens[index - 2]
        if self.function_at(name.begin) or around[0] != "=" or around[1] not in (",", "}"):
            return ()
        uses = [token for token in self.tokens if token.text == name.text and token.begin
            != name.begin]
        if not all(self.function_at(token.begin) for token in uses):
            return ()
        return tuple((token.begin, token.end) for token in uses)

    def enumerator(self, index, token):
        if self.tokens[index - 1].text not in ("case", "["):  # the places of a table or a switch
            text = self.neighbours[token.text]
            self.add(token.begin, token.end, text, f"{token.text} becomes {text}")

    def operator(self, token):
        blank = lambda at: self.text[at : at + 1] in (" ", "\n", "\t")
        if token.text in EITHER_SIDE or (blank(token.begin - 1) and blank(token.end)):
            text = OPERATORS[token.text]
            self.add(token.begin, token.end, text, f"{token.text} becomes {text}" if text
                else f"{token.text} is dropped")

    def condition(self, index, token):
        close = self.pairs.get(index + 1)
        if close is None:
            return
        begin, end = self.tokens[index + 1].end, self.tokens[close].begin
        text = self.text[begin:end]
        self.add(begin, end, f"({text}) && 0", "the condition is never true")
        if token.text == "if":
            self.add(begin, end, f"({text}) || 1", "the condition is always true")

    def returned(self, index, token):
        end = next(i for i in range(index, len(self.tokens)) if self.tokens[i].text == ";")
        value = self.tokens[index + 1 : end]
        if not value:
            last = self.text[self.tokens[end].end :].lstrip().startswith(
                "}\n") and self.function_at(token.begin)
            if not (last and self.text[self.tokens[end].end :].strip().startswith("}\n\n")):
                self.add(token.begin, token.end, "", "the return is dropped")
        elif len(value) > 1 or value[0].kind == "word" and value[0].text not in ("true", "false",
                "NULL"):
            self.add(value[0].begin, value[-1].end, "0", "0 is returned")

    def call(self, index, token):
        """A statement that is a call alone."""
        before = self.tokens[index - 1]
        if before.text not in (";", "{", "}", ")", "else", ":"):
            return
        if before.text == ")" and self.tokens[self.pairs.get(index - 1, 0) - 1].text not in ("if",
                "for", "while"):
            return
        at = index
        while at + 2 < len(self.tokens) and self.tokens[at + 1].text in ("->", "."):
            at += 2
        if self.tokens[at + 1].text != "(" or token.text in ("if", "for", "while", "switch",
                "return", "sizeof"):
            return
        close = self.pairs.get(at + 1)
        if close is None or self.tokens[close
                + 1].text != ";" or LEFT_ALONE.match(self.tokens[at].text):
            return
        self.add(token.begin, self.tokens[close].end, "(void)0",
            f"the call of {self.tokens[at].text}() is dropped")


def switchable(source, mutants, prelude):
    """One text that holds all these mutants {number: mutant} of functions, each in a branch of its
    own, of which berth_mutant() picks one. Returns the text and, for each number, the lines that
    the mutant is on."""
    parts = [prelude]
    line = prelude.count("\n") + 1
    lines = {}

    def put(text):
        nonlocal line
        parts.append(text)
        line += text.count("\n")

    at = 0
    for index, function in enumerate(source.functions):
        put(source.text[at : function.begin])
        at = function.begin
        body = source.text[function.begin : function.end]
        put(f"switch (berth_mutant({index})) {{\n")
        for number, mutant in mutants.items():
            changed = changed_body(source, function, mutant)
            if changed:
                first = line
                put(f"case {number}: {{\n{own_labels(changed, number)}}} break;\n")
                lines[number] = [*lines.get(number, []), *range(first, line)]
        put(f"default: {{\n{body}}}\n}}\n")
        at = function.end
    put(source.text[at:])
    return "".join(parts), lines


def changed_body(source, function, mutant):
    """What is between the function's braces, with the mutant; "" when it is elsewhere."""
    at = function.begin
    text = ""
    for begin, end in mutant.places():
        if function.begin <= begin < function.end:
            text += source.text[at:begin] + mutant.text
            at = end
    return text and text + source.text[at : function.end]


def own_labels(body, number):
    for label in set(re.findall(r"^[ \t]*(\w+):(?!:)[ \t]*$", body, re.MULTILINE)) - {"default"}:
        body = re.sub(rf"^([ \t]*){label}:", rf"\1{label}_{number}:", body, flags=re.MULTILINE)
        body = re.sub(rf"\bgoto {label}\b", f"goto {label}_{number}", body)
    return body
