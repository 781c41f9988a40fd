// Large buffers that collectives use one after another.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include <ATen/core/Tensor.h>

namespace wiresum {

// Lends one range of addresses in parts. A page that was written once stays, whatever size is lent there
// next: the first write to a page costs more than a copy into it. Thread-safe.
class ReusableMemory : public std::enable_shared_from_this<ReusableMemory> {
  public:
    // The end of the range that a part is taken from. Parts that stay for long have their own end, so that
    // they leave no gaps between parts that come and go.
    enum class End { Low, High };

    // Reserves so many bytes of addresses, which take memory when they are written.
    explicit ReusableMemory(uint64_t bytes);
    ~ReusableMemory();
    // The memory of this process for contiguous copies.
    static ReusableMemory &for_copies();

    ReusableMemory(const ReusableMemory &) = delete;
    ReusableMemory &operator=(const ReusableMemory &) = delete;

    // A contiguous tensor of any values, which gives its part back when it goes. Where no part is free, and
    // for short tensors, its memory is PyTorch's.
    at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, End end = End::Low);
    // A contiguous copy.
    at::Tensor copy(const at::Tensor &tensor);

  private:
    // Start of a part of the range, or `kNone`.
    uint64_t take(uint64_t bytes, End end);
    void give_back(uint64_t start, uint64_t bytes);

    static constexpr uint64_t kNone = UINT64_MAX;

    uint64_t bytes_;
    char *range_ = nullptr;
    std::mutex mutex_;
    std::map<uint64_t, uint64_t> gaps_; // start and end of each, none next to another
};

} // namespace wiresum
