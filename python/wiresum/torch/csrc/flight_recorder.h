// PyTorch's flight recorder: an entry for each collective, and the end of each.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace wiresum {

// Hooks that PyTorch wants to be called when a collective has succeeded. Thread-safe.
class CompletionHooks {
  public:
    // A number that no other collective of this process has.
    static uint64_t next_key();

    void add(int64_t id, c10d::CompletionHook hook);
    void remove(int64_t id);
    void call(uint64_t key, std::chrono::nanoseconds duration) const;

  private:
    mutable std::mutex mutex_;
    std::map<int64_t, std::shared_ptr<const c10d::CompletionHook>> hooks_;
};

// An entry of the recorder that PyTorch's dumps and debug pages read unless told otherwise. Collectives that
// Gloo carries are recorded there by Gloo itself.
class FlightEntry {
  public:
    FlightEntry() = default;
    // Adds an entry with the caller's stack.
    FlightEntry(const std::string &group, const std::string &description, uint64_t group_id,
                uint64_t sequence, const char *collective, const std::vector<at::Tensor> &inputs,
                const std::vector<at::Tensor> &outputs, std::chrono::milliseconds timeout);
    // Marks the entry as completed, or as failed.
    void end(bool is_success, std::chrono::nanoseconds duration) const;

  private:
    struct Place {
        size_t id;
        size_t epoch;
    };
    std::optional<Place> place_; // none where the recorder is off, or is of a PyTorch that hides it
};

} // namespace wiresum
