"""§VI-C, Fig. 12 to 20: communication and training on the test bed.

Times of epochs follow a model, as neither GPUs nor data sets are here: an epoch is computation, which is equal for all
methods, and communication. The share of communication in a rival's epoch follows from the paper's figures, its ratio
to ours from our measurement.
"""

from __future__ import annotations

from collections.abc import Mapping

from wiresum.bench.compare.methods import with_summing_switch
from wiresum.predict import predict_tree
from wiresum.reproduce.row import Reports, Row
from wiresum.reproduce.words import less, listed, percent, times
from wiresum.reproduce.xagg import arithmetic, printed
from wiresum.topology.generators.xagg import xagg
from wiresum.topology.model import Topology

RIVALS = {"TCP-Agg": "tcp-agg", "SwitchML": "switch", "NCCL": "gloo", "BytePS": "ps"}
"""What stands for each here: the same tree over kernel TCP; few slots at a switch that sums; a ring; the PS alone."""
RESNET50_BYTES = 97_000_000
PAPER_SCALE = 1.0
"""Scale of the links: the paper's own."""
LIVE_SCALE = 1 / 100
G = 1e9


def communication_ratios(reports: Reports, model: str) -> dict[str, float]:
    """Each rival's communication time over XAgg's, as measured; rivals that were not measured are absent."""
    medians = {r.extra["method"]: r.median for r in reports.report("compare").results if r.extra["model"] == model}
    return {rival: medians[name] / medians["xagg"] for rival, name in RIVALS.items() if name in medians}


def fluid_times() -> str:
    """One all-reduce of ResNet50 with nobody late, by who sums; rates and bytes at 1:100 give the paper's seconds."""
    servers, switch = xagg(LIVE_SCALE), with_summing_switch(LIVE_SCALE)
    names = [worker.name for worker in servers.workers]
    found = {
        "XAgg": (servers, tree_of_servers(servers)),
        "summing switch": (switch, dict.fromkeys(names, "fabric") | {"fabric": None}),
        "parameter server": (servers, dict.fromkeys(names, "PS") | {"PS": None}),
    }
    seconds = {
        name: f"{1e3 * predict_tree(network, parents, RESNET50_BYTES * LIVE_SCALE).seconds:.1f} ms"
        for name, (network, parents) in found.items()
    }
    return f"fluid, an all-reduce with nobody late: {listed(seconds)}"


def tree_of_servers(network: Topology) -> dict[str, str | None]:
    """Fig. 12."""
    return {node.name: node.sums_at for node in network.nodes if node.kind == "worker" or node.sums}


def resnet50(reports: Reports) -> str:
    """Seconds of XAgg and what it saves."""
    ours = next(
        result
        for result in reports.report("compare").results
        if (result.extra["method"], result.extra["model"]) == ("xagg", "ResNet50")
    )
    saved = {rival: less(1 - 1 / ratio) for rival, ratio in communication_ratios(reports, "ResNet50").items()}
    time = f"{1e3 * ours.median:.0f} ms an all-reduce ({ours.median / ours.extra['bound_s']:.2f} × its bound)"
    return f"live at 1:100: XAgg {time}; against {listed(saved)}"


def peaks() -> str:
    """Highest rates of a worker as a fluid."""
    network = xagg(PAPER_SCALE)
    alone: dict[str, str | None] = {worker.name: "PS" for worker in network.workers}
    found = {
        "XAgg": _peak_bps(network, tree_of_servers(network)),
        "parameter server": _peak_bps(network, alone | {"PS": None}),
    }
    shown = {name: f"{rate / G:.1f} Gbit/s" for name, rate in found.items()}
    return f"fluid, fastest worker: {listed(shown)}: {times(found['XAgg'] / found['parameter server'])}"


def _peak_bps(network: Topology, parents: Mapping[str, str | None]) -> float:
    prediction = predict_tree(network, parents, RESNET50_BYTES)
    workers = {worker.name for worker in network.workers}
    return max(span.rate_bps for one in prediction.flows if one.flow.source in workers for span in one.spans)


def shares(epoch_reductions: Mapping[str, float]) -> dict[str, float]:
    """Share of communication in each rival's epoch, from its epoch's reduction, with ResNet50's communication."""
    communication = arithmetic.reductions(printed.RESNET50_COMMUNICATION_S)
    return {
        rival: arithmetic.communication_share(reduction, communication[rival])
        for rival, reduction in epoch_reductions.items()
    }


def epochs_to_switchml(reports: Reports) -> str:
    """Reductions of an epoch against few slots at a switch, by model."""
    found = {}
    for model, share in _switchml_shares().items():
        ratio = communication_ratios(reports, model).get("SwitchML")
        if ratio is not None:
            found[model] = less(arithmetic.epoch_reduction(share, ratio), 0)
    return f"model with our communication, nobody late: {listed(found)}"


def _switchml_shares() -> dict[str, float]:
    return {
        model: shares({"SwitchML": reduction})["SwitchML"]
        for model, reduction in printed.EPOCH_REDUCTION_TO_SWITCHML.items()
    }


def vgg16(reports: Reports) -> str:
    """Speed-ups of a training."""
    projected = _projected(reports, "VGG16", arithmetic.reductions(printed.VGG16_S))
    speedups = {rival: times(1 / (1 - reduction)) for rival, reduction in projected.items()}
    return f"model with our communication, nobody late: {listed(speedups)}"


def bert(reports: Reports) -> str:
    """Reductions of a training."""
    projected = _projected(reports, "BERT-BiLSTM-CRF", printed.BERT_REDUCTION)
    reductions = {rival: less(reduction, 0) for rival, reduction in projected.items()}
    return f"model with our communication, nobody late: against {listed(reductions)}"


def _projected(reports: Reports, model: str, epoch_reductions: Mapping[str, float]) -> dict[str, float]:
    ratios = communication_ratios(reports, model)
    return {
        rival: arithmetic.epoch_reduction(share, ratios[rival])
        for rival, share in shares(epoch_reductions).items()
        if rival in ratios
    }


def _communication() -> str:
    saved = arithmetic.reductions(printed.RESNET50_COMMUNICATION_S)
    return f"{listed({rival: less(value) for rival, value in saved.items()})}; SwitchML's is printed as 82"


def _peak_ratios() -> str:
    peaks_bps = printed.RESNET50_PEAK_BPS
    ratios = {rival: times(peaks_bps["XAgg"] / peaks_bps[rival]) for rival in printed.RIVALS}
    return f"{listed(ratios)}; a worker of W4 to W7, as W1 to W3 have 40 Gbit/s"


def _epochs() -> str:
    whole = arithmetic.reductions(printed.VGG16_S)["SwitchML"]
    found = {model: percent(share, 0) for model, share in _switchml_shares().items()}
    return f"VGG16 from X13: {less(whole)}; share of communication in SwitchML's epoch by the model: {listed(found)}"


def _speedups() -> str:
    speedups = {rival: times(value) for rival, value in arithmetic.speedups(printed.VGG16_S).items()}
    saved = {rival: less(value) for rival, value in arithmetic.reductions(printed.VGG16_S).items()}
    return (
        f"the times give {listed(speedups)} ({listed(saved)}); "
        "printed is 1 + reduction, and for TCP-Agg 1.17 instead of 1.16"
    )


def _bert() -> str:
    found = {rival: percent(share, 0) for rival, share in shares(printed.BERT_REDUCTION).items()}
    return f"share of communication in each epoch by the model: {listed(found)}; the paper states 25 %"


LIVE = ("compare",)
ROWS = (
    Row(
        "X10", "communication of an epoch, ResNet50 (97 MB)", "AHL", "Fig. 13",
        "XAgg 0.31 s, TCP-Agg 0.61, SwitchML 1.66, NCCL 1.03, BytePS 0.93: −49, −82, −70, −66 %",
        recomputed=_communication, computed=fluid_times, measured=resnet50, needs=LIVE,
    ),
    Row(
        "X11", "peak rate of a worker, ResNet50", "HA", "Fig. 15",
        "XAgg 45.7 Gbit/s, TCP-Agg 16.6, SwitchML 11.6, NCCL 14.6, BytePS 16: 2.8, 3.9, 3.1, 2.9 ×",
        recomputed=_peak_ratios, computed=peaks,
    ),
    Row(
        "X12", "time of an epoch against SwitchML", "A", "Fig. 14",
        "AlexNet −23 %, ResNet50 −26 %, VGG16 −34 %, BERT −16 %",
        recomputed=_epochs, measured=epochs_to_switchml, needs=LIVE,
    ),
    Row(
        "X13", "200 epochs of VGG16", "AX", "Fig. 19",
        "1116 s, TCP-Agg 1334, SwitchML 1688, NCCL 1622, BytePS 1530: 1.17, 1.34, 1.31, 1.27 ×; accuracy 0.884",
        recomputed=_speedups, measured=vgg16, needs=LIVE,
    ),
    Row(
        "X14", "30 epochs of BERT-BiLSTM-CRF", "A", "Fig. 20",
        "435 s; −8, −16, −15, −14 % against TCP-Agg, SwitchML, NCCL, BytePS; accuracy 0.924",
        recomputed=_bert, measured=bert, needs=LIVE,
    ),
)  # fmt: skip
