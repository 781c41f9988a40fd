// The results of an all-reduce that a rank may lack which is not as far as another one.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "engine_abi.h"

namespace wiresum {

// Ranks are apart by one window of packets at most, so of a long tensor that is a small part; the same one on
// every rank.
class Tail {
  public:
    // That of a collective which has not begun: nothing.
    Tail() = default;
    Tail(const wiresum_engine_abi &engine, const wiresum_collective &collective);

    int64_t elements() const;
    // Copies these elements of all `values`, in their order.
    void gather(const at::Tensor &values, at::Tensor &tail) const;
    // Puts them in their places.
    void scatter(const at::Tensor &tail, at::Tensor &values) const;

  private:
    std::vector<wiresum_span> spans_;
};

} // namespace wiresum
