// A group that goes on without ranks that are lost: who is left, and what these sum over Gloo.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "engine_abi.h"

namespace wiresum {

// Who is left of a group. Ranks and size stay those of the whole group.
struct Remaining {
    std::vector<int> ranks; // in order
    int size;
    std::string lost; // a sentence that names who is lost

    // What a sum of those who are left is multiplied by, so that it stands for one of all: callers divide by
    // the size.
    double scale() const { return static_cast<double>(size) / static_cast<double>(ranks.size()); }
    bool holds(int rank) const { return find(rank) >= 0; }
    // Whether a collective of this kind has a meaning without those who are lost.
    bool allows(wiresum_kind kind, int root) const;
    // Throws the error of a collective that has none.
    [[noreturn]] void refuse(const std::string &collective) const;
    // A rank's place among those who are left.
    //
    // Throws if it is lost.
    int place_of(int rank, const std::string &collective) const;
    // The rows of those who are left, of one row for each rank.
    at::Tensor rows(const at::Tensor &of_all) const;

  private:
    int find(int rank) const;
};

// The Gloo group of those who are left, with the ranks and the size of the whole group. What needs everybody
// is a WorkerLostError that names who is lost.
class RemainingGloo final : public c10d::Backend {
  public:
    RemainingGloo(c10::intrusive_ptr<c10d::Backend> members, std::shared_ptr<const Remaining> remaining,
                  int rank)
        : Backend(rank, remaining->size), members_(std::move(members)), remaining_(std::move(remaining)) {
        init();
    }

    const Remaining &remaining() const { return *remaining_; }
    // The group itself, whose ranks are places.
    c10d::Backend &members() const { return *members_; }

    // Sums of floating-point numbers are scaled; see Remaining::scale.
    c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor> &tensors,
                                             const c10d::AllreduceOptions &options) override;
    c10::intrusive_ptr<c10d::Work>
    allreduce_coalesced(std::vector<at::Tensor> &tensors,
                        const c10d::AllreduceCoalescedOptions &options) override;
    c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor> &tensors,
                                          const c10d::ReduceOptions &options) override;
    c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor> &tensors,
                                             const c10d::BroadcastOptions &options) override;
    c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions &options) override;
    c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor> &tensors, int destination, int tag) override;
    c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor> &tensors, int source, int tag) override;
    // Over when it returns: an all-reduce of a copy, of which this rank keeps its part.
    c10::intrusive_ptr<c10d::Work> reduce_scatter_single(at::Tensor &output, at::Tensor &input,
                                                         const c10d::ReduceScatterOptions &options) override;

    // What needs everybody.
    c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor> &outputs,
                                                  std::vector<std::vector<at::Tensor>> &inputs,
                                                  const c10d::ReduceScatterOptions &options) override;
    c10::intrusive_ptr<c10d::Work>
    reduce_scatter_single_coalesced(std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
                                    const c10d::ReduceScatterOptions &options) override;
    c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>> &outputs,
                                             std::vector<at::Tensor> &inputs,
                                             const c10d::AllgatherOptions &options) override;
    c10::intrusive_ptr<c10d::Work> all_gather_single(at::Tensor &output, at::Tensor &input,
                                                     const c10d::AllgatherOptions &options) override;
    c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<std::vector<at::Tensor>> &outputs,
                                                       std::vector<at::Tensor> &inputs,
                                                       const c10d::AllgatherOptions &options) override;
    c10::intrusive_ptr<c10d::Work>
    all_gather_single_coalesced(std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
                                const c10d::AllgatherOptions &options) override;
    c10::intrusive_ptr<c10d::Work> allreduce_sparse(std::vector<at::Tensor> &tensors,
                                                    const c10d::AllreduceOptions &options) override;
    c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>> &outputs,
                                          std::vector<at::Tensor> &inputs,
                                          const c10d::GatherOptions &options) override;
    c10::intrusive_ptr<c10d::Work> gather_single(at::Tensor &output, at::Tensor &input,
                                                 const c10d::GatherOptions &options) override;
    c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor> &outputs,
                                           std::vector<std::vector<at::Tensor>> &inputs,
                                           const c10d::ScatterOptions &options) override;
    c10::intrusive_ptr<c10d::Work> all_to_all_single(at::Tensor &output, at::Tensor &input,
                                                     std::vector<int64_t> &output_sizes,
                                                     std::vector<int64_t> &input_sizes,
                                                     const c10d::AllToAllOptions &options) override;
    c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
                                            const c10d::AllToAllOptions &options) override;
    c10::intrusive_ptr<c10d::Work> recvAnysource(std::vector<at::Tensor> &tensors, int tag) override;
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;

    const std::string getBackendName() const override { return members_->getBackendName(); }
    c10::intrusive_ptr<Options> getBackendOptions() override { return members_->getBackendOptions(); }
    uint64_t getSequenceNumberForGroup() override { return members_->getSequenceNumberForGroup(); }
    void setTimeout(std::chrono::milliseconds timeout) override { members_->setTimeout(timeout); }
    void setGroupUid(const std::string &name) override { members_->setGroupUid(name); }
    c10d::ErrorType getError() override { return members_->getError(); }
    void abort() override { members_->abort(); }
    void shutdown() override { members_->shutdown(); }

  private:
    void scale(std::vector<at::Tensor> &tensors, const c10d::ReduceOp &operation) const;

    const c10::intrusive_ptr<c10d::Backend> members_;
    const std::shared_ptr<const Remaining> remaining_;
};

// Who is left, where a group is a RemainingGloo; null where nobody is lost.
const Remaining *remaining_of(const c10d::Backend &gloo);

// Multiplies a sum of floating-point numbers by this.
void scale_sum(at::Tensor &sum, const c10d::ReduceOp &operation, double scale);

// Every rank's row of `source`, of those who take part in the group: all, or those who are left.
at::Tensor gather_rows(c10d::Backend &gloo, const at::Tensor &source, std::chrono::milliseconds timeout);

} // namespace wiresum
