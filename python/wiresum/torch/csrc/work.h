// Handles of collectives that the network may take: those that it took, and those that Gloo did.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "errors.h"
#include "pending_work.h"
#include "tail.h"

namespace wiresum {

// One contiguous tensor with the elements of all: the user's own memory where they lie there one behind the
// other already.
at::Tensor contiguous_values(const std::vector<at::Tensor> &tensors);

// What profilers show of a collective.
const char *title_of(wiresum_kind kind);

// Whether this rank's part of the results is more than nothing.
bool takes_part(const Request &request, int rank);

// Whether this rank gives anything: of a scatter the root alone does.
bool gives_part(const Request &request, int rank);

// A collective on its way through the network. Kept alive by the engine until it is over.
class NetworkWork final : public CarriedWork {
  public:
    // How long after its timeout the engine may end a collective before wait() gives up on the engine itself.
    static constexpr std::chrono::seconds kEngineGrace{30};

    NetworkWork(std::shared_ptr<GroupContext> group, Request request);

    void submit(const wiresum_engine_abi *engine, const std::string &why_closed) override;
    void leave(const std::string &why) override;

  private:
    static void done(void *context, int32_t outcome, const char *message);

    void complete(wiresum_outcome outcome, const std::string &message);
    void do_again(Reason reason);
    void do_by(c10d::Backend &gloo);
    void keep_own_share();
    void keep_own_part();
    // After sums of all that there was, or without this rank: nothing is left to be added later.
    void keep_nothing();
    // Ends a collective that the network has not ended here, and is told why not.
    void go_over(uint64_t number, const std::string &why);
    Ended ended(Reason reason) const;
    void succeed(Reason reason);
    void fail(std::exception_ptr error) { settle(Reason::Failed, std::move(error)); }
    // On a thread of its own: a callback may wait for the next collective, and that for the caller.
    void conclude(Reason reason, std::exception_ptr error);
    // Finds room aside for what this rank gives, so that the collective may begin anew elsewhere.
    void set_apart();
    // Whether results that come before a failure are kept: of an all-reduce, other ranks may have all.
    bool has_results_aside() const;
    void copy_back();
    void take_from_aside();
    void receive_tail(GoingOver &over);
    at::Tensor &scratch();
    void release() override;

    // Whether this rank's part of the results is more than nothing.
    const bool takes_;
    // Whether this rank gives anything.
    const bool gives_;
    // What the engine encodes or copies: the user's tensor itself, or a contiguous copy of it or of several.
    at::Tensor source_;
    // What the engine writes to: the source, the user's tensor, or contiguous memory that is copied from.
    at::Tensor sink_;
    // Where the engine keeps what this rank gives; undefined if it keeps nothing.
    at::Tensor aside_;
    // The results that another rank may lack, once it is submitted.
    Tail tail_;
    // The room that is taken beside the user's memory, so that it may begin anew; null if there was none.
    ReplayMemory::Lease kept_;
};

// A collective that Gloo took.
//
// If it fails while a rank is lost, its error names that rank: Gloo's own would be of a connection, or of a
// timeout.
class DelegatedWork final : public ExplainedWork {
  public:
    DelegatedWork(c10::intrusive_ptr<Work> inner, Reason reason, std::shared_ptr<const GroupContext> group,
                  const char *collective);

    Reason reason() const override { return reason_; }
    bool isCompleted() override { return inner_->isCompleted(); }
    bool isSuccess() const override { return inner_->isSuccess(); }
    std::exception_ptr exception() const override { return inner_->exception(); }
    int sourceRank() const override { return inner_->sourceRank(); }
    std::vector<at::Tensor> result() override { return inner_->result(); }
    void synchronize() override { inner_->synchronize(); }
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    void blockCurrentStream() override { inner_->blockCurrentStream(); }
    void abort() override { inner_->abort(); }
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }
    c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return inner_->getFutureResult(); }
    float getDuration() const override { return inner_->getDuration(); }
    uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }
    std::chrono::milliseconds getTimeout() const override { return inner_->getTimeout(); }
    uint64_t getCompletionKey() const override { return inner_->getCompletionKey(); }
    const GroupContext &group() const { return *group_; }

  private:
    const c10::intrusive_ptr<Work> inner_;
    const Reason reason_;
    const std::shared_ptr<const GroupContext> group_;
    const char *collective_;
    const uint64_t losses_before_;
};

// The error of a collective of Gloo that a lost rank has ended.
CollectiveError lost_in_gloo(const char *collective, const GroupContext::Loss &loss);

} // namespace wiresum
