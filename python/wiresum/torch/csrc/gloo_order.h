// The order in which all ranks give Gloo their collectives.
#pragma once

#include <map>
#include <memory>
#include <mutex>

#include "task_pool.h"

namespace wiresum {

// Collectives run in the order of their places, whatever order their signatures come in. Signatures can
// overtake each other on one rank and not on another, as a packet may be lost. Thread-safe.
class GlooOrder {
  public:
    // Returns the next place. Each place gets one task.
    uint64_t reserve();
    // Runs the task once the tasks of all earlier places have run. A null task gives the place up.
    void fill(uint64_t place, Task task);

  private:
    const std::shared_ptr<Strand> strand_ = std::make_shared<Strand>();
    std::mutex mutex_;
    uint64_t reserved_ = 0;
    uint64_t next_ = 0;
    std::map<uint64_t, Task> early_; // tasks that wait for an earlier place
};

} // namespace wiresum
