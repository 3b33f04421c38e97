#!/usr/bin/python3
"""check_circles.py BUILD OBJECT...: circles of calls between files of a folder, and between folders (`make lint`).

A file depends on another one when its object refers to a symbol that the other's defines.
"""
import subprocess
import sys
from collections import defaultdict
from pathlib import Path


def references(build, objects):
    """{object: objects that it refers to}, by path below the build directory without `.o`."""
    out = subprocess.run(["nm", "-A", "-P", *objects], check=True, capture_output=True, text=True).stdout
    owner, wanted = {}, defaultdict(set)
    for line in out.splitlines():
        file, symbol, kind = line.split()[:3]
        name = str(Path(file.rstrip(":")).relative_to(build).with_suffix(""))
        if kind in "Uw":
            wanted[name].add(symbol)
        elif kind.isupper():
            owner[symbol] = name
    return {name: {owner[s] for s in symbols if s in owner} - {name} for name, symbols in wanted.items()}


def circles(edges):
    """The sets of two nodes or more that reach each other."""
    def reached(start):
        found, todo = set(), [start]
        while todo:
            for other in edges.get(todo.pop(), ()):
                if other not in found:
                    found.add(other)
                    todo.append(other)
        return found

    reach = {node: reached(node) for node in edges}
    groups = {frozenset(b for b in reach[a] if a in reach.get(b, ())) for a in edges if a in reach[a]}
    return sorted(sorted(group) for group in groups if len(group) > 1)


def main():
    files = references(Path(sys.argv[1]), sys.argv[2:])
    folders = defaultdict(set)
    for name, others in files.items():
        folders[str(Path(name).parent)] |= {str(Path(other).parent) for other in others}
    for folder in folders:
        folders[folder].discard(folder)
    inside = {name: {other for other in others if Path(other).parent == Path(name).parent}
              for name, others in files.items()}
    sys.exit("\n".join("a circle of calls: " + " ".join(group) for group in circles(folders) + circles(inside)) or 0)


if __name__ == "__main__":
    main()
