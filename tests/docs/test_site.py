"""The pages of the site, before MkDocs: what `make docs` would stumble over, without installing it."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from tests.docs.blocks import ROOT


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages").resolve()
    script("site_pages").main(folder)
    return folder


def test_every_link_of_a_page_leads_to_a_file(pages: Path):
    link = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")
    dead = [
        f"{page.relative_to(pages)}: {target}"
        for page in pages.rglob("*.md")
        for target in link.findall(re.sub(r"`[^`\n]*`", "", page.read_text(encoding="utf-8")))
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert dead == []


def test_every_page_of_the_navigation_is_there(pages: Path):
    named = re.findall(r"[\w./-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    assert len(named) > 30
    assert [name for name in named if not (pages / name).exists()] == []


def test_the_reference_has_every_command(pages: Path):
    reference = (pages / "reference/commands.md").read_text(encoding="utf-8")
    for command in ("plan", "selftest", "top", "testbed run", "topology star", "node status", "bench allreduce"):
        assert f"`wiresum {command}`\n" in reference
    assert "| `--seed` | Seed for planners that choose at random | `0` |" in reference


def test_modules_of_the_reference_exist():
    modules = [module for group in script("site_pages").MODULES.values() for module in group]
    assert [name for name in modules if importlib.util.find_spec(name) is None] == []


def test_requests_to_elsewhere_are_found(tmp_path: Path):
    page = tmp_path / "page.html"
    page.write_text('<link rel="canonical" href="https://a/"><a href="https://b/">b</a><img src="c.png">')
    assert script("site_requests").requests(page) == []
    page.write_text('<script src="https://a/x.js"></script><link rel="stylesheet" href="//b/x.css">')
    assert script("site_requests").requests(page) == ["https://a/x.js", "//b/x.css"]
