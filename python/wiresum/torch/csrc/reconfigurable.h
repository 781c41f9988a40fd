// A group whose members change (`enable_reconfigure=True`): each time it is given its members, it is made
// anew.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace wiresum {

class ReconfigurableBackend final : public c10d::Backend {
  public:
    using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
    // What this process is called by among members that it may meet.
    using Handle = std::function<std::string()>;
    // Meets members in order of their ranks, this process among them.
    using Meet = std::function<BackendPtr(int64_t uuid, std::vector<std::string> members,
                                          std::chrono::milliseconds timeout)>;

    ReconfigurableBackend(int rank, int size, std::chrono::milliseconds timeout, Handle handle, Meet meet)
        : Backend(rank, size), handle_(std::move(handle)), meet_(std::move(meet)), timeout_(timeout) {
        init();
    }

    bool supportsReconfigure() const override { return true; }
    c10d::ReconfigureHandle get_reconfigure_handle() const override { return handle_(); }
    // Over when it returns. Collectives of the members before end with an error. Members without an order
    // have that of their handles.
    c10::intrusive_ptr<c10d::Work> reconfigure(const c10d::ReconfigureOptions &options) override;
    // The group of the present members; null before there were any.
    BackendPtr members() const;

    const std::string getBackendName() const override { return "wiresum"; }
    c10::intrusive_ptr<Options> getBackendOptions() override;
    uint64_t getSequenceNumberForGroup() override;
    void setTimeout(std::chrono::milliseconds timeout) override;
    void setGroupUid(const std::string &name) override;
    c10d::ErrorType getError() override;
    void abort() override;
    void shutdown() override;
    bool supportsShrinking() const override { return true; }
    BackendPtr shrink(const std::vector<int64_t> &excluded, int flags,
                      const c10::intrusive_ptr<Options> &options) override {
        return now()->shrink(excluded, flags, options);
    }

    // What the present members do.
    c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor> &tensors,
                                             const c10d::AllreduceOptions &options) override {
        return now()->allreduce(tensors, options);
    }
    c10::intrusive_ptr<c10d::Work>
    allreduce_coalesced(std::vector<at::Tensor> &tensors,
                        const c10d::AllreduceCoalescedOptions &options) override {
        return now()->allreduce_coalesced(tensors, options);
    }
    c10::intrusive_ptr<c10d::Work> allreduce_sparse(std::vector<at::Tensor> &tensors,
                                                    const c10d::AllreduceOptions &options) override {
        return now()->allreduce_sparse(tensors, options);
    }
    c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor> &tensors,
                                          const c10d::ReduceOptions &options) override {
        return now()->reduce(tensors, options);
    }
    c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor> &outputs,
                                                  std::vector<std::vector<at::Tensor>> &inputs,
                                                  const c10d::ReduceScatterOptions &options) override {
        return now()->reduce_scatter(outputs, inputs, options);
    }
    c10::intrusive_ptr<c10d::Work> reduce_scatter_single(at::Tensor &output, at::Tensor &input,
                                                         const c10d::ReduceScatterOptions &options) override {
        return now()->reduce_scatter_single(output, input, options);
    }
    c10::intrusive_ptr<c10d::Work>
    reduce_scatter_single_coalesced(std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
                                    const c10d::ReduceScatterOptions &options) override {
        return now()->reduce_scatter_single_coalesced(outputs, inputs, options);
    }
    c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor> &tensors,
                                             const c10d::BroadcastOptions &options) override {
        return now()->broadcast(tensors, options);
    }
    c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>> &outputs,
                                             std::vector<at::Tensor> &inputs,
                                             const c10d::AllgatherOptions &options) override {
        return now()->allgather(outputs, inputs, options);
    }
    c10::intrusive_ptr<c10d::Work> all_gather_single(at::Tensor &output, at::Tensor &input,
                                                     const c10d::AllgatherOptions &options) override {
        return now()->all_gather_single(output, input, options);
    }
    c10::intrusive_ptr<c10d::Work> allgather_coalesced(std::vector<std::vector<at::Tensor>> &outputs,
                                                       std::vector<at::Tensor> &inputs,
                                                       const c10d::AllgatherOptions &options) override {
        return now()->allgather_coalesced(outputs, inputs, options);
    }
    c10::intrusive_ptr<c10d::Work>
    all_gather_single_coalesced(std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
                                const c10d::AllgatherOptions &options) override {
        return now()->all_gather_single_coalesced(outputs, inputs, options);
    }
    c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>> &outputs,
                                          std::vector<at::Tensor> &inputs,
                                          const c10d::GatherOptions &options) override {
        return now()->gather(outputs, inputs, options);
    }
    c10::intrusive_ptr<c10d::Work> gather_single(at::Tensor &output, at::Tensor &input,
                                                 const c10d::GatherOptions &options) override {
        return now()->gather_single(output, input, options);
    }
    c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor> &outputs,
                                           std::vector<std::vector<at::Tensor>> &inputs,
                                           const c10d::ScatterOptions &options) override {
        return now()->scatter(outputs, inputs, options);
    }
    c10::intrusive_ptr<c10d::Work> all_to_all_single(at::Tensor &output, at::Tensor &input,
                                                     std::vector<int64_t> &output_sizes,
                                                     std::vector<int64_t> &input_sizes,
                                                     const c10d::AllToAllOptions &options) override {
        return now()->all_to_all_single(output, input, output_sizes, input_sizes, options);
    }
    c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
                                            const c10d::AllToAllOptions &options) override {
        return now()->alltoall(outputs, inputs, options);
    }
    c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor> &tensors, int destination, int tag) override {
        return now()->send(tensors, destination, tag);
    }
    c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor> &tensors, int source, int tag) override {
        return now()->recv(tensors, source, tag);
    }
    c10::intrusive_ptr<c10d::Work> recvAnysource(std::vector<at::Tensor> &tensors, int tag) override {
        return now()->recvAnysource(tensors, tag);
    }
    c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions &options) override {
        return now()->barrier(options);
    }
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override {
        return now()->monitoredBarrier(options, wait_all_ranks);
    }

  private:
    // Throws if there are no members yet.
    BackendPtr now() const;

    const Handle handle_;
    const Meet meet_;
    mutable std::mutex mutex_;
    std::chrono::milliseconds timeout_;
    BackendPtr members_;
    std::string uid_;
};

} // namespace wiresum
