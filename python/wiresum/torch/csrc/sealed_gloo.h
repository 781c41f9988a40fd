// A Gloo group of a sealed or proven job: all that it carries is encrypted and authenticated with the job's
// keys.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "sealed_link.h"
#include "sealed_values.h"
#include "task_pool.h"

namespace wiresum {

// Collectives run one after another, in the order of the calls. Sums are formed in the order of the ranks, so
// all ranks have the same bits. Tensors may have any strides, and may be on a GPU.
class SealedGloo final : public c10d::Backend {
  public:
    using Tensors = std::vector<at::Tensor>;
    using WorkPtr = c10::intrusive_ptr<c10d::Work>;

    // Agrees on keys with the other ranks, and returns when all have shown theirs.
    SealedGloo(const c10::intrusive_ptr<c10d::Backend> &gloo, GlooKeys keys, std::vector<int> names);
    ~SealedGloo() override;

    WorkPtr allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPtr allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) override;
    // Sums of sparse tensors.
    WorkPtr allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) override;
    WorkPtr reduce(Tensors &tensors, const c10d::ReduceOptions &options) override;
    WorkPtr reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                           const c10d::ReduceScatterOptions &options) override;
    WorkPtr reduce_scatter_single(at::Tensor &output, at::Tensor &input,
                                  const c10d::ReduceScatterOptions &options) override;
    WorkPtr reduce_scatter_single_coalesced(Tensors &outputs, Tensors &inputs,
                                            const c10d::ReduceScatterOptions &options) override;
    WorkPtr broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) override;
    WorkPtr allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                      const c10d::AllgatherOptions &options) override;
    WorkPtr all_gather_single(at::Tensor &output, at::Tensor &input,
                              const c10d::AllgatherOptions &options) override;
    WorkPtr allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                const c10d::AllgatherOptions &options) override;
    WorkPtr all_gather_single_coalesced(Tensors &outputs, Tensors &inputs,
                                        const c10d::AllgatherOptions &options) override;
    WorkPtr gather(std::vector<Tensors> &outputs, Tensors &inputs,
                   const c10d::GatherOptions &options) override;
    WorkPtr gather_single(at::Tensor &output, at::Tensor &input, const c10d::GatherOptions &options) override;
    WorkPtr scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                    const c10d::ScatterOptions &options) override;
    WorkPtr all_to_all_single(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &output_sizes,
                              std::vector<int64_t> &input_sizes,
                              const c10d::AllToAllOptions &options) override;
    WorkPtr alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) override;
    WorkPtr send(Tensors &tensors, int destination, int tag) override;
    WorkPtr recv(Tensors &tensors, int source, int tag) override;
    WorkPtr recvAnysource(Tensors &tensors, int tag) override;
    WorkPtr barrier(const c10d::BarrierOptions &options) override;
    // Has no values: Gloo names the ranks that do not come, and an authenticated barrier follows.
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;

    const std::string getBackendName() const override { return "gloo"; }
    c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
    uint64_t getSequenceNumberForGroup() override { return collectives_; }
    void setTimeout(std::chrono::milliseconds timeout) override;
    void setGroupUid(const std::string &name) override;
    void enableCollectivesTiming() override { link_->gloo()->enableCollectivesTiming(); }
    c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store> &store,
                                      const c10::intrusive_ptr<Options> &options, const int &rank,
                                      const int &size) override;

  private:
    // What is asked for, and where its results go.
    struct Call {
        c10d::OpType op_type;
        const char *title;
        Tensors inputs;
        Tensors outputs;
        std::chrono::milliseconds timeout;
        SealedHeader header;
    };
    using Body = std::function<void(SealedLink &link, SealedLink::Step &step)>;

    WorkPtr start(Call call, Body body);
    Call call_of(c10d::OpType op_type, const char *title, Tensors inputs, Tensors outputs,
                 std::chrono::milliseconds timeout) const;
    WorkPtr sum_all(c10d::OpType op_type, const char *title, const Tensors &tensors,
                    const c10d::ReduceOp &operation, std::chrono::milliseconds timeout);
    // Sums parts for all ranks; each rank keeps the sum of its own.
    WorkPtr sum_parts(c10d::OpType op_type, const char *title, HostParts parts, const at::Tensor &output,
                      const c10d::ReduceOp &operation, std::chrono::milliseconds timeout);
    WorkPtr gather_all(c10d::OpType op_type, const Tensors &inputs, HostParts taken, Tensors outputs,
                       std::chrono::milliseconds timeout);
    WorkPtr gather_parts(const at::Tensor &input, HostParts taken, Tensors outputs, int root,
                         std::chrono::milliseconds timeout);
    // Sends each rank its part.
    WorkPtr swap(Call call, HostParts sent, HostParts taken);
    static void meet(SealedLink &link, SealedLink::Step &step);

    const c10::intrusive_ptr<Options> options_;
    const std::shared_ptr<SealedLink> link_;
    const std::shared_ptr<Strand> order_ = std::make_shared<Strand>();
    std::mutex calls_; // numbers are in the order of the strand
    std::atomic<uint64_t> collectives_{0};
    std::atomic<std::chrono::milliseconds> timeout_;
};

} // namespace wiresum
