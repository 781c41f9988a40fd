// A barrier or a small collective: all ranks' bytes travel in the packets that open a collective, and each
// rank makes of them what it takes.
#pragma once

#include <optional>

#include "engine_abi.h"
#include "pending_work.h"

namespace wiresum {

class ShareWork final : public CarriedWork {
  public:
    // `request` is of a collective that `decide_share` let pass, or of a barrier, which has no tensors.
    ShareWork(std::shared_ptr<GroupContext> group, Request request);

    void submit(const wiresum_engine_abi *engine, const std::string &why_closed) override;
    void leave(const std::string &why) override;

  private:
    static void done(void *context, int32_t outcome, const char *message);

    wiresum_collective collective(void *context);
    // Ends the work for those who wait, and says how: null after success.
    std::exception_ptr end(int32_t outcome, const std::string &message);
    // The same where the network has not ended it here.
    std::exception_ptr go_over(const std::string &why);
    void share_by_gloo(c10d::Backend &gloo);
    // What this rank takes of the rows of those who take part.
    at::Tensor taken_of(const at::Tensor &rows, const Remaining *remaining) const;
    void set_apart();
    void write_results();
    void release() override;

    // What this rank passes, and room for what all ranks do; undefined in a barrier.
    at::Tensor share_;
    at::Tensor shares_;
    // Who passes something, where that is not everybody.
    std::shared_ptr<const Remaining> remaining_;
    // Among the shares that the network was given; none if it was left before.
    std::optional<uint64_t> number_;
};

} // namespace wiresum
