// Handles of collectives that this backend carries itself.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "engine_abi.h"
#include "going_over.h"
#include "ledger.h"
#include "remaining.h"
#include "task_pool.h"

namespace wiresum {

// Longer timeouts mean the same and would overflow a clock in nanoseconds.
inline constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24 * 365);

class Submissions;

// A collective that knows where it was summed.
class ExplainedWork : public c10d::Work {
  public:
    using Work::Work;
    virtual Reason reason() const = 0;
};

// What the collectives of one group share; outlives the backend while one is under way.
struct GroupContext {
    std::shared_ptr<Ledger> ledger;
    // All ranks get "not finite" for the same collectives in the same order; this keeps them in it.
    std::shared_ptr<Strand> fallback_order = std::make_shared<Strand>();
    // Where the job may leave the network after it has begun; otherwise null.
    std::shared_ptr<GoingOver> going_over;
    // Where callbacks of futures have their places.
    std::shared_ptr<Submissions> submissions;

    // The groups of Gloo, and who is left of the ranks.
    struct Groups {
        // Takes what the network does not.
        c10::intrusive_ptr<c10d::Backend> inner;
        // Sums again, with IEEE semantics, what is not finite. A group of its own: its collectives run at
        // another time than the user's, so sharing the user's group would change their order between ranks.
        c10::intrusive_ptr<c10d::Backend> fallback;
        // Null while nobody is lost.
        std::shared_ptr<const Remaining> remaining;
    };

    Groups groups() const {
        std::lock_guard lock(mutex_);
        return groups_;
    }
    void set_groups(Groups groups) {
        std::lock_guard lock(mutex_);
        groups_ = std::move(groups);
    }

    // Ranks that were lost, in words.
    struct Loss {
        uint64_t count = 0;    // of losses so far
        std::string text;      // of the last one
        bool is_final = false; // the group does not go on without them
    };

    Loss loss() const {
        std::lock_guard lock(mutex_);
        return loss_;
    }
    void note_loss(std::string text, bool is_final);
    // A rank is lost for good: what Gloo has ends now.
    void lose(const std::string &why);
    // The loss after so many, if there is one; with `awaits` also if it comes before others would have
    // learned of it.
    std::optional<Loss> loss_since(uint64_t count, bool awaits) const;

    // How long it takes until all know who is lost; zero where nobody says so.
    std::chrono::milliseconds loss_known_after{0};

  private:
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    Groups groups_;
    Loss loss_;
};

// Sums of numbers of 8 bits, and what becomes of the part of each element that these have no room for.
struct EightBits {
    at::Tensor kept;   // where it is written; undefined if it decides by chance which way a number is rounded
    uint32_t seed = 0; // of that chance
};

// What was asked for.
struct Request {
    wiresum_kind kind;
    c10d::OpType op_type;
    const char *collective; // as in torch.distributed
    // What is summed, in this order.
    std::vector<at::Tensor> inputs;
    // What takes this rank's part of the results, in this order.
    std::vector<at::Tensor> outputs;
    c10d::ReduceOp operation;
    std::chrono::milliseconds timeout;
    // The root, where the kind has one.
    int root = 0;
    uint64_t sequence = 0;
    // Whether it carries the values of another collective, which is in the books itself.
    bool is_part = false;
    std::optional<EightBits> eight_bits = std::nullopt;
};

// A collective under way: it can be waited for, and is in the group's books when it is over.
class PendingWork : public ExplainedWork {
  public:
    Reason reason() const override;
    std::vector<at::Tensor> result() override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
    uint64_t getSequencenumber() const override { return request_.sequence; }
    std::chrono::milliseconds getTimeout() const override { return request_.timeout; }
    const GroupContext &group() const { return *group_; }

  protected:
    PendingWork(std::shared_ptr<GroupContext> group, Request request, const char *title);

    // What this rank passed, for the books.
    virtual Amount amount() const { return passed_; }
    // Lets go of what only the running collective needs. Called once, with the lock held.
    virtual void release() {}

    // From now on wait() gives up after this time. Without such a call it waits as long as anyone can.
    void give_up_after(std::chrono::milliseconds limit);
    void settle(Reason reason, std::exception_ptr error);
    // The two halves of settle(): tells the books and those who wait, which is quick; completes the future,
    // whose callbacks may not be. Whoever has waited may rely on the future, so the first who gets there
    // completes it.
    void tell(Reason reason, std::exception_ptr error);
    void call_back(std::exception_ptr error);
    std::string describe() const;

    const std::shared_ptr<GroupContext> group_;
    const Request request_;

  private:
    using Clock = std::chrono::steady_clock;

    const Amount passed_;
    const c10::intrusive_ptr<c10::ivalue::Future> future_;
    // Guarded by Work::mutex_.
    Clock::time_point deadline_;
    Reason reason_ = Reason::Pending;
    std::atomic<bool> has_called_back_{false};
};

// A collective that the engine may carry.
class CarriedWork : public PendingWork {
  public:
    // Hands the work to the engine; if that is closed, the work fails, and says why where that is known.
    virtual void submit(const wiresum_engine_abi *engine, const std::string &why_closed) = 0;
    // Leaves the work to Gloo, as the network serves the job no more.
    virtual void leave(const std::string &why) = 0;

  protected:
    using PendingWork::PendingWork;

    // The error of a work that needs a rank that is lost.
    std::exception_ptr refusal(const Remaining &remaining) const;
    // The error of a work that has left the network, `why`, and that Gloo has not ended either.
    std::exception_ptr not_gone_over(const std::string &why, const std::exception &trouble) const;
};

// An element type as Python knows it: "float32".
const char *name_of_type(at::ScalarType type);

// The row of a ledger that a collective counts in.
RowKey row_of(const char *collective, const std::vector<at::Tensor> &tensors, const c10d::ReduceOp &operation,
              Reason reason);

RowKey row_of(const Request &request, Reason reason);

// Elements, bytes and rows of several tensors together.
Amount size_of(const std::vector<at::Tensor> &tensors);

} // namespace wiresum
