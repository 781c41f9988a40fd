#include "reusable_memory.h"

#include <algorithm>
#include <iterator>

#include <sys/mman.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

namespace wiresum {

namespace {

constexpr uint64_t kPage = 4096;
// malloc() reuses shorter memory by itself: from here on it asks the kernel for fresh pages (mallopt(3)).
constexpr uint64_t kShortest = 128 << 10;

// Two contiguous copies of 100 MB at once, and smaller ones.
constexpr uint64_t kForCopies = 256 << 20;

uint64_t in_pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

uint64_t bytes_of(at::IntArrayRef sizes, at::ScalarType type) {
    return static_cast<uint64_t>(c10::multiply_integers(sizes)) * c10::elementSize(type);
}

} // namespace

ReusableMemory::ReusableMemory(uint64_t bytes) : bytes_(bytes / kPage * kPage) {
    if (bytes_ == 0) {
        return;
    }
    void *range =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        return; // then each tensor's memory is PyTorch's
    }
    // Where the kernel has large pages, one fault fills 2 MB. Without them it goes as well.
    madvise(range, bytes_, MADV_HUGEPAGE);
    range_ = static_cast<char *>(range);
    gaps_.emplace(0, bytes_);
}

ReusableMemory::~ReusableMemory() {
    if (range_ != nullptr) {
        munmap(range_, bytes_);
    }
}

// Without an end: a tensor of it may outlive everything else.
ReusableMemory &ReusableMemory::for_copies() {
    static auto *const memory = new auto(std::make_shared<ReusableMemory>(kForCopies));
    return **memory;
}

at::Tensor ReusableMemory::empty(at::IntArrayRef sizes, at::ScalarType type, End end) {
    const uint64_t bytes = in_pages(bytes_of(sizes, type));
    const uint64_t start = bytes < kShortest ? kNone : take(bytes, end);
    if (start == kNone) {
        return at::empty(sizes, type);
    }
    const auto give_back = [self = shared_from_this(), start, bytes](void *) {
        self->give_back(start, bytes);
    };
    return at::from_blob(range_ + start, sizes, give_back, at::TensorOptions(type));
}

at::Tensor ReusableMemory::copy(const at::Tensor &tensor) {
    at::NoGradGuard no_grad;
    return empty(tensor.sizes(), tensor.scalar_type()).copy_(tensor);
}

// The first gap that is wide enough, from its end of the range: so pages that were written are written again.
uint64_t ReusableMemory::take(uint64_t bytes, End end) {
    std::lock_guard lock(mutex_);
    const auto is_wide = [bytes](const auto &gap) { return gap.second - gap.first >= bytes; };
    const auto lowest = std::find_if(gaps_.begin(), gaps_.end(), is_wide);
    if (lowest == gaps_.end()) {
        return kNone;
    }
    const auto highest = [&] {
        return std::prev(std::find_if(gaps_.rbegin(), gaps_.rend(), is_wide).base());
    };
    const auto [first, last] = *(end == End::Low ? lowest : highest());
    const uint64_t start = end == End::Low ? first : last - bytes;
    gaps_.erase(first);
    if (first < start) {
        gaps_.emplace(first, start);
    }
    if (start + bytes < last) {
        gaps_.emplace(start + bytes, last);
    }
    return start;
}

void ReusableMemory::give_back(uint64_t start, uint64_t bytes) {
    std::lock_guard lock(mutex_);
    uint64_t end = start + bytes;
    const auto after = gaps_.find(end);
    if (after != gaps_.end()) {
        end = after->second;
        gaps_.erase(after);
    }
    const auto next = gaps_.lower_bound(start);
    if (next != gaps_.begin() && std::prev(next)->second == start) {
        std::prev(next)->second = end;
    } else {
        gaps_.emplace(start, end);
    }
}

} // namespace wiresum
