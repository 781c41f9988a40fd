#include "agreement.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <regex>

#include <ATen/ATen.h>

#include "errors.h"
#include "rank_order.h"
#include "tensors.h"
#include "work.h"

namespace wiresum {

namespace {

using Tensors = std::vector<at::Tensor>;

bool is_reduced(const Request &request) {
    return request.kind == WIRESUM_ALL_REDUCE || request.kind == WIRESUM_REDUCE ||
           request.kind == WIRESUM_REDUCE_SCATTER;
}

// Types whose elements are whole bytes.
bool has_whole_bytes(at::ScalarType type) {
    const bool is_small_integer = (type >= at::ScalarType::UInt1 && type <= at::ScalarType::UInt7) ||
                                  (type >= at::ScalarType::Int1 && type <= at::ScalarType::Int7);
    const bool is_bits = type >= at::ScalarType::Bits1x8 && type <= at::ScalarType::Bits16;
    return !c10::isQIntType(type) && !is_small_integer && !is_bits &&
           type != at::ScalarType::Float4_e2m1fn_x2;
}

bool is_supported(const Request &request) {
    const at::ScalarType type = request.inputs[0].scalar_type();
    return has_whole_bytes(type) && (!is_reduced(request) || is_reducible(type, request.operation));
}

bool have_one_type(const Request &request) {
    const at::ScalarType type = request.inputs[0].scalar_type();
    const auto is_alike = [type](const at::Tensor &tensor) {
        return tensor.scalar_type() == type && tensor.layout() == at::kStrided;
    };
    return std::all_of(request.inputs.begin(), request.inputs.end(), is_alike) &&
           std::all_of(request.outputs.begin(), request.outputs.end(), is_alike);
}

// What a program can do about a type or an operation that is not supported.
std::string alternative(const Signature &signature) {
    const auto type = static_cast<at::ScalarType>(signature.type);
    if (signature.operation == c10d::ReduceOp::PREMUL_SUM) {
        return "multiply the tensor, and use SUM";
    }
    if (c10::isFloat8Type(type)) {
        return "convert it to float32 first";
    }
    if (!has_whole_bytes(type)) {
        return "convert it to uint8 first";
    }
    if (c10::isComplexType(type)) {
        return "complex numbers have SUM and AVG";
    }
    if (type == at::kBool) {
        return "convert it to float32 first";
    }
    if (c10::isIntegralType(type, false)) {
        return type == at::kUInt32 || type == at::kUInt64 ? "convert it to int64 first"
                                                          : "convert it to int32 first";
    }
    return "this operation is for integers";
}

std::string refusal_text(const Request &request, const Signature &signature, int64_t ranks) {
    switch (signature.refusal) {
    case Refusal::SharedMemory:
        return "unsupported operation: more than one element of the written-to tensor refers to a single "
               "memory location. Please clone() the tensor before performing the operation.";
    case Refusal::Unsupported: {
        const char *type = name_of_type(static_cast<at::ScalarType>(signature.type));
        const bool has_operation = signature.operation != kNothing;
        const auto operation = static_cast<c10d::ReduceOp::RedOpType>(signature.operation);
        const std::string named =
            has_operation ? c10::str("(", name_of_operation(operation), ")") : std::string();
        return c10::str(request.collective, named, " of ", type,
                        " is not supported: ", alternative(signature));
    }
    default:
        return c10::str(request.collective,
                        ": the tensors do not fit the collective. All need one type and "
                        "layout; a list needs one tensor for each of the ",
                        ranks, " ranks, with as many elements as a rank's tensor; a whole needs ", ranks,
                        " times as many; a root must be a rank.");
    }
}

std::vector<Signature> signatures_in(const at::Tensor &rows) {
    std::vector<Signature> all(rows.size(0));
    std::memcpy(all.data(), rows.const_data_ptr(), all.size() * sizeof(Signature));
    return all;
}

// The same where ranks agree.
auto key_of(const Signature &signature) {
    const bool is_exchange = signature.collective >= kGlooOnly;
    return std::make_tuple(signature.collective, signature.type, signature.operation, signature.root,
                           is_exchange ? 0 : signature.elements, is_exchange ? 0 : signature.tensors);
}

std::string name_of_collective(uint16_t collective) {
    if (collective < kGlooOnly) {
        return std::string(title_of(static_cast<wiresum_kind>(collective))).substr(std::strlen("wiresum:"));
    }
    const auto type = static_cast<c10d::OpType>(collective - kGlooOnly);
    return type == c10d::OpType::ALLTOALL || type == c10d::OpType::ALLTOALL_BASE
               ? "all_to_all"
               : "all_reduce of sparse tensors";
}

std::string describe(const Signature &signature) {
    const std::string type = name_of_type(static_cast<at::ScalarType>(signature.type));
    std::string text = name_of_collective(signature.collective);
    if (signature.operation != kNothing) {
        text += c10::str(" (", name_of_operation(static_cast<c10d::ReduceOp::RedOpType>(signature.operation)),
                         ")");
    }
    if (signature.root >= 0) {
        text += c10::str(" with root ", signature.root);
    }
    const bool has_length = signature.collective < kGlooOnly;
    return has_length ? c10::str(text, " of ", signature.elements, " ", type) : c10::str(text, " of ", type);
}

// Ranks by what they passed, in words.
std::string describe(const std::vector<Signature> &all, const std::vector<int> &ranks) {
    std::vector<std::pair<std::string, std::vector<int>>> groups;
    for (size_t at = 0; at < all.size(); ++at) {
        const std::string text = describe(all[at]);
        auto group = std::find_if(groups.begin(), groups.end(),
                                  [&text](const auto &other) { return other.first == text; });
        if (group == groups.end()) {
            group = groups.insert(groups.end(), {text, {}});
        }
        group->second.push_back(ranks[at]);
    }
    std::string text;
    for (const auto &[passed, by] : groups) {
        text += c10::str(text.empty() ? "" : "; ", by.size() == 1 ? "rank " : "ranks ", c10::Join(", ", by),
                         ": ", passed);
    }
    return text;
}

bool has_root(const Request &request) {
    return request.kind == WIRESUM_REDUCE || request.kind == WIRESUM_BROADCAST ||
           request.kind == WIRESUM_GATHER || request.kind == WIRESUM_SCATTER;
}

} // namespace

Refusal refusal_of(const Request &request, bool fits, int rank) {
    if (!fits || request.inputs.empty() || !have_one_type(request)) {
        return Refusal::Misfit;
    }
    if (!is_supported(request)) {
        return Refusal::Unsupported;
    }
    return takes_part(request, rank) && do_share_memory(request.outputs) ? Refusal::SharedMemory
                                                                         : Refusal::None;
}

Signature signature_of(const Request &request, Refusal refusal, bool is_uneven) {
    const bool is_gloo_only = request.kind == WIRESUM_AGREEMENT;
    const bool is_share_of_output = request.kind == WIRESUM_SCATTER || request.kind == WIRESUM_REDUCE_SCATTER;
    const Tensors &counted = is_share_of_output ? request.outputs : request.inputs;
    const auto collective = is_gloo_only ? kGlooOnly + static_cast<uint16_t>(request.op_type)
                                         : static_cast<uint16_t>(request.kind);
    return {
        .collective = static_cast<uint16_t>(collective),
        .type = static_cast<uint8_t>(request.inputs.empty() ? at::kByte : request.inputs[0].scalar_type()),
        .operation = is_reduced(request) ? static_cast<uint8_t>(request.operation.op_) : kNothing,
        .refusal = refusal,
        .is_uneven = static_cast<uint8_t>(is_uneven),
        .unused = 0,
        .root = has_root(request) ? request.root : -1,
        .elements = static_cast<int64_t>(size_of(counted).elements),
        .tensors =
            static_cast<int64_t>(is_share_of_output || request.inputs.size() == 1 ? 0 : counted.size()),
    };
}

at::Tensor bytes_of_signature(const Signature &signature) {
    at::Tensor bytes = at::empty({sizeof(Signature)}, at::kByte);
    std::memcpy(bytes.mutable_data_ptr(), &signature, sizeof(Signature));
    return bytes;
}

void check_signatures(const Request &request, const at::Tensor &rows, const std::vector<int> &ranks,
                      const std::string &description) {
    const std::vector<Signature> all = signatures_in(rows);
    const auto refuses = [](const Signature &signature) { return signature.refusal != Refusal::None; };
    const auto refusing = std::find_if(all.begin(), all.end(), refuses);
    if (refusing != all.end()) {
        std::vector<int> by;
        for (size_t at = 0; at < all.size(); ++at) {
            if (all[at].refusal == refusing->refusal) {
                by.push_back(ranks[at]);
            }
        }
        const std::string who =
            by.size() == all.size()
                ? ""
                : c10::str(" (on ", by.size() == 1 ? "rank " : "ranks ", c10::Join(", ", by), ")");
        throw RefusedError(refusal_text(request, *refusing, static_cast<int64_t>(all.size())) + who);
    }
    const auto is_alike = [&all](const Signature &other) { return key_of(other) == key_of(all[0]); };
    if (!std::all_of(all.begin(), all.end(), is_alike)) {
        throw CollectiveError(WIRESUM_MISMATCH,
                              c10::str(description, ": ranks passed different collectives: ",
                                       describe(all, ranks), ". ", remedy(WIRESUM_MISMATCH)));
    }
}

bool has_uneven(const at::Tensor &rows) {
    const std::vector<Signature> all = signatures_in(rows);
    return std::any_of(all.begin(), all.end(), [&all](const Signature &signature) {
        return signature.is_uneven != 0 || signature.elements != all[0].elements;
    });
}

void check_splits(const at::Tensor &rows, const std::string &description) {
    const int64_t ranks = rows.size(0);
    const auto *sizes = rows.const_data_ptr<int64_t>();
    for (int64_t from = 0; from < ranks; ++from) {
        for (int64_t to = 0; to < ranks; ++to) {
            const int64_t sent = sizes[from * 2 * ranks + to];
            const int64_t expected = sizes[to * 2 * ranks + ranks + from];
            if (sent != expected) {
                throw CollectiveError(WIRESUM_MISMATCH,
                                      c10::str(description, ": rank ", from, " sends ", sent,
                                               " elements to rank ", to, ", which expects ", expected, ". ",
                                               remedy(WIRESUM_MISMATCH)));
            }
        }
    }
}

std::string with_type_names(const std::string &message) {
    static const std::regex number(R"(\(type (\d+)(, operation (\d+))?\))");
    std::string text;
    auto rest = message.cbegin();
    for (std::sregex_iterator match(message.begin(), message.end(), number), end; match != end; ++match) {
        const auto type = static_cast<size_t>(std::stoul((*match)[1]));
        const bool is_known = type < static_cast<size_t>(at::ScalarType::NumOptions);
        text.append(rest, (*match)[0].first);
        text += is_known ? c10::str("(", name_of_type(static_cast<at::ScalarType>(type))) : "(bytes";
        if ((*match)[3].matched) {
            const auto operation = static_cast<c10d::ReduceOp::RedOpType>(std::stoul((*match)[3]));
            text += c10::str(", ", name_of_operation(operation));
        }
        text += ")";
        rest = (*match)[0].second;
    }
    return text.append(rest, message.cend());
}

} // namespace wiresum
