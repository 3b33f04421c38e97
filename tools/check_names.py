#!/usr/bin/python3
"""Names in documents and comments must exist in the tree: `function()`, `MACRO`, `struct name`,
`owner->field` and file names.  Documents name them between backticks; in C comments functions, files,
structs and fields are found without backticks as well.  Links between documents must lead to a heading.

A name that no code contains is ours, and so stale, if it begins with the name of one of our modules
(`conn_...` and `CONN_...` for conn.c); all other names are the kernel's or a library's.  A file is ours if
its first folder is, or if it is a C file without a folder.  CHANGELOG.md is history, and not read."""
import pathlib
import re
import subprocess
import sys

FILE = re.compile(r"(?<![\w/.~$}*-])((?:[\w*.-]+/)*[\w*-]*\w\.(?:c|h|py|sh|mk|md|ini|service|socket))(?![\w/.-]*\w)")
FUNCTION = re.compile(r"(?<![\w.>])([a-z][a-z0-9]*_\w+)\(\)")
MACRO = re.compile(r"(?<![\w.-])([A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9])(?![\w-])")
STRUCT = re.compile(r"\bstruct (\w+)")
FIELD = re.compile(r"(?<![\w>.])(\w+)->(\w+)")
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
OWNERS = {"c": "conn", "w": "worker", "owner": "worker_owner"}  # variables that always have this type


def tracked():
    """The files that git knows, or of a tarball those below this folder."""
    done = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=False)
    names = done.stdout.split("\n") if done.returncode == 0 else \
        [str(p) for p in pathlib.Path(".").rglob("*") if p.parts[0] not in ("build", ".git")]
    return sorted(n for n in names if n and pathlib.Path(n).is_file())


class Tree:
    def __init__(self, files):
        self.files = files
        self.text = {n: pathlib.Path(n).read_text(errors="replace") for n in files
                     if n.endswith((".c", ".h", ".md", ".py", ".sh", ".mk", ".ini", "Makefile"))}
        code = {n: COMMENT.sub(" ", t) for n, t in self.text.items() if n.endswith((".c", ".h"))}
        everything = "\n".join(code.values())
        self.words = set(re.findall(r"\w+", everything))
        for name, text in self.text.items():
            if name.endswith((".py", ".sh", ".mk", ".ini", "Makefile")):
                self.words.update(re.findall(r"\w+", text))
        self.uses = set(re.findall(r"\w+->\w+", everything))
        self.headers = set(re.findall(r"^#include <(.+)>", everything, re.MULTILINE))
        # A file is a module if a function in it, or in its header, begins with its name.
        self.modules = {stem for stem in (pathlib.Path(n).stem for n in code)
                        if re.search(rf"^[\w *]*\b{stem}_\w+\(", everything, re.MULTILINE)}
        self.folders = {part for n in code for part in pathlib.Path(n).parts[:-1]} | {"tools"}
        self.bodies = {}
        for match in re.finditer(r"^struct (\w+) \{(.*?)^\}", everything, re.MULTILINE | re.DOTALL):
            self.bodies.setdefault(match[1], set()).update(re.findall(r"\w+", match[2]))

    def ours(self, name):
        parts = name.split("_")
        return any("_".join(parts[:n]).lower() in self.modules for n in range(1, len(parts)))

    def has_file(self, name):
        if name.startswith("build/") or "NAME" in name or name in self.headers:
            return True  # made, a placeholder, or a library's
        wanted = re.compile("(?:.*/)?" + re.escape(name).replace(r"\*", "[^/]*"))
        return any(wanted.fullmatch(f) for f in self.files)

    def stale(self, span, is_document):
        """The names in `span` that exist nowhere."""
        for name in FILE.findall(span):
            folder = name.rpartition("/")[0].split("/")[0]  # of a path in another project it is not ours
            ours = folder in self.folders if folder else name.endswith((".c", ".h"))
            if ours and not self.has_file(name):
                yield name
        for name in FUNCTION.findall(span):
            if name not in self.words and self.ours(name):
                yield name + "()"
        if is_document:
            for name in MACRO.findall(span):
                if name not in self.words and self.ours(name):
                    yield name
        for name in STRUCT.findall(span):
            if name not in self.words and (is_document or self.ours(name)):
                yield "struct " + name
        for owner, field in FIELD.findall(span):
            body = self.bodies.get(OWNERS.get(owner, owner))
            if body and field not in body and f"{owner}->{field}" not in self.uses:
                yield f"{owner}->{field}"


def spans(name, text):
    """Position and text of each checked name in one file."""
    if name.endswith(".md"):
        text = re.sub(r"^```.*?^```", lambda m: "\n" * m[0].count("\n"), text,
                      flags=re.MULTILINE | re.DOTALL)
        for match in re.finditer(r"`([^`]+)`", text):
            yield text.count("\n", 0, match.start()) + 1, match[1]
    elif name.startswith(("daemon/", "ctl/", "bench/", "lib/", "tests/")) and name.endswith((".c", ".h")):
        for match in COMMENT.finditer(text):
            first = text.count("\n", 0, match.start()) + 1
            for offset, line in enumerate(match[0].split("\n")):
                yield first + offset, line


def links(name, text, files):
    """Links of a document to files that do not exist, and to headings that these do not have."""
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = target.partition("#")
        if re.match(r"\w+:", target):
            continue
        page = (pathlib.Path(name).parent / path).resolve() if path else pathlib.Path(name).resolve()
        if not page.exists():
            yield f"link to {target}, which is no file"
        elif anchor and page.suffix == ".md":
            heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in heads}
            if anchor not in slugs:
                yield f"link to {target}, which has no such heading"


def main():
    tree = Tree(tracked())
    wrong = []
    for name, text in tree.text.items():
        if name == "CHANGELOG.md":
            continue
        for line, span in spans(name, text):
            wrong += [f"{name}:{line}: {stale} does not exist"
                      for stale in tree.stale(span, name.endswith(".md"))]
        if name.endswith(".md"):
            wrong += [f"{name}: {problem}" for problem in links(name, text, tree.files)]
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


sys.exit(main())
