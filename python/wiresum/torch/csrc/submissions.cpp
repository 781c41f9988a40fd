#include "submissions.h"

namespace wiresum {

Submissions::TurnPtr Submissions::reserve() {
    std::lock_guard lock(mutex_);
    turns_.push_back(std::make_shared<Turn>());
    return turns_.back();
}

void Submissions::fill(const TurnPtr &turn, c10::intrusive_ptr<NetworkWork> work) {
    std::lock_guard lock(mutex_);
    turn->work = std::move(work);
    turn->is_filled = true;
    while (!turns_.empty() && turns_.front()->is_filled) {
        const TurnPtr next = std::move(turns_.front());
        turns_.pop_front();
        if (next->work) {
            NetworkWork::submit(next->work, engine_);
        }
    }
}

void Submissions::close() {
    std::lock_guard lock(mutex_);
    engine_ = nullptr;
}

} // namespace wiresum
