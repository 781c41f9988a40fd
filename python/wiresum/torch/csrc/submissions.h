// The order in which collectives reach the engine: that in which they were asked for, which is every rank's.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "work.h"

namespace wiresum {

// Hands collectives to the engine. One whose values come later (a sparse tensor's, once the ranks know each
// other's rows) reserves its place, and holds back those after it. Thread-safe.
class Submissions {
  public:
    // Hands a collective to an engine, or has it fail where that is null.
    using Submit = std::function<void(const wiresum_engine_abi *)>;
    struct Turn {
        bool is_filled = false;
        Submit submit;
    };
    using TurnPtr = std::shared_ptr<Turn>;

    explicit Submissions(const wiresum_engine_abi *engine) : engine_(engine) {}

    // The next place in the order; whoever takes it must fill it.
    TurnPtr reserve();
    // Says what is submitted there; null for nothing.
    void fill(const TurnPtr &turn, c10::intrusive_ptr<NetworkWork> work);
    void fill_by(const TurnPtr &turn, Submit submit);
    // Has the engine say behind all that it has begun that it serves the job no more, so that the ranks meet
    // even if this one has nothing under way. The engine must have been stopped.
    void leave(std::shared_ptr<GoingOver> going_over);
    // From now on all that is submitted fails, and the engine is not in use. Harmless when repeated.
    void close();

  private:
    std::mutex mutex_;                 // keeps the engine open during a submission
    const wiresum_engine_abi *engine_; // null once closed
    std::deque<TurnPtr> turns_;
};

} // namespace wiresum
