// Handles of collectives that the network sums: those that it took, and those that Gloo did.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "engine_abi.h"
#include "ledger.h"
#include "task_pool.h"

namespace wiresum {

// Longer timeouts mean the same and would overflow a clock in nanoseconds.
inline constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24 * 365);

// A collective that knows where it was summed.
class ExplainedWork : public c10d::Work {
  public:
    using Work::Work;
    virtual Reason reason() const = 0;
};

// What the collectives of one group share; outlives the backend while one is under way.
struct GroupContext {
    std::shared_ptr<Ledger> ledger;
    // Sums again, with IEEE semantics, what is not finite. A group of its own: its collectives run at another
    // time than the user's, so sharing the user's group would change their order between ranks.
    c10::intrusive_ptr<c10d::Backend> fallback;
    // All ranks get "not finite" for the same collectives in the same order; this keeps them in it.
    std::shared_ptr<Strand> fallback_order = std::make_shared<Strand>();
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
};

// A collective on its way through the network. Kept alive by the engine until it is over.
class NetworkWork final : public ExplainedWork {
  public:
    // How long after its timeout the engine may end a collective before wait() gives up on the engine itself.
    static constexpr std::chrono::seconds kEngineGrace{30};

    NetworkWork(std::shared_ptr<GroupContext> group, Request request);

    // Hands the work to the engine; if that is closed, the work fails.
    static void submit(const c10::intrusive_ptr<NetworkWork> &work, const wiresum_engine_abi *engine);

    Reason reason() const override;
    std::vector<at::Tensor> result() override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
    uint64_t getSequencenumber() const override { return request_.sequence; }
    std::chrono::milliseconds getTimeout() const override { return request_.timeout; }

  private:
    using Clock = std::chrono::steady_clock;

    static void done(void *context, int32_t outcome, const char *message);

    void complete(wiresum_outcome outcome, const std::string &message);
    void sum_again(Reason reason);
    void sum_by_gloo();
    void succeed(Reason reason);
    void fail(std::exception_ptr error);
    void settle(Reason reason, std::exception_ptr error);
    void copy_back();
    std::string describe() const;

    const std::shared_ptr<GroupContext> group_;
    const Request request_;
    const c10::intrusive_ptr<c10::ivalue::Future> future_;
    // Whether this rank's part of the results is more than nothing.
    const bool takes_;
    // What the engine encodes: the user's tensor itself, or a contiguous copy of it or of several.
    at::Tensor source_;
    // What the engine decodes to: the source, the user's tensor, or contiguous memory that is copied from.
    at::Tensor sink_;
    // Guarded by Work::mutex_.
    Clock::time_point deadline_;
    Reason reason_ = Reason::Pending;
};

// A collective that Gloo took.
class DelegatedWork final : public ExplainedWork {
  public:
    DelegatedWork(c10::intrusive_ptr<Work> inner, Reason reason);

    Reason reason() const override { return reason_; }
    bool isCompleted() override { return inner_->isCompleted(); }
    bool isSuccess() const override { return inner_->isSuccess(); }
    std::exception_ptr exception() const override { return inner_->exception(); }
    int sourceRank() const override { return inner_->sourceRank(); }
    std::vector<at::Tensor> result() override { return inner_->result(); }
    void synchronize() override { inner_->synchronize(); }
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override { return inner_->wait(timeout); }
    void blockCurrentStream() override { inner_->blockCurrentStream(); }
    void abort() override { inner_->abort(); }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }
    c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return inner_->getFutureResult(); }
    float getDuration() const override { return inner_->getDuration(); }
    uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }
    std::chrono::milliseconds getTimeout() const override { return inner_->getTimeout(); }
    uint64_t getCompletionKey() const override { return inner_->getCompletionKey(); }

  private:
    const c10::intrusive_ptr<Work> inner_;
    const Reason reason_;
};

// The row of a ledger that a collective counts in.
RowKey row_of(const char *collective, const std::vector<at::Tensor> &tensors, const c10d::ReduceOp &operation,
              Reason reason);

// Elements and bytes of several tensors together.
std::pair<uint64_t, uint64_t> size_of(const std::vector<at::Tensor> &tensors);

} // namespace wiresum
