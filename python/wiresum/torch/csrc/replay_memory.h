// The memory for what collectives need in order to begin anew elsewhere.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace wiresum {

// Counts what is kept against a limit. Thread-safe.
class ReplayMemory {
  public:
    // Room that is taken until the last holder lets go of it; null where there was none.
    using Lease = std::shared_ptr<void>;

    // `limit` of all, of which collectives that have ended may take `ended_limit`, and the last of those
    // besides. `setting` names the variable with the limit, for people; empty if there is none to set.
    ReplayMemory(uint64_t limit, uint64_t ended_limit, std::string setting)
        : limit_(limit), ended_limit_(ended_limit), setting_(std::move(setting)),
          counts_(std::make_shared<Counts>()) {}

    uint64_t ended_limit() const { return ended_limit_; }

    Lease lease(uint64_t bytes) {
        const uint64_t used = counts_->used.fetch_add(bytes) + bytes;
        if (used <= limit_) {
            return {counts_.get(), [counts = counts_, bytes](void *) { counts->used -= bytes; }};
        }
        counts_->used -= bytes;
        counts_->wanted = std::max(counts_->wanted.load(), used);
        return nullptr;
    }

    // What to do where something was not kept: a clause that ends a sentence.
    std::string advice() const {
        const uint64_t wanted = counts_->wanted;
        if (setting_.empty() || wanted == 0) {
            return "";
        }
        return "; " + setting_ + "=" + std::to_string(wanted) + " would have kept it on this rank";
    }

  private:
    struct Counts {
        std::atomic<uint64_t> used{0};
        std::atomic<uint64_t> wanted{0};
    };

    uint64_t limit_;
    uint64_t ended_limit_;
    std::string setting_;
    std::shared_ptr<Counts> counts_;
};

} // namespace wiresum
