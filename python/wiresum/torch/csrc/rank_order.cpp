#include "rank_order.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

namespace wiresum {

namespace {

// What rows are reduced in.
at::ScalarType arithmetic_of(at::ScalarType type) {
    return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

void fold(at::Tensor &result, const at::Tensor &row, c10d::ReduceOp::RedOpType operation) {
    switch (operation) {
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::AVG:
        result.add_(row);
        return;
    case c10d::ReduceOp::PRODUCT:
        result.mul_(row);
        return;
    case c10d::ReduceOp::MIN:
        at::minimum_out(result, result, row);
        return;
    case c10d::ReduceOp::MAX:
        at::maximum_out(result, result, row);
        return;
    case c10d::ReduceOp::BAND:
        result.bitwise_and_(row);
        return;
    case c10d::ReduceOp::BOR:
        result.bitwise_or_(row);
        return;
    case c10d::ReduceOp::BXOR:
        result.bitwise_xor_(row);
        return;
    default:
        TORCH_CHECK(false, "wiresum: operation ", static_cast<int>(operation),
                    " on small tensors. This is a defect of Wiresum: please report it.");
    }
}

} // namespace

bool is_reducible(at::ScalarType type, const c10d::ReduceOp &operation) {
    switch (operation.op_) {
    case c10d::ReduceOp::AVG:
        return isFloatingType(type) && (arithmetic_of(type) == at::kFloat || type == at::kDouble);
    case c10d::ReduceOp::SUM:
    case c10d::ReduceOp::PRODUCT:
    case c10d::ReduceOp::MIN:
    case c10d::ReduceOp::MAX:
        return arithmetic_of(type) == at::kFloat || type == at::kDouble ||
               is_reducible(type, c10d::ReduceOp::BOR);
    case c10d::ReduceOp::BAND:
    case c10d::ReduceOp::BOR:
    case c10d::ReduceOp::BXOR:
        return type == at::kLong || type == at::kInt || type == at::kChar || type == at::kByte ||
               type == at::kBool;
    default:
        return false;
    }
}

at::Tensor reduce_in_rank_order(const at::Tensor &rows, const c10d::ReduceOp &operation) {
    const at::Tensor all = rows.to(arithmetic_of(rows.scalar_type()));
    at::Tensor result = all[0].clone();
    for (int64_t rank = 1; rank < all.size(0); ++rank) {
        fold(result, all[rank], operation.op_);
    }
    if (operation.op_ == c10d::ReduceOp::AVG) {
        result.div_(all.size(0));
    }
    return result.to(rows.scalar_type());
}

} // namespace wiresum
