// A barrier or a small collective: all ranks' bytes travel in the packets that open a collective, and each
// rank makes of them what it takes.
#pragma once

#include <optional>

#include "engine_abi.h"
#include "pending_work.h"
#include "tensors.h"

namespace wiresum {

class ShareWork : public CarriedWork {
  public:
    // `request` is of a collective that `decide_share` let pass, or of a barrier, which has no tensors.
    ShareWork(std::shared_ptr<GroupContext> group, Request request);

    void submit(const wiresum_engine_abi *engine, const std::string &why_closed) override;
    void leave(const std::string &why) override;

  protected:
    // The signature of a collective that Gloo carries, and why this rank cannot take part in it.
    ShareWork(std::shared_ptr<GroupContext> group, Request request, at::Tensor signature, uint32_t refusal);

    // All ranks' shares have come: on the engine's thread, or in a task of those that leave the network.
    virtual void arrive(Reason reason);
    // Ends the work for those who wait, and then calls back.
    void end(Reason reason, std::exception_ptr error);
    // Whose rows have come, if not those of all ranks; else null.
    std::shared_ptr<const Remaining> remaining_of_rows() const;
    void release() override;

    // This rank's bytes, and those of all ranks; undefined in a barrier.
    at::Tensor share_;
    at::Tensor rows_;

  private:
    static void done(void *context, int32_t outcome, const char *message);

    wiresum_collective collective(void *context);
    std::exception_ptr error_of(int32_t outcome, const std::string &message) const;
    // Does by Gloo what the network has not ended here.
    void go_over(const std::string &why);
    void share_by_gloo(c10d::Backend &gloo);
    // What this rank takes of the rows of those who take part.
    at::Tensor taken_of(const at::Tensor &rows, const Remaining *remaining) const;
    void set_apart();
    void write_results();

    const wiresum_kind kind_;
    // What ranks have to pass alike, in two halves.
    const uint32_t type_;
    const uint32_t operation_;
    // Who passes something, where that is not everybody.
    std::shared_ptr<const Remaining> remaining_;
    // Among the shares that the network was given; none if it was left before.
    std::optional<uint64_t> number_;
};

} // namespace wiresum
