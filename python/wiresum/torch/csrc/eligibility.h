// Which collectives the network can sum. Depends on nothing but what every rank passes alike, so all ranks
// decide alike.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "engine_abi.h"
#include "reason.h"

namespace wiresum {

// What a group can do.
struct Ability {
    bool network;         // whether it is connected
    int64_t min_elements; // fewer are faster through Gloo
};

// Reason::Summed if the network can sum these inputs together and write results to these outputs, else why
// not.
Reason decide(const std::vector<at::Tensor> &inputs, const std::vector<at::Tensor> &outputs,
              const c10d::ReduceOp &operation, const Ability &ability);

// The engine's name of an element type and of an operation that `decide` let pass.
wiresum_element_type element_type_of(at::ScalarType type);
wiresum_operation operation_of(const c10d::ReduceOp &operation);

} // namespace wiresum
