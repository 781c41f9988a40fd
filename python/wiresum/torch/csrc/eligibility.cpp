#include "eligibility.h"

#include <algorithm>
#include <optional>

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>

#include "rank_order.h"

namespace wiresum {

namespace {

bool summable(at::ScalarType type) {
    return type == at::kFloat || type == at::kHalf || type == at::kBFloat16;
}

// Whether nodes combine such elements without rounding them.
bool is_exact(at::ScalarType type, const c10d::ReduceOp &operation, const Ability &ability) {
    const bool is_integer = type == at::kInt || type == at::kChar || type == at::kByte;
    const bool is_extreme = operation.op_ == c10d::ReduceOp::MIN || operation.op_ == c10d::ReduceOp::MAX;
    const bool is_known =
        is_integer ? is_extreme || operation.op_ == c10d::ReduceOp::SUM : summable(type) && is_extreme;
    return is_known && static_cast<int64_t>(c10::elementSize(type)) <= ability.exact_bytes;
}

// Whether the elements are where a plain copy reads and writes them.
bool plain(const at::Tensor &tensor) {
    return tensor.layout() == at::kStrided && !tensor.is_neg() && !tensor.is_conj() &&
           !tensor.is_quantized() && at::has_internal_overlap(tensor) != at::MemOverlap::Yes;
}

// Whether the network, or a stream that carries to it, reaches memory of this device.
bool in_reach(const at::Device &device) { return device.is_cpu() || device.is_cuda(); }

template <typename Predicate> bool all(const std::vector<at::Tensor> &tensors, Predicate predicate) {
    return std::all_of(tensors.begin(), tensors.end(), predicate);
}

// Why the network takes no tensors of such devices and layouts; nothing where it does.
std::optional<Reason> misfit(const std::vector<at::Tensor> &inputs, const std::vector<at::Tensor> &outputs) {
    if (inputs.empty() || outputs.empty()) {
        return Reason::Layout;
    }
    const at::Device device = inputs[0].device();
    const auto is_there = [device](const at::Tensor &t) { return t.device() == device; };
    if (!in_reach(device) || !all(inputs, is_there) || !all(outputs, is_there)) {
        return Reason::Device;
    }
    const auto type = inputs[0].scalar_type();
    const auto alike = [type](const at::Tensor &t) { return t.scalar_type() == type && plain(t); };
    if (!all(inputs, alike) || !all(outputs, alike)) {
        return Reason::Layout;
    }
    return std::nullopt;
}

int64_t elements_of(const std::vector<at::Tensor> &tensors) {
    int64_t elements = 0;
    for (const at::Tensor &tensor : tensors) {
        elements += tensor.numel();
    }
    return elements;
}

bool is_too_small(const std::vector<at::Tensor> &inputs, const Ability &ability) {
    return elements_of(inputs) < std::max<int64_t>(1, ability.min_elements);
}

// What the packets that open a collective have room for is there after one exchange.
bool is_share(const std::vector<at::Tensor> &inputs, const Ability &ability) {
    const auto width = static_cast<int64_t>(c10::elementSize(inputs[0].scalar_type()));
    return elements_of(inputs) * width <= ability.largest_share;
}

} // namespace

Reason decide(const std::vector<at::Tensor> &inputs, const std::vector<at::Tensor> &outputs,
              const c10d::ReduceOp &operation, const Ability &ability) {
    if (const std::optional<Reason> reason = misfit(inputs, outputs)) {
        return *reason;
    }
    const at::ScalarType type = inputs[0].scalar_type();
    if (!is_exact(type, operation, ability) || is_share(inputs, ability)) {
        if (!summable(type)) {
            return Reason::ElementType;
        }
        if (operation.op_ != c10d::ReduceOp::SUM && operation.op_ != c10d::ReduceOp::AVG) {
            return Reason::Operation;
        }
    }
    if (is_too_small(inputs, ability)) {
        return Reason::TooSmall;
    }
    return ability.network ? Reason::Summed : Reason::NoNetwork;
}

Reason decide_share(Reason otherwise, const std::vector<at::Tensor> &inputs,
                    const std::vector<at::Tensor> &outputs, const c10d::ReduceOp *operation,
                    const Ability &ability) {
    switch (otherwise) {
    case Reason::ElementType:
    case Reason::Operation:
    case Reason::TooSmall:
    case Reason::Collective:
        break;
    default:
        return otherwise;
    }
    if (misfit(inputs, outputs)) {
        return otherwise;
    }
    const bool is_known = operation == nullptr || is_reducible(inputs[0].scalar_type(), *operation);
    return is_known && is_share(inputs, ability) ? Reason::Shared : otherwise;
}

Reason decide_copy(const std::vector<at::Tensor> &inputs, const std::vector<at::Tensor> &outputs,
                   const Ability &ability) {
    if (!ability.copies) {
        return Reason::Collective;
    }
    if (const std::optional<Reason> reason = misfit(inputs, outputs)) {
        return *reason;
    }
    return is_too_small(inputs, ability) ? Reason::TooSmall : Reason::Copied;
}

bool has_rows(const at::Tensor &tensor, const c10d::ReduceOp &operation) {
    const at::ScalarType type = tensor.scalar_type();
    const bool is_float = summable(type) || type == at::kDouble;
    const bool is_integer = c10::isIntegralType(type, /*includeBool=*/false);
    return tensor.layout() == at::kSparse && tensor.device().is_cpu() &&
           ((operation.op_ == c10d::ReduceOp::SUM && (is_float || is_integer)) ||
            (operation.op_ == c10d::ReduceOp::AVG && is_float));
}

Reason decide(const RowTraffic &traffic, at::ScalarType type, const Ability &ability) {
    if (!summable(type)) {
        return Reason::ElementType;
    }
    const int64_t elements = traffic.rows_of_all * traffic.width;
    if (elements < std::max<int64_t>(1, ability.min_elements)) {
        return Reason::TooSmall;
    }
    if (!ability.network) {
        return Reason::NoNetwork;
    }
    const auto element_bytes = static_cast<int64_t>(c10::elementSize(type));
    const int64_t gathered = (traffic.ranks - 1) * traffic.longest * traffic.width * element_bytes;
    return gathered < elements * ability.lane_bytes.of(element_bytes) ? Reason::Gathered : Reason::Summed;
}

wiresum_element_type element_type_of(at::ScalarType type) {
    switch (type) {
    case at::kHalf:
        return WIRESUM_FLOAT16;
    case at::kBFloat16:
        return WIRESUM_BFLOAT16;
    case at::kInt:
        return WIRESUM_INT32;
    case at::kChar:
        return WIRESUM_INT8;
    case at::kByte:
        return WIRESUM_UINT8;
    default:
        return WIRESUM_FLOAT32;
    }
}

wiresum_operation operation_of(const c10d::ReduceOp &operation) {
    switch (operation.op_) {
    case c10d::ReduceOp::AVG:
        return WIRESUM_AVERAGE;
    case c10d::ReduceOp::MIN:
        return WIRESUM_MINIMUM;
    case c10d::ReduceOp::MAX:
        return WIRESUM_MAXIMUM;
    default:
        return WIRESUM_SUM;
    }
}

} // namespace wiresum
