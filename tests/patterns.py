"""All regular expressions of the product, and texts on which they may be slow.

The texts follow from a pattern's syntax tree: for each repeated part, a text that reaches it and
then repeats it, without what must follow. A quadratic or exponential pattern takes longest there.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any, cast

ROOT = Path(__file__).parents[1]
FOLDERS = (
    *("client/src", "gateway", "dragoman", "serving", "export", "training"),
    "load_test/src",
)
_FLAGS_AT = {"compile": 1, "sub": 4, "subn": 4, "split": 3}
"""Position of the flags among a function's arguments, if it is not 2."""
_FUNCTIONS = {"compile", "match", "fullmatch", "search", "finditer", "findall", "split"} | {
    "sub",
    "subn",
}
_ANCHORED = {"match", "fullmatch"}
_NAMES = re.compile(r"\bre(?:gex)?\b")
"""The names of the modules, without which a file has no pattern."""
_ALPHABETS = ("aA0 _-.\"'<>", "0aA .,-", " \n\t\"'a0", "<&%{[(\"'/=-.:;a0 ")
"""Each orders characters by preference, so that neighbouring parts repeat the same one."""
_MOST_SHAPES = 60


@dataclass(frozen=True)
class Usage:
    """A pattern at a place in the code.

    Attributes:
        where: file and line.
        pattern: the pattern.
        is_anchored: whether it is only matched at one position of a text, not searched for.
    """

    where: str
    pattern: re.Pattern[Any]
    is_anchored: bool

    def run(self, text: Any) -> None:
        """Apply the pattern to a text in the most expensive way."""
        if self.is_anchored:
            self.pattern.match(text)
            self.pattern.fullmatch(text)
        else:
            for _ in self.pattern.finditer(text):
                pass

    def shapes(self) -> list[tuple[str, str, str]]:
        """Returns texts as a beginning, a part to repeat and an end."""
        tree = _parser.parse(self.pattern.pattern, self.pattern.flags & ~re.DEBUG)
        shapes: dict[tuple[str, str, str], None] = {}
        for alphabet in _ALPHABETS:
            for begin, part in _Sampler(alphabet).repeated(tree, ""):
                for end in ("", "\0"):
                    shapes[begin, part, end] = None
                shapes["", begin + part, "\0"] = None
        return [shape for shape in shapes if shape[1]][:_MOST_SHAPES]


def usages(skipped: Mapping[tuple[str, str], str | None]) -> list[Usage]:
    """Find all patterns of the product.

    Args:
        skipped: by file and expression, an example of a pattern that depends on a program's input;
            None: the user of the program writes the pattern.

    Raises:
        AssertionError: a pattern cannot be evaluated, or `re` is used so that it is not found.
    """
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    faults: list[str] = []
    collected: list[Usage] = []
    for path in paths:
        if _NAMES.search(path.read_text(encoding="utf-8")):
            collected += _Module(path, skipped, faults).usages()
    assert not faults, "\n".join(faults)
    return collected


@dataclass
class _Module:
    path: Path
    skipped: Mapping[tuple[str, str], str | None]
    faults: list[str]
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)

    def usages(self) -> Iterator[Usage]:
        self.tree = ast.parse(self.path.read_text(encoding="utf-8"))
        for node in ast.walk(self.tree):
            self.parents |= dict.fromkeys(ast.iter_child_nodes(node), node)
        for node in [self.tree, *self.parents]:
            if isinstance(node, ast.ImportFrom) and node.module in ("re", "regex"):
                self._fault(node, "import re, not names from it")
            elif isinstance(node, ast.Import):
                names = [alias for alias in node.names if alias.name in ("re", "regex")]
                if any(alias.asname or alias.name == "regex" for alias in names):
                    self._fault(node, "import re under its own name")
            elif _is_function(node):
                call = self.parents[node]
                if isinstance(call, ast.Call) and call.func is node:
                    yield from self._usages_of(call, cast(ast.Attribute, node).attr)
                else:
                    self._fault(node, "call the function, do not pass it")

    def _usages_of(self, call: ast.Call, function: str) -> Iterator[Usage]:
        where = f"{self._file}:{call.lineno}"
        expression = call.args[0]
        known = self.skipped.get((self._file, ast.unparse(expression)), "")
        if known is None:
            return
        try:
            flags = self._flags(call, function)
            patterns = [known] if known else self._evaluated(expression)
            for pattern in patterns:
                usage = Usage(where, re.compile(pattern, flags), self._is_anchored(call, function))
                yield usage
        except Exception as error:
            self._fault(call, f"its pattern cannot be evaluated: {type(error).__name__}: {error}")

    @property
    def _file(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def _fault(self, node: ast.AST, what: str) -> None:
        line = getattr(node, "lineno", 0)
        self.faults.append(f"{self._file}:{line}: {what}")

    def _flags(self, call: ast.Call, function: str) -> int:
        at = _FLAGS_AT.get(function, 2)
        nodes = [keyword.value for keyword in call.keywords if keyword.arg == "flags"]
        nodes += call.args[at : at + 1]
        return int(_value(nodes[0], {"re": re})) if nodes else 0

    def _evaluated(self, expression: ast.expr) -> list[Any]:
        """The values of an expression: several in a comprehension."""
        try:
            return [ast.literal_eval(expression)]
        except ValueError:
            pass
        expression = _Escaped().visit(expression)
        node: ast.AST = expression
        while node in self.parents and not isinstance(node, ast.stmt):
            node = self.parents[node]
            if isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
                every = ast.ListComp(expression, node.generators)
                return cast(list[Any], _value(every, self._names()))
            if isinstance(node, ast.DictComp):
                every = ast.ListComp(expression, node.generators)
                return cast(list[Any], _value(every, self._names()))
        return [_value(expression, self._names())]

    def _names(self) -> dict[str, Any]:
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        while parts[0] not in ("dragoman",) and not parts[0].startswith("dragoman_"):
            parts = parts[1:]
        name = ".".join(parts).removesuffix(".__init__")
        return vars(importlib.import_module(name))

    def _is_anchored(self, call: ast.Call, function: str) -> bool:
        """Whether a pattern is used with `match` and `fullmatch` alone."""
        if function != "compile":
            return function in _ANCHORED
        statement: ast.AST = call
        while not isinstance(statement, ast.stmt):
            statement = self.parents[statement]
        if not (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)):
            return False
        name = statement.targets[0].id
        # Other modules use those with a public name.
        return name.startswith("_") and self._is_matched(name, self.tree)

    def _is_matched(self, name: str, code: ast.AST) -> bool:
        """Whether code only matches with a pattern, or with each of several ones."""
        for node in ast.walk(code):
            if not (isinstance(node, ast.Name) and node.id == name):
                continue
            use = self.parents[node]
            is_matched = isinstance(use, ast.Attribute) and use.attr in _ANCHORED
            if isinstance(use, ast.For) and use.iter is node and isinstance(use.target, ast.Name):
                body = ast.Module(use.body, [])
                is_matched = self._is_matched(use.target.id, body)
            if not is_matched and isinstance(node.ctx, ast.Load):
                return False
        return True


class _Escaped(ast.NodeTransformer):
    """Replaces escaped texts, which match themselves, by an example."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if ast.unparse(node.func) == "re.escape":
            return ast.Constant(re.escape("aa"))
        return self.generic_visit(node)


def _is_function(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "re"
        and node.attr in _FUNCTIONS
    )


def _value(node: ast.expr, names: dict[str, Any]) -> Any:
    expression = ast.fix_missing_locations(ast.Expression(node))
    return eval(compile(expression, "<pattern>", "eval"), dict(names))


@dataclass
class _Sampler:
    """Makes texts that match parts of a pattern, of the first characters of an alphabet."""

    alphabet: str
    alternative: int = 0

    def repeated(self, tree: Any, begin: str) -> Iterator[tuple[str, str]]:
        """Yield each repeated part of a pattern, after a text that leads to it."""
        for code, argument in tree:
            inner: Sequence[Any] = ()
            if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
                _, high, body = argument
                if high > 10:
                    for self.alternative in range(_alternatives(body)):
                        yield begin, self.text(body)
                    self.alternative = 0
                inner = [body]
            elif code == codes.SUBPATTERN:
                inner = [argument[-1]]
            elif code == codes.ATOMIC_GROUP:
                inner = [argument]
            elif code == codes.BRANCH:
                inner = argument[1]
            elif code in (codes.ASSERT, codes.ASSERT_NOT):
                inner = [argument[1]]
            for part in inner:
                yield from self.repeated(part, begin)
            begin += self.text([(code, argument)])

    def text(self, tree: Any) -> str:
        """Returns a short text that a part of a pattern may match."""
        return "".join(self._of(code, argument) for code, argument in tree)

    def _of(self, code: Any, argument: Any) -> str:
        if code == codes.LITERAL:
            return chr(cast(int, argument))
        if code in (codes.NOT_LITERAL, codes.ANY, codes.IN):
            return self._character(code, argument)
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            low, _, body = argument
            return self.text(body) * cast(int, low)
        if code == codes.SUBPATTERN:
            return self.text(argument[-1])
        if code == codes.ATOMIC_GROUP:
            return self.text(argument)
        if code == codes.BRANCH:
            return self.text(argument[1][self.alternative % len(argument[1])])
        return ""

    def _character(self, code: Any, argument: Any) -> str:
        if code == codes.ANY:
            return self.alphabet[0]
        items = [(codes.NEGATE, None), (codes.LITERAL, argument)]
        if code == codes.IN:
            items = argument
        for character in self.alphabet:
            if _contains(items, character):
                return character
        literals = [chr(value) for kind, value in items if kind == codes.LITERAL]
        ranges = [chr(value[0]) for kind, value in items if kind == codes.RANGE]
        return (literals + ranges + ["\x01"])[0]


def _alternatives(tree: Any) -> int:
    """Returns the largest number of alternatives in a part of a pattern, at least 1."""
    number = 1
    for code, argument in tree:
        if code == codes.BRANCH:
            number = max(number, len(argument[1]), *map(_alternatives, argument[1]))
        elif code in (codes.SUBPATTERN, codes.ATOMIC_GROUP, codes.MAX_REPEAT, codes.MIN_REPEAT):
            number = max(
                number, _alternatives(argument[-1] if code != codes.ATOMIC_GROUP else argument)
            )
    return number


_CATEGORIES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}


def _contains(items: Sequence[Any], character: str) -> bool:
    is_negated = any(kind == codes.NEGATE for kind, _ in items)
    is_listed = any(
        (kind == codes.LITERAL and ord(character) == value)
        or (kind == codes.RANGE and value[0] <= ord(character) <= value[1])
        or (kind == codes.CATEGORY and re.match(_CATEGORIES[value], character))
        for kind, value in items
    )
    return is_listed != is_negated
