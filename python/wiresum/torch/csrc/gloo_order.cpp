#include "gloo_order.h"

namespace wiresum {

uint64_t GlooOrder::reserve() {
    std::lock_guard lock(mutex_);
    return reserved_++;
}

void GlooOrder::fill(uint64_t place, Task task) {
    std::lock_guard lock(mutex_);
    early_.emplace(place, std::move(task));
    while (!early_.empty() && early_.begin()->first == next_) {
        if (early_.begin()->second) {
            strand_->post(std::move(early_.begin()->second));
        }
        early_.erase(early_.begin());
        ++next_;
    }
}

} // namespace wiresum
