// The order in which collectives reach the engine: that in which they were asked for, which is every rank's.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "pending_work.h"

namespace wiresum {

// Hands collectives to the engine. One whose values come later (a sparse tensor's, once the ranks know each
// other's rows) reserves its place, and holds back those after it. Thread-safe.
class Submissions {
  public:
    struct Turn {
        bool is_filled = false;
        c10::intrusive_ptr<CarriedWork> work; // null for nothing
    };
    using TurnPtr = std::shared_ptr<Turn>;

    // Takes whether the engine says that it serves the job no more.
    using Then = std::function<void(bool)>;

    explicit Submissions(const wiresum_engine_abi *engine) : engine_(engine) {}

    // The next place in the order; whoever takes it must fill it.
    TurnPtr reserve();
    // Says what is submitted there; null for nothing.
    void fill(const TurnPtr &turn, c10::intrusive_ptr<CarriedWork> work);
    // Has the engine say behind all that it has begun that it serves the job no more, so that the ranks meet
    // even if this one has nothing under way. The engine must have been stopped.
    void leave(std::shared_ptr<GoingOver> going_over);
    // Holds back all that comes from now on, once the ranks have met after leaving the engine, and returns
    // how many collectives that has been given. It is not in use any more.
    //
    // Throws what has kept the ranks from meeting.
    uint64_t hold(GoingOver &going_over);
    // Gives all from the collective of this number on to another engine, and leaves those before it to Gloo.
    void go_on(uint64_t first, const wiresum_engine_abi *engine, std::shared_ptr<GoingOver> going_over);
    // From now on all that is submitted fails, and the engine is not in use. Harmless when repeated.
    void close(std::string why = "");

  private:
    // What goes to another engine, and from which collective on.
    struct Return {
        uint64_t first;
        const wiresum_engine_abi *engine;
        std::shared_ptr<GoingOver> going_over;
        // The other engine was left before it had the first one.
        bool is_over = false;
    };

    void drain();
    void give(CarriedWork &work);
    void come_back();
    bool say_farewell_to_engine(Then then);

    std::mutex mutex_;                 // keeps the engine open during a submission
    const wiresum_engine_abi *engine_; // null once closed
    std::deque<TurnPtr> turns_;
    uint64_t given_ = 0; // collectives that this engine has been given
    bool is_held_ = false;
    std::optional<Return> return_;
    std::string why_closed_;
};

} // namespace wiresum
