"""Counts the code: ``python -m tests.code_size [CHECKOUT]``.

It prints for each top-level folder its files and its lines without blanks, comments and docstrings; then what makes
names hard to read: class names that stand for several classes, function names of one word, docstrings that begin
inverted. It judges nothing and always ends with 0.
"""

from __future__ import annotations

import ast
import io
import os
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

APART = ("tests", "load")
"""Folders that aren't part of the product."""
NOT_CODE = ("build", "dist", "node_modules", "site-packages", "__pycache__")
INVERTED = (
    *("what", "of", "one", "none where", "none if", "none without", "those", "by", "whose", "where", "who", "whom"),
    *("which", "beside", "than", "as far", "as often", "as long", "as many"),
)
"""Beginnings of a docstring that has no subject and verb there: "Of every webhook of Adyen's"."""
NO_TEXT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)

Definition = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Definition | ast.ClassDef | ast.Module


@dataclass
class FolderSize:
    """What the Python files of some folders hold."""

    files: int = 0
    lines: int = 0
    functions: Counter[str] = field(default_factory=Counter)
    classes: Counter[str] = field(default_factory=Counter)
    docstrings: list[str] = field(default_factory=list)

    def add_file(self, source: str) -> None:
        """Counts one more file.

        :raises SyntaxError: it isn't Python
        """
        tree = ast.parse(source)
        docstring_lines = set[int]()
        for node in ast.walk(tree):
            docstring_lines.update(find_docstring_lines(node))
            if isinstance(node, Documented) and (text := ast.get_docstring(node)):
                self.docstrings.append(text)
            if isinstance(node, Definition):
                self.functions[node.name] += 1
            if isinstance(node, ast.ClassDef):
                self.classes[node.name] += 1
        self.files += 1
        self.lines += len(find_token_lines(source) - docstring_lines)

    def add(self, other: FolderSize) -> None:
        self.files += other.files
        self.lines += other.lines
        self.functions += other.functions
        self.classes += other.classes
        self.docstrings += other.docstrings

    @property
    def shared_classes(self) -> dict[str, int]:
        """How many classes share a name, most first."""
        return {name: count for name, count in self.classes.most_common() if count > 1}

    @property
    def one_word_functions(self) -> Counter[str]:
        """Functions whose name has no second word, by that word; ``__init__`` and its like are Python's."""
        return Counter(name.strip("_") for name in self.functions.elements() if is_one_word(name))

    @property
    def inverted_docstrings(self) -> int:
        return sum(is_inverted(text) for text in self.docstrings)


def is_one_word(function: str) -> bool:
    return not (function.startswith("__") and function.endswith("__")) and "_" not in function.strip("_")


def is_inverted(docstring: str) -> bool:
    """Whether it begins with none of a subject and an imperative."""
    words = docstring.casefold().split()
    return any(words[: len(start.split())] == start.split() for start in INVERTED)


def find_token_lines(source: str) -> set[int]:
    """Numbers of the lines that hold more than blanks and comments."""
    numbers = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_TEXT:
            numbers.update(range(token.start[0], token.end[0] + 1))
    return numbers


def find_docstring_lines(node: ast.AST) -> set[int]:
    """Numbers of the lines of the texts that stand alone in a body: a module's, class's, function's or field's."""
    numbers = set[int]()
    for statement in getattr(node, "body", []) if isinstance(node, Documented) else []:
        value = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            numbers.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return numbers


def find_files(checkout: Path) -> Iterator[Path]:
    """The checkout's Python files, without hidden folders and what is installed or built."""
    for folder, folders, files in os.walk(checkout):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in NOT_CODE)
        yield from (Path(folder) / name for name in sorted(files) if name.endswith(".py"))


def measure_checkout(checkout: Path) -> dict[str, FolderSize]:
    """The size of each top-level folder; files outside of all are those of ``.``."""
    sizes: dict[str, FolderSize] = {}
    for path in find_files(checkout):
        parts = path.relative_to(checkout).parts
        folder = parts[0] if len(parts) > 1 else "."
        sizes.setdefault(folder, FolderSize()).add_file(path.read_text(encoding="utf-8"))
    return sizes


def sum_up(sizes: dict[str, FolderSize]) -> FolderSize:
    whole = FolderSize()
    for size in sizes.values():
        whole.add(size)
    return whole


def format_row(name: str, size: FolderSize) -> str:
    share = 100 * size.inverted_docstrings / (len(size.docstrings) or 1)
    words, docstrings = size.one_word_functions, len(size.docstrings)
    return (
        f"| {name} | {size.files:,} | {size.lines:,} | {size.classes.total():,} | {len(size.shared_classes):,} "
        f"| {size.functions.total():,} | {len(words):,} | {words.total():,} | {docstrings:,} | {share:.0f} % |"
    )


def format_sizes(sizes: dict[str, FolderSize]) -> list[str]:
    """A table in Markdown, and the names that stand for two or more classes of the product."""
    product = sum_up({name: size for name, size in sizes.items() if name not in APART})
    names = ", ".join(f"{name} {count}" for name, count in product.shared_classes.items())
    return [
        "| folder | files | lines of code | classes | names of several classes | functions "
        "| different one-word names | functions with one | docstrings | begin inverted |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
        *(format_row(name, size) for name, size in sizes.items() if name not in APART),
        format_row("**product**", product),
        *(format_row(name, sizes[name]) for name in APART if name in sizes),
        format_row("**all**", sum_up(sizes)),
        "",
        f"names of several classes: {names or 'none'}",
        "",
    ]


def main(arguments: list[str]) -> None:
    checkout = Path(arguments[0] if arguments else ".")
    sys.stdout.write("\n".join(format_sizes(measure_checkout(checkout))))


if __name__ == "__main__":
    main(sys.argv[1:])
