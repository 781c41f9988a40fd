#include "replay_memory.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include <ATen/ATen.h>

namespace wiresum {

struct ReplayMemory::Books {
    const uint64_t limit;
    const uint64_t ended_limit;
    const std::string setting;

    std::mutex mutex;
    uint64_t used = 0;
    uint64_t most_used = 0;
    uint64_t wanted = 0;
    uint64_t spare_bytes = 0;
    std::multimap<uint64_t, at::Tensor> spare; // by length

    bool take(uint64_t bytes) {
        if (used + bytes > limit) {
            wanted = std::max(wanted, used + bytes);
            return false;
        }
        used += bytes;
        most_used = std::max(most_used, used);
        return true;
    }

    // A training has the same lengths in each step, so no other length will do.
    at::Tensor memory(uint64_t bytes) {
        const auto found = spare.find(bytes);
        if (found == spare.end()) {
            return at::empty({static_cast<int64_t>(bytes)}, at::kByte);
        }
        spare_bytes -= bytes;
        return std::move(spare.extract(found).mapped());
    }

    void give_back(at::Tensor memory) {
        const uint64_t bytes = memory.nbytes();
        used -= bytes;
        spare_bytes += bytes;
        spare.emplace(bytes, std::move(memory));
        shrink();
    }

    void shrink() {
        while (spare_bytes > most_used - used) {
            spare_bytes -= spare.begin()->first;
            spare.erase(spare.begin());
        }
    }
};

ReplayMemory::ReplayMemory(uint64_t limit, uint64_t ended_limit, std::string setting)
    : books_(new Books{limit, ended_limit, std::move(setting)}) {}

uint64_t ReplayMemory::ended_limit() const { return books_->ended_limit; }

ReplayMemory::Lease ReplayMemory::lease(uint64_t bytes) {
    std::lock_guard lock(books_->mutex);
    if (!books_->take(bytes)) {
        return nullptr;
    }
    books_->shrink();
    return {books_.get(), [books = books_, bytes](void *) {
                std::lock_guard lock(books->mutex);
                books->used -= bytes;
            }};
}

ReplayMemory::Loan ReplayMemory::lend_like(const at::Tensor &model) {
    const uint64_t bytes = model.nbytes();
    std::lock_guard lock(books_->mutex);
    if (!books_->take(bytes)) {
        return {};
    }
    at::Tensor memory = books_->memory(bytes);
    books_->shrink();
    Lease lease{books_.get(), [books = books_, memory](void *) {
                    std::lock_guard lock(books->mutex);
                    books->give_back(memory);
                }};
    return {memory.view(model.scalar_type()).view(model.sizes()), std::move(lease)};
}

std::string ReplayMemory::advice() const {
    std::lock_guard lock(books_->mutex);
    if (books_->setting.empty() || books_->wanted == 0) {
        return "";
    }
    return "; " + books_->setting + "=" + std::to_string(books_->wanted) + " would have kept it on this rank";
}

} // namespace wiresum
