// The c10d backend `wiresum`: sums of floats, and copies, go to the engine, everything else to an inner Gloo
// group.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "eligibility.h"
#include "engine_abi.h"
#include "ledger.h"
#include "sparse_work.h"
#include "staged_work.h"
#include "submissions.h"
#include "work.h"

namespace wiresum {

// A group's connection to the network.
struct Network {
    const wiresum_engine_abi *engine;
    // Sums again what is not finite.
    c10::intrusive_ptr<c10d::Backend> fallback;
    // Fewer elements go through Gloo.
    int64_t min_elements;
    LaneBytes lane_bytes;
    // Whether the plan has streams for bytes that are copied.
    bool copies;
    // Sums when the job has left the network; null where it may not.
    c10::intrusive_ptr<c10d::Backend> afterwards;
    // WIRESUM_DEAD_AFTER, and what it takes to tell; zero where nobody is told who is lost.
    std::chrono::milliseconds loss_known_after;
    // WIRESUM_REPLAY: bytes that may be kept for that; none where another setting has the job leave.
    std::optional<uint64_t> replay_bytes;
    // Closes the engine, which ends every open collective first. Called once, without Python's lock.
    std::function<void()> close;
};

// A group's ways out of the network and back, which all ranks go together. It does not keep the backend.
struct Crossing {
    const std::shared_ptr<Submissions> submissions;
    const std::shared_ptr<GoingOver> going_over;
    const std::shared_ptr<GroupContext> group;
    const int rank;
    std::optional<GroupContext::Groups> next; // of those who are left, from the next departure on

    // Ranks are lost: those who are left go on in these groups of Gloo. To be called before the engine is
    // told that the network serves the job no more.
    void go_on_without(std::shared_ptr<const Remaining> remaining, c10::intrusive_ptr<c10d::Backend> inner,
                       c10::intrusive_ptr<c10d::Backend> fallback,
                       c10::intrusive_ptr<c10d::Backend> afterwards);
    void leave();
    // A rank is lost for good: what Gloo has, and gets, ends with an error of these words.
    void lose(const std::string &why) const;
    uint64_t hold() const { return submissions->hold(*going_over); }
    void go_on(uint64_t first, const wiresum_engine_abi *engine) const {
        submissions->go_on(first, engine, going_over);
    }
    // All that is held, and all that comes, fails with these words.
    void fail(const std::string &why) const { submissions->close(why); }
};

class WiresumBackend final : public c10d::Backend {
  public:
    // Makes another Gloo group of the same ranks, once they need it, by its name: on which they tell each
    // other their rows, or in which order callbacks submit collectives.
    using OpenGloo = std::function<c10::intrusive_ptr<c10d::Backend>(std::string name)>;

    // Makes the group of all ranks but these.
    using Remake = std::function<c10::intrusive_ptr<c10d::Backend>(std::vector<int64_t> excluded)>;

    // Makes a group of some ranks in this order, this one among them, which meet in the store.
    using Split = std::function<c10::intrusive_ptr<c10d::Backend>(
        c10::intrusive_ptr<c10d::Store>, std::vector<int64_t> ranks, std::chrono::milliseconds timeout,
        std::string name)>;

    // A group without a network says why in `no_network`.
    WiresumBackend(c10::intrusive_ptr<c10d::Backend> inner, std::chrono::milliseconds timeout,
                   std::optional<Network> network, std::string no_network, OpenGloo open_gloo, Remake remake,
                   Split split);
    ~WiresumBackend() override;

    const std::shared_ptr<Ledger> &ledger() const { return group_->ledger; }
    c10::intrusive_ptr<c10d::Backend> inner() const { return group_->groups().inner; }
    // What is to be called once the engine was told that the network serves the job no more, on all ranks;
    // null where the job may not go on without it. It does not keep the backend.
    std::function<void()> leave() const;
    // The ways out of the network and back; null where there are none.
    std::shared_ptr<Crossing> crossing() const;
    // What is to be called once a rank is lost for good, with why in words: what Gloo has, and gets, and what
    // fails in the network, says so. It does not keep the backend.
    std::function<void(const std::string &why)> lose() const;

    // The collectives that may go through the network.
    c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor> &tensors,
                                             const c10d::AllreduceOptions &options) override;
    c10::intrusive_ptr<c10d::Work>
    allreduce_coalesced(std::vector<at::Tensor> &tensors,
                        const c10d::AllreduceCoalescedOptions &options) override;
    c10::intrusive_ptr<c10d::Work> reduce(std::vector<at::Tensor> &tensors,
                                          const c10d::ReduceOptions &options) override;
    c10::intrusive_ptr<c10d::Work> reduce_scatter(std::vector<at::Tensor> &outputs,
                                                  std::vector<std::vector<at::Tensor>> &inputs,
                                                  const c10d::ReduceScatterOptions &options) override;
    c10::intrusive_ptr<c10d::Work> reduce_scatter_single(at::Tensor &output, at::Tensor &input,
                                                         const c10d::ReduceScatterOptions &options) override;
    c10::intrusive_ptr<c10d::Work>
    reduce_scatter_single_coalesced(std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
                                    const c10d::ReduceScatterOptions &options) override;
    c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor> &tensors,
                                             const c10d::BroadcastOptions &options) override;
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
    c10::intrusive_ptr<c10d::Work> gather(std::vector<std::vector<at::Tensor>> &outputs,
                                          std::vector<at::Tensor> &inputs,
                                          const c10d::GatherOptions &options) override;
    c10::intrusive_ptr<c10d::Work> gather_single(at::Tensor &output, at::Tensor &input,
                                                 const c10d::GatherOptions &options) override;
    c10::intrusive_ptr<c10d::Work> scatter(std::vector<at::Tensor> &outputs,
                                           std::vector<std::vector<at::Tensor>> &inputs,
                                           const c10d::ScatterOptions &options) override;

    // An all-reduce by numbers of 8 bits, where the network can. What they have no room for is written to
    // `kept`, as float32 elements on the host; if that is undefined, chance rounds them. Elsewhere the sum is
    // whole, and `kept` is zeros.
    c10::intrusive_ptr<c10d::Work> all_reduce_int8(const at::Tensor &tensor, const c10d::ReduceOp &operation,
                                                   const at::Tensor &kept, std::chrono::milliseconds timeout);
    // Whether the network sums numbers of 8 bits.
    bool packs() const { return packs_; }

    // Those that Gloo takes.
    c10::intrusive_ptr<c10d::Work> allreduce_sparse(std::vector<at::Tensor> &tensors,
                                                    const c10d::AllreduceOptions &options) override;
    c10::intrusive_ptr<c10d::Work> all_to_all_single(at::Tensor &output, at::Tensor &input,
                                                     std::vector<int64_t> &output_sizes,
                                                     std::vector<int64_t> &input_sizes,
                                                     const c10d::AllToAllOptions &options) override;
    c10::intrusive_ptr<c10d::Work> alltoall(std::vector<at::Tensor> &outputs, std::vector<at::Tensor> &inputs,
                                            const c10d::AllToAllOptions &options) override;
    c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor> &tensors, int destination, int tag) override;
    c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor> &tensors, int source, int tag) override;
    c10::intrusive_ptr<c10d::Work> recvAnysource(std::vector<at::Tensor> &tensors, int tag) override;
    c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions &options) override;
    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) override;

    // The group itself.
    const std::string getBackendName() const override { return "wiresum"; }
    c10::intrusive_ptr<Options> getBackendOptions() override { return inner()->getBackendOptions(); }
    uint64_t getSequenceNumberForGroup() override;
    void setTimeout(std::chrono::milliseconds timeout) override;
    void setGroupUid(const std::string &name) override;
    void enableCollectivesTiming() override { inner()->enableCollectivesTiming(); }
    c10d::ErrorType getError() override { return inner()->getError(); }
    void abort() override;
    void shutdown() override;

    // Groups made from this one: parts of it have the network where the plan has a job for them, merged ones
    // have none, and cannot be split.
    bool supportsSplitting() const override { return split_ != nullptr; }
    c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store> &store,
                                      const std::vector<int> &ranks,
                                      const c10::intrusive_ptr<Options> &options) override;
    c10::intrusive_ptr<Backend> merge(const c10::intrusive_ptr<c10d::Store> &store,
                                      const c10::intrusive_ptr<Options> &options, const int &rank,
                                      const int &size) override;
    // The group of those who are left, connected as this one was. Collectives that are under way end with an
    // error, whatever the flags.
    bool supportsShrinking() const override { return remake_ != nullptr; }
    c10::intrusive_ptr<Backend> shrink(const std::vector<int64_t> &excluded, int flags,
                                       const c10::intrusive_ptr<Options> &options) override;

  private:
    using Delegate = std::function<c10::intrusive_ptr<c10d::Work>()>;

    // Hands a request to the network, or to Gloo where the network cannot take it, or it is of a form that is
    // Gloo's.
    c10::intrusive_ptr<c10d::Work> delegate(const Delegate &to_gloo, const char *collective, Reason reason);
    c10::intrusive_ptr<c10d::Work> in_turn(const Delegate &to_gloo);
    // The same for what two ranks do, and not all.
    c10::intrusive_ptr<c10d::Work> delegate_message(const Delegate &to_gloo, const char *what,
                                                    const std::vector<at::Tensor> &tensors);
    // The same for what is Gloo's anyway, and its place in the books.
    c10::intrusive_ptr<c10d::Work> count_and_delegate(const Delegate &to_gloo, const char *collective,
                                                      const std::vector<at::Tensor> &tensors);
    c10::intrusive_ptr<c10d::Work> carry_or(const Delegate &to_gloo, Request request, bool is_ours);
    Reason decide_on(const Request &request, bool is_ours) const;
    bool is_rank(int64_t root) const;
    // Whether there is one of these for each rank, as long as that rank's share.
    bool are_shares(const std::vector<at::Tensor> &tensors, const at::Tensor &share) const;
    // By the network, as sums or copies, or in the packets that open a collective.
    c10::intrusive_ptr<c10d::Work> carry(Request request, bool is_share);
    c10::intrusive_ptr<c10d::Work> sum_rows(Request request);
    Ability ability() const;
    std::chrono::milliseconds timeout_of(std::chrono::milliseconds asked) const;
    void count_delegated(const char *collective, const std::vector<at::Tensor> &tensors);
    void close();

    const std::optional<Network> network_;
    const OpenGloo open_gloo_;
    const Remake remake_;
    const Split split_;
    const int64_t largest_share_; // as in Ability; read before the engine is closed
    const bool packs_;            // likewise
    const int64_t exact_bytes_;   // likewise
    const std::shared_ptr<GroupContext> group_;
    std::atomic<std::chrono::milliseconds> timeout_;

    // Asking in one order on every rank needs one request at a time.
    std::mutex order_;
    std::atomic<uint64_t> asked_{0};
    std::atomic<uint32_t> packed_{0}; // sums of 8 bits, each of which has a seed of its own
    const std::shared_ptr<Submissions> submissions_;
    const std::shared_ptr<Staging> staging_ = std::make_shared<Staging>();
    std::shared_ptr<RowChannel> rows_; // null until there is a sparse tensor
    std::atomic<bool> is_closed_{false};
};

} // namespace wiresum
