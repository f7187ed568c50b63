"""Every benchmark of this folder in turn: `python -m bench`, or `python -m bench NAME...` for some of them.

Those that install what they need, `network` and `peers`, run only where they are named. Each runs in a process of its
own, under the first line of its docstring; one that fails does not stop the others.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
NAMED_ONLY = ("network", "peers")


def benchmarks() -> dict[str, str]:
    """Names of the modules that can be run, and what each says of itself."""
    found = {}
    for path in sorted([*FOLDER.glob("*.py"), *(FOLDER / name / "__main__.py" for name in NAMED_ONLY)]):
        source = path.read_text()
        name = path.parent.name if path.stem == "__main__" else path.stem
        if not name.startswith("_") and name != FOLDER.name and "__main__" in source:
            text = ast.get_docstring(ast.parse(source)) or name
            found[name] = text.splitlines()[0]
    return found


def main(wanted: list[str]) -> int:
    known = benchmarks()
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    for name in wanted or [name for name in known if name not in NAMED_ONLY]:
        print(f"\n== {name}: {known[name]}\n", flush=True)
        if subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
