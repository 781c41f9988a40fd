// How a job that the network serves no more goes over to Gloo in the midst of its collectives.
//
// Each rank has ended a number of collectives in the network, in one order, and some may have ended more than
// others. Results that any rank has got stay what they are: one rank that has them gives them to those that
// have not. All later collectives are Gloo's, until the ranks go back to the network together.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "engine_abi.h"
#include "reason.h"
#include "replay_memory.h"
#include "task_pool.h"

namespace wiresum {

// Whether bytes are copied, and nothing is summed.
inline bool is_copy(wiresum_kind kind) {
    return kind == WIRESUM_ALL_GATHER || kind == WIRESUM_BROADCAST || kind == WIRESUM_GATHER ||
           kind == WIRESUM_SCATTER;
}

// Whether it is a share, and no form of anything that streams carry.
inline bool is_share_alone(wiresum_kind kind) {
    return kind == WIRESUM_BARRIER || kind == WIRESUM_SMALL_GATHER || kind == WIRESUM_SMALL_SCATTER;
}

// A collective that has ended in the network.
struct Ended {
    wiresum_kind kind;
    int root;
    c10d::ReduceOp operation;
    // Summed; or why all ranks sum it again.
    Reason reason;
    // The results of an all-reduce that another rank may lack. Of other kinds what this rank gave, as nobody
    // else has another rank's part.
    at::Tensor values;
    // The room that they take; null if they are not kept apart, and may have changed since.
    ReplayMemory::Lease kept;
};

class GoingOver : public std::enable_shared_from_this<GoingOver> {
  public:
    // `gloo` is used for nothing else. What has ended is kept for ranks without its results, which are apart
    // by one window of packets at most.
    GoingOver(c10::intrusive_ptr<c10d::Backend> gloo, ReplayMemory memory)
        : gloo_(std::move(gloo)), memory_(std::move(memory)) {}

    // Ranks are lost. Those who are left have this group: they meet there, and sum there what the network
    // does not. To be called before the ranks leave the network.
    void go_on_without(c10::intrusive_ptr<c10d::Backend> gloo);
    // Room for what a collective has to keep apart so that it may begin anew; null if there is none.
    ReplayMemory::Lease keep(uint64_t bytes) { return memory_.lease(bytes); }
    // The same, with a tensor for it.
    ReplayMemory::Loan lend_like(const at::Tensor &model) { return memory_.lend_like(model); }
    // The next collective is given to the network; whether what it needs to begin anew is kept.
    void note_begun(bool is_kept);
    // The next share is given to the network, which is its number. Shares end in one order, but before
    // collectives that were given earlier, and so are counted apart. `kept` is room for the share; null if
    // there was none, and the share may change.
    uint64_t note_share(at::Tensor share, ReplayMemory::Lease kept);
    // The network has ended the next share. On the engine's thread.
    void end_share();
    // The network serves a share no more: its task is done as that of `leave`, and takes no number.
    void leave_share(Task task);
    // The network has ended the next collective. On the engine's thread.
    void note(Ended ended);
    // The network serves the next collective no more: its task, which takes its number, is done when the
    // ranks have met and the tasks before it are done. On the engine's thread.
    void leave(std::function<void(uint64_t)> task);
    // As `leave` for a rank that has no collective under way, and may have none any more.
    void leave();
    // Returns when all that was left is done.
    void await();
    // Returns when the ranks have met; throws what has kept them from it.
    void await_meeting();
    // The network has all collectives from the next one on, which are counted anew. Nothing may be under way
    // there.
    void come_back();

    // In a task: what has become of a collective where it has ended; `NotServed` if it has ended nowhere.
    //
    // Throws what has kept the ranks from meeting.
    Reason fate(uint64_t number) const;
    // In a task: takes the results of an all-reduce that this rank may lack, and another one has.
    void receive(at::Tensor &results, std::chrono::milliseconds timeout);

    // In a task: whether any rank has ended this share.
    //
    // Throws what has kept the ranks from meeting.
    bool has_ended_share(uint64_t number) const;
    // In a task: the shares of all ranks, where any rank has ended this one.
    const at::Tensor &shares(uint64_t number) const { return shares_.at(number - first_share_); }

    c10d::Backend &gloo() const { return *gloo_; }

  private:
    static constexpr uint64_t kAllKept = INT64_MAX;
    // Ended ones. Each is a packet at least, and ranks are apart by one window of packets at most.
    static constexpr uint64_t kKeptShares = 1 << 14;

    // What this rank has passed.
    struct GivenShare {
        at::Tensor share; // undefined in a barrier
        ReplayMemory::Lease kept;
    };

    void post(Task task);
    void meet();
    void agree();
    void agree_on_fates(int64_t furthest);
    uint64_t first_unkept();
    uint64_t first_kept_share();
    void gather_shares();
    void share(const Ended &ended);

    c10::intrusive_ptr<c10d::Backend> gloo_; // changes before the tasks of a departure begin
    bool has_lost_ranks_ = false;            // since the ranks met last
    ReplayMemory memory_;
    const std::shared_ptr<Strand> order_ = std::make_shared<Strand>();

    std::mutex mutex_;
    std::condition_variable idle_;
    uint64_t tasks_ = 0;
    bool has_met_ = false;
    uint64_t begun_ = 0;
    std::deque<uint64_t> unkept_; // numbers of collectives that cannot begin anew
    uint64_t begun_shares_ = 0;
    uint64_t ended_shares_ = 0;
    std::deque<GivenShare> given_shares_; // the last ones, until the ranks have met
    // The engine's thread has these until it has left; then the tasks have them.
    std::deque<Ended> kept_;
    uint64_t kept_bytes_ = 0; // of all but the last
    uint64_t ended_ = 0;
    bool has_left_ = false;
    uint64_t next_ = 0; // number of the next collective that is left

    // The tasks alone have these. Collectives from `first_` to `first_ + fates_.size()` have ended on some
    // ranks, all on `leader_`.
    std::exception_ptr failure_;
    uint64_t first_ = 0;
    int leader_ = 0;
    std::vector<Reason> fates_;
    // Shares from `first_share_` to `last_share_` have ended on some ranks: what all ranks have passed.
    uint64_t first_share_ = 0;
    uint64_t last_share_ = 0;
    std::vector<at::Tensor> shares_;
};

// Copies `source` by Gloo, into `sink`, which is the same memory at the root of a broadcast. As bytes, as
// Gloo does not know every type.
void copy_by_gloo(c10d::Backend &gloo, wiresum_kind kind, int root, const at::Tensor &source,
                  const at::Tensor &sink, std::chrono::milliseconds timeout);

// Sums `source` by Gloo, into `sink`, which may be the same memory.
void sum_by_gloo(c10d::Backend &gloo, wiresum_kind kind, int root, const c10d::ReduceOp &operation,
                 const at::Tensor &source, at::Tensor &sink, std::chrono::milliseconds timeout);

} // namespace wiresum
