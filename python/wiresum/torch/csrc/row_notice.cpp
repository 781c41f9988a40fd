#include "row_notice.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <c10/util/Exception.h>

#include "errors.h"
#include "pending_work.h"

namespace wiresum {

namespace {

// Rows that sparse dimensions of these sizes have, unless they are too many.
std::optional<int64_t> product(const int64_t *sizes, int64_t dimensions) {
    int64_t rows = 1;
    for (int64_t dimension = 0; dimension < dimensions; ++dimension) {
        if (__builtin_mul_overflow(rows, sizes[dimension], &rows)) {
            return std::nullopt;
        }
    }
    return rows;
}

void find_fault(const at::Tensor &indices, RowNotice &notice) {
    const auto *sizes = notice.sizes.data();
    if (!product(sizes, notice.sparse_dim) || !product(sizes + notice.sparse_dim, notice.dense_dim)) {
        notice.fault = RowFault::TooLarge;
        return;
    }
    const auto index = indices.accessor<int64_t, 2>();
    for (int64_t dimension = 0; dimension < indices.size(0); ++dimension) {
        for (int64_t entry = 0; entry < indices.size(1); ++entry) {
            if (index[dimension][entry] < 0 || index[dimension][entry] >= notice.sizes[dimension]) {
                notice.fault = RowFault::Index;
                notice.fault_index = index[dimension][entry];
                notice.fault_dimension = dimension;
                return;
            }
        }
    }
}

RowSet numbered(const at::Tensor &indices, const RowNotice &notice) {
    const auto index = indices.accessor<int64_t, 2>();
    RowSet rows(indices.size(1));
    for (int64_t dimension = 0; dimension < indices.size(0); ++dimension) {
        for (size_t entry = 0; entry < rows.size(); ++entry) {
            rows[entry] =
                rows[entry] * notice.sizes[dimension] + index[dimension][static_cast<int64_t>(entry)];
        }
    }
    return rows;
}

// Duplicates are added up in a wider type and rounded once. A tensor may call itself coalesced and not be.
at::Tensor merged(const at::Tensor &tensor) {
    const at::Tensor values = tensor._values();
    const at::Tensor wide = values.to(at::toOpMathType(values.scalar_type()));
    return at::_sparse_coo_tensor_unsafe(tensor._indices(), wide, tensor.sizes()).coalesce();
}

bool is_ascending(const RowSet &rows) {
    return std::adjacent_find(rows.begin(), rows.end(), std::greater_equal<>()) == rows.end();
}

std::string complaint(const RowNotice &notice) {
    switch (notice.fault) {
    case RowFault::Index:
        return c10::str("index ", notice.fault_index, " is outside of dimension ", notice.fault_dimension,
                        ", whose size is ", notice.sizes[notice.fault_dimension],
                        ". Look up only what is in the table, or enlarge it");
    case RowFault::Dimensions:
        return c10::str("a sparse tensor of more than ", kMaxDimensions,
                        " dimensions. Reshape it to fewer dense ones");
    default:
        return "more rows, or elements in a row, than 63 bits can number. Use fewer or smaller dimensions";
    }
}

std::string ranks(const std::vector<size_t> &numbers) {
    std::string text = numbers.size() > 1 ? "ranks" : "rank";
    for (size_t index = 0; index < numbers.size(); ++index) {
        text += c10::str(index > 0 ? ", " : " ", numbers[index]);
    }
    return text;
}

} // namespace

RowNotice RowNotice::of(const at::Tensor &tensor, const c10d::ReduceOp &operation) {
    RowNotice notice;
    notice.element_type = static_cast<int64_t>(tensor.scalar_type());
    notice.operation = static_cast<int64_t>(operation.op_);
    notice.sparse_dim = tensor.sparse_dim();
    notice.dense_dim = tensor.dense_dim();
    if (tensor.dim() > kMaxDimensions) {
        notice.fault = RowFault::Dimensions;
    } else {
        std::copy(tensor.sizes().begin(), tensor.sizes().end(), notice.sizes.begin());
    }
    return notice;
}

int64_t RowNotice::width() const { return product(sizes.data() + sparse_dim, dense_dim).value(); }

int64_t RowNotice::limit() const { return product(sizes.data(), sparse_dim).value(); }

std::string RowNotice::describe() const {
    const auto *size = sizes.data();
    return c10::str("sparse ", name_of_type(static_cast<at::ScalarType>(element_type)), " of size ",
                    at::IntArrayRef(size, std::min(sparse_dim + dense_dim, kMaxDimensions)), ", of which ",
                    sparse_dim, " sparse, ",
                    operation == static_cast<int64_t>(c10d::ReduceOp::AVG) ? "AVG" : "SUM");
}

RowShare share_of(const at::Tensor &tensor, RowNotice &notice) {
    if (notice.fault == RowFault::None) {
        find_fault(tensor._indices(), notice);
    }
    if (notice.fault != RowFault::None) {
        return {};
    }
    at::Tensor source = tensor.is_coalesced() ? tensor : merged(tensor);
    RowSet rows = numbered(source._indices(), notice);
    if (!is_ascending(rows)) {
        source = merged(tensor);
        rows = numbered(source._indices(), notice);
    }
    notice.rows = static_cast<int64_t>(rows.size());
    at::Tensor values = source._values().to(tensor.scalar_type()).contiguous();
    return {std::move(rows), values.view({notice.rows, notice.width()})};
}

void check(const std::vector<RowNotice> &notices, const std::string &collective) {
    std::map<std::string, std::vector<size_t>> complaints;
    std::map<std::string, std::vector<size_t>> kinds;
    for (size_t rank = 0; rank < notices.size(); ++rank) {
        kinds[notices[rank].describe()].push_back(rank);
        if (notices[rank].fault != RowFault::None) {
            complaints[complaint(notices[rank])].push_back(rank);
        }
    }
    const bool is_faulty = !complaints.empty();
    std::string text;
    for (const auto &[what, who] : is_faulty ? complaints : kinds) {
        text += c10::str(text.empty() ? "" : "; ", ranks(who), ": ", what);
    }
    if (is_faulty) {
        throw CollectiveError(WIRESUM_FAILED, c10::str(collective, ": ", text, ". Nothing was summed."));
    }
    if (kinds.size() > 1) {
        throw CollectiveError(WIRESUM_MISMATCH, c10::str(collective, ": ranks passed different tensors. ",
                                                         text, ". ", remedy(WIRESUM_MISMATCH)));
    }
}

at::Tensor tensor_of(const at::Tensor &like, const RowShare &share) {
    const int64_t sparse_dim = like.sparse_dim();
    const auto count = static_cast<int64_t>(share.rows.size());
    at::Tensor indices = at::empty({sparse_dim, count}, at::kLong);
    auto index = indices.accessor<int64_t, 2>();
    for (int64_t entry = 0; entry < count; ++entry) {
        int64_t rest = share.rows[entry];
        for (int64_t dimension = sparse_dim - 1; dimension >= 0; --dimension) {
            index[dimension][entry] = rest % like.size(dimension);
            rest /= like.size(dimension);
        }
    }
    std::vector<int64_t> shape{count};
    shape.insert(shape.end(), like.sizes().begin() + sparse_dim, like.sizes().end());
    return at::_sparse_coo_tensor_unsafe(indices, share.values.view(shape), like.sizes(), std::nullopt,
                                         std::nullopt, std::nullopt, std::nullopt, /*is_coalesced=*/true);
}

} // namespace wiresum
