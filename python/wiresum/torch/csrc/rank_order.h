// Reductions in the order of the ranks, so that all ranks have the same bits.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace wiresum {

// Whether `reduce_in_rank_order` knows the operation on such elements: every type and operation that Gloo
// has.
bool is_reducible(at::ScalarType type, const c10d::ReduceOp &operation);

// Reduces rows, one of each rank, from the first to the last. Sums, averages and products of float16 and
// bfloat16 are formed in float32 and rounded once; all else is in the type's own arithmetic. Booleans are
// reduced as truth values.
at::Tensor reduce_in_rank_order(const at::Tensor &rows, const c10d::ReduceOp &operation);

} // namespace wiresum
