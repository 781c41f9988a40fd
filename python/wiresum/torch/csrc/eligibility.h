// Which collectives the network can take. Depends on nothing but what every rank passes alike, so all ranks
// decide alike.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "engine_abi.h"
#include "reason.h"

namespace wiresum {

// Bytes that an element takes on its way, by its own.
struct LaneBytes {
    int64_t of_four_bytes;
    int64_t of_two_bytes;

    int64_t of(int64_t element_bytes) const { return element_bytes == 2 ? of_two_bytes : of_four_bytes; }
};

// What a group can do.
struct Ability {
    bool network;         // whether it is connected
    bool copies;          // whether its plan has streams for bytes that are copied
    int64_t min_elements; // fewer are faster through Gloo
    LaneBytes lane_bytes; // of an element on its way
    int64_t largest_share =
        -1; // bytes of a rank's in the packets that open a collective; -1 where there are none
    int64_t exact_bytes = 0; // of the widest element that is all-reduced without rounding
};

// What a sparse all-reduce would move down each link.
struct RowTraffic {
    int64_t ranks;
    int64_t rows_of_all; // distinct rows that any rank has
    int64_t longest;     // rows of the rank that has most
    int64_t width;       // elements in a row
};

// Reason::Summed if the network can sum these inputs together and write results to these outputs, or find
// their extremes, else why not.
Reason decide(const std::vector<at::Tensor> &inputs, const std::vector<at::Tensor> &outputs,
              const c10d::ReduceOp &operation, const Ability &ability);

// Reason::Shared where the network neither sums nor copies, as `otherwise` says, but has room for the ranks'
// bytes in the packets that open a collective; else that reason. `operation` is null where nothing is
// reduced.
Reason decide_share(Reason otherwise, const std::vector<at::Tensor> &inputs,
                    const std::vector<at::Tensor> &outputs, const c10d::ReduceOp *operation,
                    const Ability &ability);

// As `decide`, for bytes of any type that are copied: Reason::Copied if the network can.
Reason decide_copy(const std::vector<at::Tensor> &inputs, const std::vector<at::Tensor> &outputs,
                   const Ability &ability);

// Whether ranks can tell each other this tensor's rows, and sum them.
bool has_rows(const at::Tensor &tensor, const c10d::ReduceOp &operation);

// As `decide`, for the rows of a sparse tensor that has_rows(). Reason::Gathered where everyone's values are
// fewer bytes than their sums: with few ranks, or few rows in common.
Reason decide(const RowTraffic &traffic, at::ScalarType type, const Ability &ability);

// The engine's name of an element type and of an operation that `decide` let pass.
wiresum_element_type element_type_of(at::ScalarType type);
wiresum_operation operation_of(const c10d::ReduceOp &operation);

} // namespace wiresum
