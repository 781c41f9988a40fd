#include "remaining.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "errors.h"
#include "going_over.h"

namespace wiresum {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

} // namespace

int Remaining::find(int rank) const {
    const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
    return found != ranks.end() && *found == rank ? static_cast<int>(found - ranks.begin()) : -1;
}

bool Remaining::allows(wiresum_kind kind, int root) const {
    const bool has_root = kind == WIRESUM_REDUCE || kind == WIRESUM_BROADCAST;
    const bool needs_all = kind == WIRESUM_ALL_GATHER || kind == WIRESUM_GATHER || kind == WIRESUM_SCATTER ||
                           kind == WIRESUM_SMALL_GATHER || kind == WIRESUM_SMALL_SCATTER;
    return !needs_all && (!has_root || holds(root));
}

void Remaining::refuse(const std::string &collective) const {
    throw CollectiveError(WIRESUM_WORKER_LOST,
                          c10::str("wiresum:", collective, ": it needs a rank that is lost (", lost, "). ",
                                   remedy(WIRESUM_WORKER_LOST)));
}

int Remaining::place_of(int rank, const std::string &collective) const {
    const int place = find(rank);
    if (place < 0) {
        refuse(collective);
    }
    return place;
}

at::Tensor Remaining::rows(const at::Tensor &of_all) const {
    const std::vector<int64_t> left(ranks.begin(), ranks.end());
    return of_all.index_select(0, at::tensor(left));
}

void scale_sum(at::Tensor &sum, const c10d::ReduceOp &operation, double scale) {
    const bool is_continuous = sum.is_floating_point() || sum.is_complex();
    if (scale != 1 && is_continuous && operation == c10d::ReduceOp::SUM) {
        at::NoGradGuard no_grad;
        sum.mul_(scale);
    }
}

void RemainingGloo::scale(Tensors &tensors, const c10d::ReduceOp &operation) const {
    for (at::Tensor &tensor : tensors) {
        scale_sum(tensor, operation, remaining_->scale());
    }
}

WorkPtr RemainingGloo::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
    scale(tensors, options.reduceOp);
    return members_->allreduce(tensors, options);
}

WorkPtr RemainingGloo::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) {
    scale(tensors, options.reduceOp);
    return members_->allreduce_coalesced(tensors, options);
}

// What other ranks than the root pass must not change.
WorkPtr RemainingGloo::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
    c10d::ReduceOptions ours = options;
    ours.rootRank = remaining_->place_of(static_cast<int>(options.rootRank), "reduce");
    if (options.rootRank == getRank()) {
        scale(tensors, options.reduceOp);
        return members_->reduce(tensors, ours);
    }
    Tensors copies;
    for (const at::Tensor &tensor : tensors) {
        copies.push_back(tensor.clone());
    }
    scale(copies, options.reduceOp);
    return members_->reduce(copies, ours);
}

WorkPtr RemainingGloo::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
    c10d::BroadcastOptions ours = options;
    ours.rootRank = remaining_->place_of(static_cast<int>(options.rootRank), "broadcast");
    return members_->broadcast(tensors, ours);
}

WorkPtr RemainingGloo::barrier(const c10d::BarrierOptions &options) { return members_->barrier(options); }

WorkPtr RemainingGloo::send(Tensors &tensors, int destination, int tag) {
    return members_->send(tensors, remaining_->place_of(destination, "send"), tag);
}

WorkPtr RemainingGloo::recv(Tensors &tensors, int source, int tag) {
    return members_->recv(tensors, remaining_->place_of(source, "recv"), tag);
}

WorkPtr RemainingGloo::reduce_scatter_single(at::Tensor &output, at::Tensor &input,
                                             const c10d::ReduceScatterOptions &options) {
    at::NoGradGuard no_grad;
    Tensors whole{input.reshape(-1).clone()};
    c10d::AllreduceOptions ours;
    ours.reduceOp = options.reduceOp;
    ours.timeout = options.timeout;
    WorkPtr work = allreduce(whole, ours);
    work->wait();
    const int64_t length = output.numel();
    output.view(-1).copy_(whole[0].narrow(0, getRank() * length, length));
    return work;
}

WorkPtr RemainingGloo::reduce_scatter(Tensors &, std::vector<Tensors> &, const c10d::ReduceScatterOptions &) {
    remaining_->refuse("reduce_scatter");
}

WorkPtr RemainingGloo::reduce_scatter_single_coalesced(Tensors &, Tensors &,
                                                       const c10d::ReduceScatterOptions &) {
    remaining_->refuse("reduce_scatter_single_coalesced");
}

WorkPtr RemainingGloo::allgather(std::vector<Tensors> &, Tensors &, const c10d::AllgatherOptions &) {
    remaining_->refuse("all_gather");
}

WorkPtr RemainingGloo::all_gather_single(at::Tensor &, at::Tensor &, const c10d::AllgatherOptions &) {
    remaining_->refuse("all_gather_single");
}

WorkPtr RemainingGloo::allgather_coalesced(std::vector<Tensors> &, Tensors &,
                                           const c10d::AllgatherOptions &) {
    remaining_->refuse("all_gather_coalesced");
}

WorkPtr RemainingGloo::all_gather_single_coalesced(Tensors &, Tensors &, const c10d::AllgatherOptions &) {
    remaining_->refuse("all_gather_single_coalesced");
}

WorkPtr RemainingGloo::allreduce_sparse(Tensors &, const c10d::AllreduceOptions &) {
    remaining_->refuse("all_reduce of sparse tensors");
}

WorkPtr RemainingGloo::gather(std::vector<Tensors> &, Tensors &, const c10d::GatherOptions &) {
    remaining_->refuse("gather");
}

WorkPtr RemainingGloo::gather_single(at::Tensor &, at::Tensor &, const c10d::GatherOptions &) {
    remaining_->refuse("gather_single");
}

WorkPtr RemainingGloo::scatter(Tensors &, std::vector<Tensors> &, const c10d::ScatterOptions &) {
    remaining_->refuse("scatter");
}

WorkPtr RemainingGloo::all_to_all_single(at::Tensor &, at::Tensor &, std::vector<int64_t> &,
                                         std::vector<int64_t> &, const c10d::AllToAllOptions &) {
    remaining_->refuse("all_to_all_single");
}

WorkPtr RemainingGloo::alltoall(Tensors &, Tensors &, const c10d::AllToAllOptions &) {
    remaining_->refuse("all_to_all");
}

WorkPtr RemainingGloo::recvAnysource(Tensors &, int) { remaining_->refuse("recv from any rank"); }

void RemainingGloo::monitoredBarrier(const c10d::BarrierOptions &, bool) {
    remaining_->refuse("monitored_barrier");
}

const Remaining *remaining_of(const c10d::Backend &gloo) {
    const auto *some = dynamic_cast<const RemainingGloo *>(&gloo);
    return some != nullptr ? &some->remaining() : nullptr;
}

at::Tensor gather_rows(c10d::Backend &gloo, const at::Tensor &source, std::chrono::milliseconds timeout) {
    const auto *some = dynamic_cast<const RemainingGloo *>(&gloo);
    c10d::Backend &group = some != nullptr ? some->members() : gloo;
    at::Tensor rows = at::empty({group.getSize(), source.numel()}, source.options());
    copy_by_gloo(group, WIRESUM_ALL_GATHER, 0, source, rows, timeout);
    return rows;
}

} // namespace wiresum
