"""Tables of the documentation that follow from registries; `--check` only says which are not as they should be.

A table stands between the lines `<!-- table -->` and `<!-- end of table -->` of a page.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from wiresum.bench import BENCHMARKS
from wiresum.reproduce import PAPERS

DOCS = Path(__file__).parents[1] / "docs"


def benchmarks() -> Iterator[str]:
    """What `wiresum bench` measures, and the section that has the figures of each benchmark."""
    yield "| `wiresum bench` | what it does | figures |\n| --- | --- | --- |"
    for name, one in BENCHMARKS.items():
        page, heading = section(f"wiresum bench {name}")
        anchor = re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        link = f"#{anchor}" if page == "benchmarks.md" else f"{page}#{anchor}"
        yield f"| `{name}` | {one.summary.rstrip('.')} | [{heading}]({link}) |"


def papers() -> Iterator[str]:
    """The papers that `wiresum reproduce` takes."""
    yield "| `wiresum reproduce` | paper |\n| --- | --- |"
    for name, paper in PAPERS.items():
        yield f"| `{name}` | {paper.title} |"


PAGES = ("benchmarks.md", "policies.md", "schedulers.md")
"""Where figures of benchmarks are."""
TABLES = {"benchmarks.md": benchmarks, "reproduction.md": papers}


def section(command: str) -> tuple[str, str]:
    """The page and heading of the first section that begins by naming a command, or that names it at all."""
    for pattern in (rf"^`{command}[ `]", rf"`{command}[ `]"):
        for page in PAGES:
            parts = re.split(r"^##+ (.*)\n", (DOCS / page).read_text(), flags=re.MULTILINE)[1:]
            for heading, text in zip(parts[::2], parts[1::2], strict=True):
                if re.search(pattern, text, flags=re.MULTILINE):
                    return page, heading
    raise SystemExit(f"no section of {', '.join(PAGES)} names `{command}`; write one, with what it measured")


def main() -> int:
    """Writes the tables, or checks them."""
    stale = []
    for page, rows in TABLES.items():
        path = DOCS / page
        before = path.read_text()
        marks = r"(<!-- table -->\n).*?(<!-- end of table -->)"
        after = re.sub(marks, lambda m, rows=rows: m[1] + "\n".join(rows()) + "\n" + m[2], before, flags=re.DOTALL)
        if after != before:
            stale.append(page)
            if "--check" not in sys.argv:
                path.write_text(after)
    if stale and "--check" in sys.argv:
        print(f"tables are not as the registries have them in {', '.join(stale)}; run `make generate`")
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
