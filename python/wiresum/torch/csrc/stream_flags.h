// Words of pinned memory that a CUDA stream and the host tell each other by, without CUDA's headers or
// libraries.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

namespace wiresum {

// A few words, all 0 at first. Whoever enqueues on a stream keeps them until the stream is past it.
class StreamFlags {
  public:
    // Throws c10::Error if this process has no NVIDIA driver.
    explicit StreamFlags(int64_t count);

    // The stream sets the word, once all before it is done and visible to the host.
    void set_by(const c10::Stream &stream, int64_t index) const;
    // The stream does nothing of what comes after until the word is set.
    void hold(const c10::Stream &stream, int64_t index) const;

    void set(int64_t index) const;
    bool is_set(int64_t index) const;

  private:
    uint32_t *word(int64_t index) const;

    at::Tensor words_;
};

} // namespace wiresum
