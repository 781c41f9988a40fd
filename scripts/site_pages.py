"""Assembles the pages of the site: those of the repository under their own paths, and two that are generated.

Links stay as they are, so they work in the repository and on the site alike; what they point to beside pages, such as
pictures, examples and sources, is copied.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "spec/*.md")
STYLE = ".md-grid { max-width: 84rem; }\n"
"""Wide enough for code of 100 columns."""
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
MODULES = {
    "Training": ("wiresum.torch", "wiresum.torch.participation", "wiresum.torch.evaluation"),
    "Tables": ("wiresum.sparse.client",),
    "Planning": ("wiresum.topology.model", "wiresum.plan.job", "wiresum.plan.aggregation_plan", "wiresum.planners"),
    "Running": ("wiresum.testbed.bed", "wiresum.deploy.deployment", "wiresum.deploy.control"),
    "Errors": ("wiresum.errors",),
}
"""The modules whose docstrings are the reference of the Python API."""


def main(folder: Path) -> None:
    """Replaces a folder by the pages."""
    shutil.rmtree(folder, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *PAGES], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for name in listed.stdout.split():
        write(folder / name, page(ROOT / name, folder))
    write(folder / "site.css", STYLE)
    write(folder / "reference/commands.md", "\n".join(commands()))
    write(folder / "reference/python.md", "\n".join(api()))


def page(path: Path, folder: Path) -> str:
    """A page whose links end at pages or copied files."""

    def settled(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        there = (path.parent / target).resolve()
        if "://" in target or not there.is_relative_to(ROOT) or there.suffix == ".md":
            return link[0]
        if there.is_dir():
            index = there / "README.md"
            return f"]({target}/README.md{anchor})" if index.exists() else "]" + source(there)
        copy = folder / there.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(there, copy)
        return link[0]

    return unlinked(LINK.sub(settled, path.read_text(encoding="utf-8")))


FOLDER = "(folder:"


def source(folder: Path) -> str:
    """Marks a link to a folder that has no page."""
    return f"{FOLDER}{folder.relative_to(ROOT)})"


def unlinked(text: str) -> str:
    """Links to folders without a page become their text."""
    return re.sub(rf"\[([^\]]*)\]{re.escape(FOLDER)}[^)]*\)", r"\1", text)


def commands() -> Iterator[str]:
    """The reference of the command line, from the command line itself."""
    from typer.main import get_command

    from wiresum.cli.main import app

    yield "# Commands\n\nWhat `--help` says, on one page. Exit codes: 0 success; 1 failure; 2 wrong usage;"
    yield "3 a privilege or support is missing; 4 the planner advises against summing in the network.\n"
    yield from command(get_command(app), "wiresum", 2)


def command(one: Any, name: str, level: int) -> Iterator[str]:
    """A command and those below it."""
    if name != "wiresum":
        yield f"{'#' * min(level, 4)} `{name}`\n\n{escaped(one.help or '')}\n"
        if one.epilog:
            yield f"{escaped(one.epilog)}\n"
        yield from table(one)
    below = getattr(one, "list_commands", lambda _: [])(None)
    for each in below:
        yield from command(one.get_command(None, each), f"{name} {each}", level + (name != "wiresum"))


def table(one: Any) -> Iterator[str]:
    """Arguments and options of a command."""
    rows = [
        (", ".join(p.opts + p.secondary_opts) if p.opts[0].startswith("-") else (p.metavar or p.name or "").upper(), p)
        for p in one.params
    ]
    rows = [(names, p) for names, p in rows if not getattr(p, "hidden", False) and names != "--help"]
    if rows:
        yield "| option | meaning | default |\n| --- | --- | --- |"
        for names, p in rows:
            default = (
                ""
                if p.default is None or p.default is False or p.default == () or callable(p.default)
                else f"`{p.default}`"
            )
            yield f"| `{names}` | {escaped(getattr(p, 'help', '') or '').replace('|', chr(92) + '|')} | {default} |"
        yield ""


def escaped(text: str) -> str:
    """Text of help as Markdown."""
    return re.sub(r"(?<!`)<", "&lt;", re.sub(r"\n +", "\n", text)).replace("*", "\\*")


def api() -> Iterator[str]:
    """The page from which mkdocstrings makes the reference of Python."""
    yield "# Python\n\nFrom the docstrings of what programs use.\n"
    for title, modules in MODULES.items():
        yield f"## {title}\n"
        yield from (f"::: {module}\n    options:\n      heading_level: 3\n" for module in modules)


def write(path: Path, text: str) -> None:
    """Writes a page."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
