#include "replay_memory.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include <ATen/ATen.h>

namespace wiresum {

namespace {

// Addresses that are reserved at most: more than a host has under way at once, and less than a process may
// have.
constexpr uint64_t kMostAddresses = uint64_t{64} << 30;

} // namespace

struct ReplayMemory::Books {
    const uint64_t limit;
    const uint64_t ended_limit;
    const std::string setting;
    const std::shared_ptr<ReusableMemory> memory;

    std::mutex mutex;
    uint64_t used = 0;
    uint64_t wanted = 0;

    bool take(uint64_t bytes) {
        std::lock_guard lock(mutex);
        if (used + bytes > limit) {
            wanted = std::max(wanted, used + bytes);
            return false;
        }
        used += bytes;
        return true;
    }

    void give_back(uint64_t bytes) {
        std::lock_guard lock(mutex);
        used -= bytes;
    }
};

ReplayMemory::ReplayMemory(uint64_t limit, uint64_t ended_limit, std::string setting) {
    auto memory = std::make_shared<ReusableMemory>(std::min(limit, kMostAddresses));
    books_.reset(new Books{limit, ended_limit, std::move(setting), std::move(memory)});
}

uint64_t ReplayMemory::ended_limit() const { return books_->ended_limit; }

ReplayMemory::Lease ReplayMemory::lease(uint64_t bytes) {
    if (!books_->take(bytes)) {
        return nullptr;
    }
    return {books_.get(), [books = books_, bytes](void *) { books->give_back(bytes); }};
}

ReplayMemory::Loan ReplayMemory::lend_like(const at::Tensor &model, ReusableMemory::End end) {
    Lease room = lease(model.nbytes());
    if (!room) {
        return {};
    }
    return {books_->memory->empty(model.sizes(), model.scalar_type(), end), std::move(room)};
}

std::string ReplayMemory::advice() const {
    std::lock_guard lock(books_->mutex);
    if (books_->setting.empty() || books_->wanted == 0) {
        return "";
    }
    return "; " + books_->setting + "=" + std::to_string(books_->wanted) + " would have kept it on this rank";
}

} // namespace wiresum
