// A barrier or a small all-reduce: all ranks' bytes travel in the packets that open a collective, and each
// rank reduces them itself.
#pragma once

#include "engine_abi.h"
#include "pending_work.h"

namespace wiresum {

class ShareWork final : public PendingWork {
  public:
    // `request` is of an all-reduce that `decide_share` let pass, or of a barrier, which has no tensors.
    ShareWork(std::shared_ptr<GroupContext> group, Request request);

    // Hands the work to the engine; if that is closed, the work fails.
    static void submit(const c10::intrusive_ptr<ShareWork> &work, const wiresum_engine_abi *engine);

  private:
    static void done(void *context, int32_t outcome, const char *message);

    wiresum_collective collective(void *context);
    // How it ended: null after success.
    std::exception_ptr end(int32_t outcome, const char *message);
    void write_results();
    void release() override;

    // What this rank passes, and room for what all ranks do; undefined in a barrier.
    at::Tensor share_;
    at::Tensor shares_;
};

} // namespace wiresum
