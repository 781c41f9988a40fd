// What ranks tell each other of their sparse tensors before any value travels.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "rows.h"

namespace wiresum {

// Dimensions of a sparse tensor; more would make every notice longer.
inline constexpr int64_t kMaxDimensions = 8;

// What is wrong with a rank's tensor.
enum class RowFault : int64_t {
    None,
    Index,      // one is negative, or not below the size of its dimension
    Dimensions, // more than kMaxDimensions
    TooLarge,   // its rows cannot be numbered in 63 bits
};

// What one rank says of its tensor; all fields are 64 bits wide, as it travels as it is.
struct RowNotice {
    RowFault fault = RowFault::None;
    int64_t fault_index = 0;     // the index that is out of range
    int64_t fault_dimension = 0; // its dimension
    int64_t element_type = 0;    // at::ScalarType
    int64_t operation = 0;       // c10d::ReduceOp::RedOpType
    int64_t sparse_dim = 0;
    int64_t dense_dim = 0;
    std::array<int64_t, kMaxDimensions> sizes{};
    int64_t rows = 0; // with values, distinct
    RowForm form = RowForm::Gaps;
    int64_t bytes = 0; // of the encoded rows

    // Shape, type and operation, without values.
    static RowNotice of(const at::Tensor &tensor, const c10d::ReduceOp &operation);
    // Elements in a row.
    int64_t width() const;
    // Rows that the tensor could have.
    int64_t limit() const;
    std::string describe() const;
};
static_assert(sizeof(RowNotice) == (10 + kMaxDimensions) * sizeof(int64_t));

// A rank's part: which rows have values, and those, [rows, width].
struct RowShare {
    RowSet rows;
    at::Tensor values;
};

// A tensor's rows with duplicates added up, ascending. Completes the notice; where that has a fault, the
// share is empty.
RowShare share_of(const at::Tensor &tensor, RowNotice &notice);

// Throws the same CollectiveError on every rank if a tensor cannot be summed, or if two do not fit.
void check(const std::vector<RowNotice> &notices, const std::string &collective);

// The tensor's sizes with these rows alone, sorted and coalesced.
at::Tensor tensor_of(const at::Tensor &like, const RowShare &share);

} // namespace wiresum
