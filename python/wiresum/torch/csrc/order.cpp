#include "order.h"

#include <algorithm>
#include <utility>

namespace wiresum {

TurnPtr Order::append(const TurnPtr &callback) {
    auto turn = std::make_shared<Turn>();
    if (callback) {
        callback->inside.push_back(turn);
    } else {
        turn->number = ++asked_;
        (turn->number <= last_free_ ? free_ : bound_).push_back(turn);
    }
    return turn;
}

TurnPtr Order::pass(const TurnPtr &callback) {
    if (!callback && asked_ < last_free_) {
        ++asked_;
        return nullptr;
    }
    return append(callback);
}

TurnPtr Order::append_callback(const TurnPtr &callback) {
    auto turn = std::make_shared<Turn>();
    (callback ? callback->inside : bound_).push_back(turn);
    return turn;
}

c10::intrusive_ptr<CarriedWork> Order::next() {
    if (auto work = next_of(free_)) {
        return work;
    }
    if (is_ended_ || is_free()) {
        return next_of(bound_);
    }
    const bool have_passed = free_.empty() && asked_ >= last_free_;
    return have_passed && !is_paused_ ? next_of(bound_) : nullptr;
}

c10::intrusive_ptr<CarriedWork> Order::next_of(std::deque<TurnPtr> &turns) const {
    for (auto at = turns.begin(); at != turns.end();) {
        Turn &turn = **at;
        if (auto work = next_of(turn.inside)) {
            return work;
        }
        if (turn.is_over && turn.inside.empty()) {
            const auto work = std::move(turn.work);
            at = turns.erase(at);
            if (work) {
                return work;
            }
            continue;
        }
        turn.is_next = true;
        if (!is_ended_) {
            return nullptr;
        }
        ++at;
    }
    return nullptr;
}

uint64_t Order::pause() {
    last_free_ = asked_;
    is_paused_ = true;
    return asked_;
}

void Order::go_on(uint64_t last_free) {
    last_free_ = last_free;
    is_paused_ = false;
    const auto is_bound = [last_free](const TurnPtr &turn) {
        return turn->number == 0 || turn->number > last_free;
    };
    const auto first_free = std::stable_partition(bound_.begin(), bound_.end(), is_bound);
    free_.insert(free_.end(), first_free, bound_.end());
    bound_.erase(first_free, bound_.end());
}

} // namespace wiresum
