// All-reduces of sparse tensors: the ranks tell each other their rows, and only the values of rows that any
// rank has are summed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "eligibility.h"
#include "row_notice.h"
#include "submissions.h"
#include "work.h"

namespace wiresum {

// What the sparse all-reduces of one group share; outlives the backend while one is under way.
struct RowChannel {
    // Carries sets of rows, and values where gathering moves fewer bytes. A group of its own: its collectives
    // run at another time than the user's, so sharing the user's group would change their order between
    // ranks.
    c10::intrusive_ptr<c10d::Backend> gloo;
    Ability ability;
    std::shared_ptr<Submissions> submissions;
    // One all-reduce after another.
    std::shared_ptr<Strand> order = std::make_shared<Strand>();
};

// An all-reduce of a sparse COO tensor. Its result has the rows of all ranks, sorted and coalesced.
class SparseWork final : public PendingWork {
  public:
    SparseWork(std::shared_ptr<GroupContext> group, std::shared_ptr<RowChannel> channel, Request request);

    // Takes the next place in every order that matters. Called in the same order on every rank.
    static void start(const c10::intrusive_ptr<SparseWork> &work);

  private:
    Amount amount() const override;
    void release() override;

    void run();
    void reduce();
    std::vector<RowSet> exchange();
    void sum_in_network();
    at::Tensor sum_gathered(const std::vector<RowSet> &sets);
    // Gloo's all-gather of as many bytes from each rank.
    std::vector<at::Tensor> gather(const at::Tensor &bytes);
    void succeed(Reason reason, const at::Tensor &sums);
    void fail(std::exception_ptr error);
    void finish_later(std::function<void()> finish);

    const std::shared_ptr<RowChannel> channel_;
    const Submissions::TurnPtr turn_;
    // Written by `run`, read when it is over.
    RowNotice notice_;
    RowShare share_;
    RowSet all_;
    uint64_t rows_passed_ = 0;
};

} // namespace wiresum
