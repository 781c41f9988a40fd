// The order in which a group's collectives are due. Depends on nothing but what every rank's program does.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>

#include "pending_work.h"

namespace wiresum {

// A place in the order: of a collective, or of all that a callback of a future asks for.
struct Turn {
    bool is_over = false;                     // it is filled, or the callback has run
    bool is_next = false;                     // all before it is over
    uint64_t number = 0;                      // among what the program asks for, from 1; 0 for all else
    c10::intrusive_ptr<CarriedWork> work;     // null for nothing
    std::deque<std::shared_ptr<Turn>> inside; // what a callback has asked for
};
using TurnPtr = std::shared_ptr<Turn>;

// The program asks for its collectives in one order on every rank, but callbacks of futures run at another
// time on each. So what a callback asks for is due where the program has registered it. Few callbacks ask for
// anything, and the program's collectives do not wait for them until one does. Then the ranks agree on the
// last collective that any of them has let pass, and from there on all keep to the order. Not thread-safe.
class Order {
  public:
    // For what the program asks for, or a callback, whose place is then given.
    TurnPtr append(const TurnPtr &callback);
    // As `append` for what needs no place, as it may pass at once; null if it may.
    TurnPtr pass(const TurnPtr &callback);
    // For a callback that the program registers, or another callback.
    TurnPtr append_callback(const TurnPtr &callback);
    // The next work that is due; null if there is none yet.
    c10::intrusive_ptr<CarriedWork> next();

    // Whether no callback has asked for anything.
    bool is_free() const { return last_free_ == kAll; }
    // One has: lets no more pass until the ranks have agreed. Returns how many the program has asked for.
    uint64_t pause();
    // So many pass without waiting for a callback.
    void go_on(uint64_t last_free);
    // From now on everything is due once it is filled.
    void end() { is_ended_ = true; }

  private:
    static constexpr uint64_t kAll = std::numeric_limits<uint64_t>::max();

    c10::intrusive_ptr<CarriedWork> next_of(std::deque<TurnPtr> &turns) const;

    // The program's first `last_free_` collectives; then the others, and callbacks.
    std::deque<TurnPtr> free_;
    std::deque<TurnPtr> bound_;
    uint64_t asked_ = 0;
    uint64_t last_free_ = kAll;
    bool is_paused_ = false;
    bool is_ended_ = false;
};

} // namespace wiresum
