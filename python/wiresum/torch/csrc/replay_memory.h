// The memory for what collectives need in order to begin anew elsewhere.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

namespace wiresum {

// Counts what is kept against a limit, and lends memory for it again and again: a page that is fresh costs
// more than the copy into it. Thread-safe.
class ReplayMemory {
  public:
    // Room that is taken until the last holder lets go of it; null where there was none.
    using Lease = std::shared_ptr<void>;

    // Room, and a tensor in it; null and undefined where there was none.
    struct Loan {
        at::Tensor tensor;
        Lease lease;
    };

    // `limit` of all, of which collectives that have ended may take `ended_limit`, and the last of those
    // besides. Leased memory and memory that waits for the next lease are together no more than was leased at
    // one time. `setting` names the variable with the limit, for people; empty if there is none to set.
    ReplayMemory(uint64_t limit, uint64_t ended_limit, std::string setting);

    uint64_t ended_limit() const;

    // Room for memory that the caller has already.
    Lease lease(uint64_t bytes);
    // A contiguous tensor of the shape and type of another one, whose values are whatever was there. Use it
    // no longer than the lease.
    Loan lend_like(const at::Tensor &model);

    // What to do where something was not kept: a clause that ends a sentence.
    std::string advice() const;

  private:
    struct Books;

    std::shared_ptr<Books> books_;
};

} // namespace wiresum
