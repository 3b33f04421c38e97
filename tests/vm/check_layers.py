"""Run by `make check-layers`: does each pattern of the table of layers (bench/layers/layers_table.c) that is of the
kernel fit a function of one of these kernels?  Arguments: lists of symbols, as /proc/kallsyms."""
import bisect
import re
import sys
from pathlib import Path

TABLE = Path(__file__).resolve().parents[2] / "bench/layers/layers_table.c"


def patterns():
    rows = re.search(r"\} functions\[\] = \{(.*?)\n\};", TABLE.read_text(), re.S)[1]
    strings = re.findall(r"\.kernel =\s*((?:\"[^\"]*\"\s*)+)", rows)
    return sorted({pattern for text in strings for pattern in "".join(re.findall(r'"([^"]*)"', text)).split()})


def plain(name):
    """As layers_table.c makes it: without leading underscores, an architecture's prefix and a compiler's end."""
    return re.split(r"[.@]", re.sub(r"^(x64|arm64|s390x|se)_sys_(?!call$)", "sys_", name.lstrip("_")))[0]


def functions(path):
    lines = (line.split() for line in Path(path).read_text().splitlines())
    return sorted({plain(words[2]) for words in lines if words[1] in "tTwW"})


def fits(pattern, names):
    at = bisect.bisect_left(names, pattern.rstrip("*"))
    found = names[at] if at < len(names) else ""
    return found.startswith(pattern[:-1]) if pattern.endswith("*") else found == pattern


def main(paths):
    left = table = patterns()
    for path in paths:
        names = functions(path)
        missing = [pattern for pattern in table if not fits(pattern, names)]
        left = [pattern for pattern in left if pattern in missing]
        print(f"{path}: {len(names)} functions, {len(table) - len(missing)} of {len(table)} patterns; not", *missing)
    if left or not table:
        sys.exit("in the table, but in none of these kernels: " + " ".join(left))


main(sys.argv[1:])
