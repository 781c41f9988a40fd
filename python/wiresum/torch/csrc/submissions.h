// The order in which collectives reach the engine: that in which they were asked for, which is every rank's.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "order.h"

namespace wiresum {

// Hands collectives to the engine. One whose values come later (a sparse tensor's, once the ranks know each
// other's rows) reserves its place, and holds back those after it. Thread-safe.
class Submissions : public std::enable_shared_from_this<Submissions> {
  public:
    using TurnPtr = wiresum::TurnPtr;
    // Takes whether the engine says that it serves the job no more.
    using Then = std::function<void(bool)>;
    // Tells the other ranks a number, and returns the largest that any has told. Null where they cannot be
    // told, so that what callbacks ask for has no place of its own.
    using Agree = std::function<uint64_t(uint64_t)>;

    Submissions(const wiresum_engine_abi *engine, Agree agree) : engine_(engine), agree_(std::move(agree)) {}

    // The next place in the order, or in that of the callback that this thread runs; whoever takes it must
    // fill it.
    TurnPtr reserve();
    // Says what is submitted there; null for nothing.
    void fill(const TurnPtr &turn, c10::intrusive_ptr<CarriedWork> work);
    // As `reserve` for a collective that goes to Gloo: returns when it is due, with null where it needs no
    // place. `pass` is to follow once Gloo has it.
    //
    // Throws if it is not due in time.
    TurnPtr await_turn(std::chrono::milliseconds limit);
    void pass(const TurnPtr &turn);
    // The place of all that a callback will ask for, to be filled with nothing when it has run.
    TurnPtr expect_callback();

    // While it lives, this thread runs the callback of that place.
    class Callback {
      public:
        Callback(const Submissions *submissions, TurnPtr turn);
        ~Callback();
        Callback(const Callback &) = delete;
        Callback &operator=(const Callback &) = delete;

        // Whether this thread runs one, of any group.
        static bool is_running();

      private:
        friend Submissions;
        const Submissions *const submissions_;
        const TurnPtr turn_;
        const Callback *const outer_;
    };

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

    // The place of the callback that this thread runs; null where it runs none of this group.
    TurnPtr callback_here() const;
    // A callback is about to ask for something, the first one of all.
    void leave_freedom();
    void agree(uint64_t asked);
    void drain();
    void give(CarriedWork &work);
    void come_back();
    bool say_farewell_to_engine(Then then);

    std::mutex mutex_;                 // keeps the engine open during a submission
    const wiresum_engine_abi *engine_; // null once closed
    const Agree agree_;
    Order order_;
    std::condition_variable turned_;
    uint64_t passing_ = 0; // collectives without places that Gloo may not have yet
    uint64_t given_ = 0;   // collectives that this engine has been given
    bool is_held_ = false;
    std::optional<Return> return_;
    std::string why_closed_;
};

} // namespace wiresum
