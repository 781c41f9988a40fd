"""Ranks in namespaces that join one plan after another: starting PyTorch takes longer than all sums."""

import json
import select
import subprocess
import sys
from pathlib import Path

PATIENCE_S = 60.0
"""Until a sum that is right counts as late, on a busy machine."""


class Ranks:
    """A testbed whose plan changes, and a rank at each worker."""

    def __init__(self, bed, elements):
        self.bed = bed
        self.elements = elements
        worker = [sys.executable, str(Path(__file__).with_name("group_worker.py"))]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        environment = {"WIRESUM_REQUIRE": "1"}
        self.ranks = [bed.spawn_worker(rank, worker, environment, **pipes) for rank in range(len(bed.workers))]
        self.answers()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait()

    def tell(self, text):
        for rank in self.ranks:
            rank.stdin.write(text + "\n")
            rank.stdin.flush()

    def answers(self):
        lines = [rank.stdout.readline() for rank in self.ranks]
        assert all(lines), "a rank has ended; its error is above"
        return [json.loads(line) for line in lines]

    def join(self, plan, timeout_s=PATIENCE_S, elements=None):
        """A group of every rank over a plan's switches."""
        self.bed.deployment.replace(plan)
        self.meet(self.bed.plan_file, timeout_s, elements)

    def meet(self, plan_file, timeout_s=PATIENCE_S, elements=None):
        """A group over switches that run already."""
        asked = {"plan": str(plan_file), "elements": elements or self.elements, "timeout_s": timeout_s}
        self.tell(json.dumps(asked))
        self.answers()

    def are_busy(self):
        """Whether no rank has answered yet."""
        return not select.select([rank.stdout for rank in self.ranks], [], [], 0)[0]

    def sum(self):
        self.tell("sum")
        return self.answers()

    def train(self):
        """A digest of what every rank has learned."""
        self.tell("train")
        (learned,) = {answer["learned"] for answer in self.answers()}
        return learned

    def sum_rightly(self):
        """Every rank has the sum, to the bit."""
        self.tell("sum")
        self.have_summed_rightly()

    def have_summed_rightly(self):
        """Every rank that was told to sum has the sum, to the bit."""
        said = self.answers()
        assert said == [{"right": True, "error": None}] * len(self.ranks), said

    def sum_rightly_without(self, late):
        """The others have their sum before the late rank begins, which then has the same."""
        others = [rank for rank in range(len(self.ranks)) if rank != late]
        for ranks in (others, [late]):
            for rank in ranks:
                self.ranks[rank].stdin.write(f"sum without {late}\n")
                self.ranks[rank].stdin.flush()
            for rank in ranks:
                assert json.loads(self.ranks[rank].stdout.readline()) == {"right": True, "error": None}

    def leave(self):
        """Ends the group, and the daemons, whose counters it returns."""
        self.tell("leave")
        self.answers()
        return self.bed.deployment.stop()
