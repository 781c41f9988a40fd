// Lists of tensors, as collectives have them for inputs and outputs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include <ATen/ATen.h>

namespace wiresum {

using Tensors = std::vector<at::Tensor>;

inline Tensors flattened(const std::vector<Tensors> &lists) {
    Tensors all;
    for (const Tensors &list : lists) {
        all.insert(all.end(), list.begin(), list.end());
    }
    return all;
}

// The shares of several tensors, all of rank 0 first; none if a tensor has not as many elements as its share
// has on all ranks together.
inline std::optional<Tensors> shares_of(const Tensors &wholes, const Tensors &shares, int ranks) {
    if (wholes.size() != shares.size()) {
        return std::nullopt;
    }
    Tensors flat;
    for (size_t index = 0; index < wholes.size(); ++index) {
        const at::Tensor &whole = wholes[index];
        if (whole.layout() != at::kStrided || whole.numel() != shares[index].numel() * ranks) {
            return std::nullopt;
        }
        flat.push_back(whole.reshape(-1)); // a copy, where it is not contiguous
    }
    Tensors pieces;
    for (int rank = 0; rank < ranks; ++rank) {
        for (size_t index = 0; index < flat.size(); ++index) {
            const int64_t length = shares[index].numel();
            pieces.push_back(flat[index].narrow(0, rank * length, length));
        }
    }
    return pieces;
}

// Whether results can be written to parts of these.
inline bool are_contiguous(const Tensors &tensors) {
    return std::all_of(tensors.begin(), tensors.end(),
                       [](const at::Tensor &t) { return t.layout() == at::kStrided && t.is_contiguous(); });
}

inline bool are_as_long(const Tensors &tensors, const Tensors &others) {
    return std::equal(
        tensors.begin(), tensors.end(), others.begin(), others.end(),
        [](const at::Tensor &one, const at::Tensor &other) { return one.numel() == other.numel(); });
}

} // namespace wiresum
