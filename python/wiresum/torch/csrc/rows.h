// Sets of rows: which rows of a sparse tensor have values, how ranks tell each other, and sums of such rows.
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace wiresum {

// Numbers of rows, ascending and without repetition: of a sparse tensor's leading dimensions, flattened.
using RowSet = std::vector<int64_t>;

// How a set of rows travels; whichever is shorter.
enum class RowForm : int64_t {
    Gaps,   // to the next row, less one, in groups of 7 bits, the lowest first; the 8th bit says that more
            // follow
    Bitmap, // a bit for each row of the tensor
};

struct EncodedRows {
    RowForm form;
    std::vector<uint8_t> bytes;
};

// Encodes rows that are all below `limit`.
EncodedRows encode(const RowSet &rows, int64_t limit);

// The `count` rows in these bytes, or an exception where they are not rows below `limit`.
RowSet decode(RowForm form, const uint8_t *bytes, size_t length, int64_t count, int64_t limit);

// All rows that are in any of the sets.
RowSet united(std::vector<RowSet> sets);

// Adds `values` ([rows, elements], contiguous) to those places of `total` ([all, elements], contiguous, of
// the same type) that `rows` have in `all`, of which they must be a part.
void add_rows(at::Tensor &total, const RowSet &all, const at::Tensor &values, const RowSet &rows);

} // namespace wiresum
