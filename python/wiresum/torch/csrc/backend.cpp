#include "backend.h"

#include "agreement.h"
#include "share_work.h"
#include "tensor_lists.h"
#include "tensors.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>

namespace wiresum {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;

// Bytes of collectives that have ended, besides the last one: ranks are apart by one window of packets at
// most. What is under way needs the room more.
constexpr uint64_t kEndedBytes = 64 << 20;

// Gloo counts its own groups in the flight recorder from 0.
constexpr size_t kFirstRecordedGroup = 1 << 20;

ReplayMemory memory_of(const Network &network) {
    const auto bytes = network.replay_bytes;
    return bytes ? ReplayMemory(*bytes, std::min(*bytes / 2, kEndedBytes), "WIRESUM_REPLAY")
                 : ReplayMemory(INT64_MAX, kEndedBytes, "");
}

std::shared_ptr<GroupContext> context_for(c10::intrusive_ptr<c10d::Backend> inner, const Watching &watching,
                                          const std::optional<Network> &network, std::string no_network) {
    auto group = std::make_shared<GroupContext>();
    group->progress = watching.progress;
    group->loss_known_after = watching.loss_known_after;
    group->ledger = Ledger::open(inner->getRank(), inner->getSize(), std::move(no_network));
    group->set_groups({std::move(inner), network ? network->fallback : nullptr, nullptr});
    if (network && network->afterwards) {
        group->going_over = std::make_shared<GoingOver>(network->afterwards, memory_of(*network));
    }
    return group;
}

// Behind turns a share would wait for its turn.
int64_t share_limit(const std::optional<Network> &network) {
    const bool is_in_turns = network && network->afterwards && !network->replay_bytes;
    return network && !is_in_turns ? network->engine->largest_share : -1;
}

// In a group of Gloo's own, which is made when the ranks first need it.
Submissions::Agree agreeing_by(const WiresumBackend::OpenGloo &open_gloo,
                               const std::shared_ptr<GroupContext> &group) {
    if (!open_gloo) {
        return nullptr;
    }
    return [open_gloo, group = std::weak_ptr(group)](uint64_t own) {
        const auto gloo = open_gloo("callbacks");
        if (const auto context = group.lock()) {
            context->add_gloo(gloo);
        }
        Tensors numbers{at::tensor(static_cast<int64_t>(own))};
        c10d::AllreduceOptions options;
        options.reduceOp = c10d::ReduceOp(c10d::ReduceOp::MAX);
        gloo->allreduce(numbers, options)->wait();
        return static_cast<uint64_t>(numbers[0].item<int64_t>());
    };
}

// What a gather or a scatter is where it is a share.
wiresum_kind share_kind(wiresum_kind kind) {
    switch (kind) {
    case WIRESUM_GATHER:
        return WIRESUM_SMALL_GATHER;
    case WIRESUM_SCATTER:
        return WIRESUM_SMALL_SCATTER;
    default:
        return kind;
    }
}

// Whether results can be written to parts of these.
bool can_be_views(const Tensors &tensors) {
    return std::all_of(tensors.begin(), tensors.end(), [](const at::Tensor &tensor) {
        return tensor.is_cuda() ? tensor.is_contiguous() : is_dense(tensor);
    });
}

// Elements for each rank; none if sizes do not add up to the first dimension, or ranks cannot share it
// evenly.
std::optional<std::vector<int64_t>> split_elements(const at::Tensor &tensor,
                                                   const std::vector<int64_t> &sizes, int ranks) {
    const int64_t rows = tensor.dim() > 0 ? tensor.size(0) : tensor.numel();
    if (sizes.empty()) {
        const bool is_even = rows % ranks == 0;
        return is_even ? std::optional(std::vector<int64_t>(ranks, tensor.numel() / ranks)) : std::nullopt;
    }
    const bool is_negative = std::any_of(sizes.begin(), sizes.end(), [](int64_t size) { return size < 0; });
    if (is_negative || static_cast<int>(sizes.size()) != ranks ||
        std::accumulate(sizes.begin(), sizes.end(), int64_t{0}) != rows) {
        return std::nullopt;
    }
    std::vector<int64_t> elements = sizes;
    for (int64_t &size : elements) {
        size *= rows > 0 ? tensor.numel() / rows : 0;
    }
    return elements;
}

std::vector<int64_t> lengths_of(const Tensors &tensors) {
    std::vector<int64_t> lengths;
    for (const at::Tensor &tensor : tensors) {
        lengths.push_back(tensor.numel());
    }
    return lengths;
}

// Complex numbers are reduced as pairs of real ones.
void part_complex(Request &request) {
    const bool is_reduced = request.kind == WIRESUM_ALL_REDUCE || request.kind == WIRESUM_REDUCE ||
                            request.kind == WIRESUM_REDUCE_SCATTER;
    if (!is_reduced || !request.inputs[0].is_complex()) {
        return;
    }
    if (request.results.empty()) {
        request.results = request.outputs;
    }
    for (at::Tensor &input : request.inputs) {
        input = at::view_as_real(input.detach().resolve_conj());
    }
    for (at::Tensor &output : request.outputs) {
        output = at::view_as_real(output.detach());
    }
}

// A message has no other ranks that have to know.
void refuse_alone(const Request &request, Refusal refusal) {
    if (refusal != Refusal::None) {
        const at::Tensor row = bytes_of_signature(signature_of(request, refusal, false)).unsqueeze(0);
        check_signatures(request, row, {0}, request.collective);
    }
}

} // namespace

WiresumBackend::WiresumBackend(c10::intrusive_ptr<c10d::Backend> inner, std::chrono::milliseconds timeout,
                               Watching watching, std::optional<Network> network, std::string no_network,
                               OpenGloo open_gloo, Remake remake, Split split)
    : Backend(inner->getRank(), inner->getSize()), network_(std::move(network)),
      close_(std::move(watching.close)), open_gloo_(std::move(open_gloo)), remake_(std::move(remake)),
      split_(std::move(split)), largest_share_(share_limit(network_)),
      packs_(network_ && network_->engine->packs != 0),
      exact_bytes_(network_ ? network_->engine->exact_bytes : 0),
      group_(context_for(std::move(inner), watching, network_, std::move(no_network))), timeout_(timeout),
      submissions_(std::make_shared<Submissions>(network_ ? network_->engine : nullptr,
                                                 agreeing_by(open_gloo_, group_))) {
    group_->submissions = submissions_;
    TaskPool::instance().start();
    init();
}

WiresumBackend::~WiresumBackend() {
    if (owner().is_this_process()) {
        close();
    } else {
        leave_to_parent(network_, open_gloo_, remake_, split_, group_, submissions_, staging_, rows_);
    }
}

// --- Through the network
// ---------------------------------------------------------------------------------------------

WorkPtr WiresumBackend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
    // Several tensors in one all-reduce are several devices' shares of one: nobody has them.
    const bool is_one = tensors.size() == 1;
    Request request{WIRESUM_ALL_REDUCE, c10d::OpType::ALLREDUCE,    "all_reduce", tensors, tensors,
                    options.reduceOp,   timeout_of(options.timeout)};
    if (is_one && (options.sparseIndices || tensors[0].layout() == at::kSparse)) {
        if (open_gloo_ && !options.sparseIndices && has_rows(tensors[0], options.reduceOp)) {
            return sum_rows(std::move(request));
        }
        return allreduce_sparse(tensors, options);
    }
    return enter(std::move(request), is_one);
}

WorkPtr WiresumBackend::all_reduce_int8(const at::Tensor &tensor, const c10d::ReduceOp &operation,
                                        const at::Tensor &kept, std::chrono::milliseconds timeout) {
    Tensors tensors{tensor};
    Request request{WIRESUM_ALL_REDUCE, c10d::OpType::ALLREDUCE, "all_reduce_int8", tensors, tensors,
                    operation,          timeout_of(timeout)};
    if (packs_ && tensor.is_cpu() && decide_on(request, true) == Reason::Summed) {
        const auto ranks = static_cast<uint32_t>(getSize());
        request.eight_bits = EightBits{kept, packed_++ * ranks + static_cast<uint32_t>(getRank())};
    } else if (kept.defined()) {
        at::NoGradGuard no_grad;
        at::Tensor(kept).zero_();
    }
    return enter(std::move(request), true);
}

WorkPtr WiresumBackend::allreduce_coalesced(Tensors &tensors,
                                            const c10d::AllreduceCoalescedOptions &options) {
    return enter({WIRESUM_ALL_REDUCE, c10d::OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", tensors,
                  tensors, options.reduceOp, timeout_of(options.timeout)},
                 true);
}

WorkPtr WiresumBackend::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
    return enter({WIRESUM_REDUCE, c10d::OpType::REDUCE, "reduce", tensors, tensors, options.reduceOp,
                  timeout_of(options.timeout), static_cast<int>(options.rootRank)},
                 tensors.size() == 1 && is_rank(options.rootRank));
}

WorkPtr WiresumBackend::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                       const c10d::ReduceScatterOptions &options) {
    const Tensors pieces = flattened(inputs);
    const bool is_even = outputs.size() == 1 && are_shares(pieces, outputs[0]);
    return enter({WIRESUM_REDUCE_SCATTER, c10d::OpType::REDUCE_SCATTER, "reduce_scatter", pieces, outputs,
                  options.reduceOp, timeout_of(options.timeout)},
                 is_even);
}

WorkPtr WiresumBackend::reduce_scatter_single(at::Tensor &output, at::Tensor &input,
                                              const c10d::ReduceScatterOptions &options) {
    return enter({WIRESUM_REDUCE_SCATTER,
                  c10d::OpType::_REDUCE_SCATTER_BASE,
                  "reduce_scatter_single",
                  {input},
                  {output},
                  options.reduceOp,
                  timeout_of(options.timeout)},
                 input.numel() == output.numel() * getSize());
}

WorkPtr WiresumBackend::reduce_scatter_single_coalesced(Tensors &outputs, Tensors &inputs,
                                                        const c10d::ReduceScatterOptions &options) {
    const auto shares = shares_of(inputs, outputs, getSize());
    return enter({WIRESUM_REDUCE_SCATTER, c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                  "reduce_scatter_single_coalesced", shares.value_or(inputs), outputs, options.reduceOp,
                  timeout_of(options.timeout)},
                 shares.has_value());
}

WorkPtr WiresumBackend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
    return enter({WIRESUM_BROADCAST, c10d::OpType::BROADCAST, "broadcast", tensors, tensors, c10d::ReduceOp(),
                  timeout_of(options.timeout), static_cast<int>(options.rootRank)},
                 tensors.size() == 1 && is_rank(options.rootRank));
}

WorkPtr WiresumBackend::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                                  const c10d::AllgatherOptions &options) {
    const Tensors shares = flattened(outputs);
    const bool is_even = inputs.size() == 1 && are_shares(shares, inputs[0]);
    return enter({WIRESUM_ALL_GATHER, c10d::OpType::ALLGATHER, "all_gather", inputs, shares, c10d::ReduceOp(),
                  timeout_of(options.timeout)},
                 is_even);
}

WorkPtr WiresumBackend::all_gather_single(at::Tensor &output, at::Tensor &input,
                                          const c10d::AllgatherOptions &options) {
    return enter({WIRESUM_ALL_GATHER,
                  c10d::OpType::_ALLGATHER_BASE,
                  "all_gather_single",
                  {input},
                  {output},
                  c10d::ReduceOp(),
                  timeout_of(options.timeout)},
                 output.numel() == input.numel() * getSize());
}

WorkPtr WiresumBackend::allgather_coalesced(std::vector<Tensors> &outputs, Tensors &inputs,
                                            const c10d::AllgatherOptions &options) {
    const auto is_whole = [&inputs](const Tensors &of_rank) { return are_as_long(of_rank, inputs); };
    const bool is_even = outputs.size() == static_cast<size_t>(getSize()) &&
                         std::all_of(outputs.begin(), outputs.end(), is_whole);
    return enter({WIRESUM_ALL_GATHER, c10d::OpType::ALLGATHER_COALESCED, "all_gather_coalesced", inputs,
                  flattened(outputs), c10d::ReduceOp(), timeout_of(options.timeout)},
                 is_even);
}

WorkPtr WiresumBackend::all_gather_single_coalesced(Tensors &outputs, Tensors &inputs,
                                                    const c10d::AllgatherOptions &options) {
    Request request{
        WIRESUM_ALL_GATHER, c10d::OpType::ALLGATHER_COALESCED, "all_gather_single_coalesced", inputs, outputs,
        c10d::ReduceOp(),   timeout_of(options.timeout)};
    const bool can_be_cut = !do_share_memory(outputs);
    if (can_be_cut && !can_be_views(outputs)) {
        make_dense(request, true);
    }
    const auto shares = shares_of(request.outputs, inputs, getSize());
    if (can_be_cut && shares) {
        request.outputs = *shares;
        request.results = outputs;
    }
    return enter(std::move(request), shares.has_value());
}

WorkPtr WiresumBackend::gather(std::vector<Tensors> &outputs, Tensors &inputs,
                               const c10d::GatherOptions &options) {
    const bool is_root = options.rootRank == getRank();
    const Tensors shares = is_root ? flattened(outputs) : Tensors();
    const bool is_even = inputs.size() == 1 && (!is_root || are_shares(shares, inputs[0]));
    return enter({WIRESUM_GATHER, c10d::OpType::GATHER, "gather", inputs, shares, c10d::ReduceOp(),
                  timeout_of(options.timeout), static_cast<int>(options.rootRank)},
                 is_even && is_rank(options.rootRank));
}

WorkPtr WiresumBackend::gather_single(at::Tensor &output, at::Tensor &input,
                                      const c10d::GatherOptions &options) {
    const bool is_root = options.rootRank == getRank();
    const bool is_even = !is_root || output.numel() == input.numel() * getSize();
    return enter({WIRESUM_GATHER,
                  c10d::OpType::GATHER,
                  "gather_single",
                  {input},
                  is_root ? Tensors{output} : Tensors(),
                  c10d::ReduceOp(),
                  timeout_of(options.timeout),
                  static_cast<int>(options.rootRank)},
                 is_even && is_rank(options.rootRank));
}

// Every rank knows how long its own share is, and so how long the root's tensors are together.
WorkPtr WiresumBackend::scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                const c10d::ScatterOptions &options) {
    const bool has_one = outputs.size() == 1 && is_rank(options.rootRank);
    const bool is_root = options.rootRank == getRank();
    const Tensors own = has_one ? Tensors(getSize(), outputs[0]) : Tensors();
    const Tensors shares = is_root ? flattened(inputs) : own;
    return enter({WIRESUM_SCATTER, c10d::OpType::SCATTER, "scatter", shares, outputs, c10d::ReduceOp(),
                  timeout_of(options.timeout), static_cast<int>(options.rootRank)},
                 has_one && are_shares(shares, outputs[0]));
}

bool WiresumBackend::is_rank(int64_t root) const { return root >= 0 && root < getSize(); }

bool WiresumBackend::are_shares(const Tensors &tensors, const at::Tensor &share) const {
    return are_as_long(tensors, Tensors(getSize(), share));
}

WorkPtr WiresumBackend::enter(Request request, bool fits) {
    owner().check(request.collective);
    const Refusal refusal = refusal_of(request, fits, getRank());
    const bool takes = takes_part(request, getRank());
    if (refusal == Refusal::None) {
        if (request.inputs[0].is_cpu()) {
            make_dense(request, takes);
        }
        part_complex(request);
    }
    const Reason reason = decide_on(request, refusal != Refusal::Misfit);
    const bool is_in_network =
        reason == Reason::Summed || reason == Reason::Copied || reason == Reason::Shared;
    if (refusal == Refusal::None && is_in_network) {
        request.kind = reason == Reason::Shared ? share_kind(request.kind) : request.kind;
        return carry(std::move(request), reason == Reason::Shared);
    }
    if (refusal == Refusal::None && !request.inputs[0].is_cpu()) {
        make_dense(request, takes);
    }
    const Signature signature = signature_of(request, refusal, false);
    // Ranks that do not refuse are in the network then, and know the reason by its number.
    const Refusal told = is_in_network || refusal == Refusal::Misfit ? refusal : Refusal::None;
    return enter_gloo(std::move(request), {reason, signature, told});
}

WorkPtr WiresumBackend::enter_gloo(Request request, GlooCall call) {
    owner().check(request.collective);
    if (const GroupContext::Loss loss = group_->loss(); loss.is_final) {
        throw lost_in_gloo(request.collective, loss);
    }
    group_->check_gloo(request.collective);
    call.has_shares = largest_share_ >= static_cast<int64_t>(sizeof(Signature));
    request.flight_entry = record(request); // without the lock, as the stack is Python's
    std::lock_guard lock(order_);
    request.sequence = group_->progress->begin(request.collective);
    const auto work = c10::make_intrusive<GlooWork>(group_, std::move(request), std::move(call));
    last_in_gloo_ = c10::weak_intrusive_ptr<GlooWork>(work);
    submissions_->fill(submissions_->reserve(), work);
    return work;
}

// Gloo has all that was asked for before, as collectives take turns there.
void WiresumBackend::await_gloo() {
    c10::intrusive_ptr<GlooWork> last;
    {
        std::lock_guard lock(order_);
        last = last_in_gloo_ ? last_in_gloo_->lock() : nullptr;
    }
    if (last) {
        try {
            last->wait();
        } catch (const std::exception &) {
            // Whoever waits for it is told.
        }
    }
}

WorkPtr WiresumBackend::exchange(Request request, std::vector<int64_t> sent, std::vector<int64_t> received,
                                 bool fits) {
    const Refusal refusal = refusal_of(request, fits, getRank());
    if (refusal == Refusal::None) {
        make_dense(request, true);
    }
    const bool is_uneven =
        std::adjacent_find(sent.begin(), sent.end(), std::not_equal_to<>()) != sent.end() || sent != received;
    const Signature signature = signature_of(request, refusal, is_uneven);
    return enter_gloo(std::move(request), {Reason::Collective, signature, Refusal::None, false,
                                           std::move(sent), std::move(received)});
}

WorkPtr WiresumBackend::delegate_message(const Send &send, const char *what, const Tensors &tensors,
                                         bool is_received) {
    count_delegated(what, tensors);
    if (const GroupContext::Loss loss = group_->loss(); loss.is_final) {
        throw lost_in_gloo(what, loss);
    }
    Request request{WIRESUM_AGREEMENT, c10d::OpType::UNKNOWN, what, tensors, {}, c10d::ReduceOp(), {}};
    if (is_received) {
        request.outputs = tensors;
    }
    refuse_alone(request, refusal_of(request, tensors.size() == 1, getRank()));
    make_dense(request, is_received);
    Tensors bytes{bytes_of(request.inputs[0])};
    return c10::make_intrusive<DelegatedWork>(send(bytes), Reason::Collective, group_, std::move(request));
}

Reason WiresumBackend::decide_on(const Request &request, bool fits) const {
    const bool copies = is_copy(request.kind);
    if (!fits) {
        return copies && !ability().copies ? Reason::Collective : Reason::Layout;
    }
    if (request.kind == WIRESUM_GATHER || request.kind == WIRESUM_SCATTER) {
        // Who takes nothing decides as the root does. What is small is a share, also where streams could
        // carry it.
        const Tensors &outputs = request.outputs.empty() ? request.inputs : request.outputs;
        const Reason small = decide_share(Reason::Collective, request.inputs, outputs, nullptr, ability());
        return small == Reason::Shared ? small : decide_copy(request.inputs, outputs, ability());
    }
    Ability able = ability();
    able.exact_bytes = request.kind == WIRESUM_ALL_REDUCE ? exact_bytes_ : 0;
    const Reason reason = copies ? decide_copy(request.inputs, request.outputs, able)
                                 : decide(request.inputs, request.outputs, request.operation, able);
    const c10d::ReduceOp *operation = copies ? nullptr : &request.operation;
    return decide_share(reason, request.inputs, request.outputs, operation, able);
}

FlightEntry WiresumBackend::record(const Request &request) {
    return {ledger()->group(), getGroupDesc(),     kFirstRecordedGroup + ledger()->id,
            ++recorded_,       request.collective, request.inputs,
            request.outputs,   request.timeout};
}

WorkPtr WiresumBackend::carry(Request request, bool is_share) {
    owner().check(request.collective);
    request.flight_entry = record(request); // without the lock, as the stack is Python's
    const auto make = [group = group_, is_share](Request made) -> c10::intrusive_ptr<CarriedWork> {
        if (is_share) {
            return c10::make_intrusive<ShareWork>(group, std::move(made));
        }
        return c10::make_intrusive<NetworkWork>(group, std::move(made));
    };
    std::lock_guard lock(order_);
    if (!request.inputs.empty() && request.inputs[0].is_cuda()) {
        staging_->raise_failure();
        request.sequence = group_->progress->begin(request.collective);
        auto staged = c10::make_intrusive<StagedWork>(staging_, std::move(request), getRank(), make);
        StagedWork::start(staged, submissions_);
        return staged;
    }
    request.sequence = group_->progress->begin(request.collective);
    const auto work = make(std::move(request));
    submissions_->fill(submissions_->reserve(), work);
    return work;
}

WorkPtr WiresumBackend::sum_rows(Request request) {
    owner().check(request.collective);
    if (const auto remaining = group_->groups().remaining) {
        remaining->refuse("all_reduce of sparse tensors");
    }
    std::lock_guard lock(order_);
    if (!rows_) {
        rows_ = std::make_shared<RowChannel>(RowChannel{open_gloo_("rows"), ability(), submissions_});
        group_->add_gloo(rows_->gloo);
    }
    request.sequence = group_->progress->begin(request.collective);
    auto work = c10::make_intrusive<SparseWork>(group_, rows_, std::move(request));
    SparseWork::start(work);
    return work;
}

Ability WiresumBackend::ability() const {
    return network_
               ? Ability{true, network_->copies, network_->min_elements, network_->lane_bytes, largest_share_}
               : Ability{};
}

std::chrono::milliseconds WiresumBackend::timeout_of(std::chrono::milliseconds asked) const {
    return std::min(asked == c10d::kUnsetTimeout ? timeout_.load() : asked, kLongestTimeout);
}

// --- Through Gloo
// ----------------------------------------------------------------------------------------------------

void WiresumBackend::count_delegated(const char *collective, const Tensors &tensors) {
    owner().check(collective);
    RowKey key = row_of(collective, tensors, c10d::ReduceOp(), Reason::Collective);
    key.operation.clear();
    ledger()->count(key, size_of(tensors));
}

WorkPtr WiresumBackend::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) {
    Request request{WIRESUM_AGREEMENT, c10d::OpType::ALLREDUCE,    "all_reduce", tensors, tensors,
                    options.reduceOp,  timeout_of(options.timeout)};
    const Signature signature = signature_of(request, Refusal::None, false);
    return enter_gloo(std::move(request), {Reason::Layout,
                                           signature,
                                           Refusal::None,
                                           false,
                                           {},
                                           {},
                                           [tensors = tensors, options](c10d::Backend &gloo) mutable {
                                               (options.sparseIndices
                                                    ? gloo.allreduce_sparse(tensors, options)
                                                    : gloo.allreduce(tensors, options))
                                                   ->wait();
                                           }});
}

WorkPtr WiresumBackend::all_to_all_single(at::Tensor &output, at::Tensor &input,
                                          std::vector<int64_t> &output_sizes,
                                          std::vector<int64_t> &input_sizes,
                                          const c10d::AllToAllOptions &options) {
    Request request{WIRESUM_AGREEMENT, c10d::OpType::ALLTOALL_BASE, "all_to_all_single", {input}, {output},
                    c10d::ReduceOp(),  timeout_of(options.timeout)};
    const auto sent = split_elements(input, input_sizes, getSize());
    const auto received = split_elements(output, output_sizes, getSize());
    return exchange(std::move(request), sent.value_or(std::vector<int64_t>()),
                    received.value_or(std::vector<int64_t>()), sent && received);
}

WorkPtr WiresumBackend::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) {
    const auto ranks = static_cast<size_t>(getSize());
    return exchange({WIRESUM_AGREEMENT, c10d::OpType::ALLTOALL_BASE, "all_to_all", inputs, outputs,
                     c10d::ReduceOp(), timeout_of(options.timeout)},
                    lengths_of(inputs), lengths_of(outputs),
                    inputs.size() == ranks && outputs.size() == ranks);
}

WorkPtr WiresumBackend::send(Tensors &tensors, int destination, int tag) {
    return delegate_message([&](Tensors &bytes) { return inner()->send(bytes, destination, tag); }, "send",
                            tensors, false);
}

WorkPtr WiresumBackend::recv(Tensors &tensors, int source, int tag) {
    return delegate_message([&](Tensors &bytes) { return inner()->recv(bytes, source, tag); }, "recv",
                            tensors, true);
}

WorkPtr WiresumBackend::recvAnysource(Tensors &tensors, int tag) {
    return delegate_message([&](Tensors &bytes) { return inner()->recvAnysource(bytes, tag); }, "recv",
                            tensors, true);
}

WorkPtr WiresumBackend::barrier(const c10d::BarrierOptions &options) {
    Request request{WIRESUM_BARRIER,  c10d::OpType::BARRIER,      "barrier", {}, {},
                    c10d::ReduceOp(), timeout_of(options.timeout)};
    if (ability().largest_share >= 0) {
        return carry(std::move(request), true);
    }
    // Ranks that have each other's signatures have all come.
    const Signature signature = signature_of(request, Refusal::None, false);
    return enter_gloo(std::move(request),
                      {Reason::Collective, signature, Refusal::None, false, {}, {}, [](c10d::Backend &) {}});
}

void WiresumBackend::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) {
    constexpr const char *kName = "monitored_barrier";
    count_delegated(kName, {});
    await_gloo(); // whose order is that of all ranks
    const uint64_t number = group_->progress->begin(kName);
    try {
        inner()->monitoredBarrier(options, wait_all_ranks);
    } catch (...) {
        group_->progress->end(number, false);
        if (const GroupContext::Loss loss = group_->loss(); loss.is_final) {
            throw lost_in_gloo(kName, loss);
        }
        group_->note_broken_gloo();
        throw;
    }
    group_->progress->end(number, true);
}

// --- The group itself
// ------------------------------------------------------------------------------------------------

uint64_t WiresumBackend::getSequenceNumberForGroup() { return group_->progress->count().begun; }

void WiresumBackend::setTimeout(std::chrono::milliseconds timeout) {
    timeout_ = timeout;
    inner()->setTimeout(timeout);
    if (network_) {
        group_->groups().fallback->setTimeout(timeout);
        if (network_->afterwards) {
            network_->afterwards->setTimeout(timeout);
        }
    }
}

void WiresumBackend::setGroupUid(const std::string &name) {
    Backend::setGroupUid(name);
    inner()->setGroupUid(name);
    ledger()->set_group(name);
}

void WiresumBackend::abort() {
    owner().check("abort");
    close();
    inner()->abort();
}

void WiresumBackend::shutdown() {
    if (!owner().is_this_process()) {
        forget_groups();
        return;
    }
    if (group_->going_over) {
        group_->going_over->await(); // others may need what this rank has
    }
    await_gloo(); // as Gloo itself would
    close();
    inner()->shutdown();
}

void WiresumBackend::close() {
    if (is_closed_.exchange(true)) {
        return;
    }
    // A rank takes leave first: what `close` ends here has not ended well.
    group_->progress->close();
    if (network_) {
        submissions_->close();
    }
    if (close_) {
        close_();
    }
}

std::function<void()> WiresumBackend::leave() const {
    if (!group_->going_over) {
        return nullptr;
    }
    return [submissions = submissions_, over = group_->going_over] { submissions->leave(over); };
}

std::shared_ptr<Crossing> WiresumBackend::crossing() const {
    return group_->going_over
               ? std::make_shared<Crossing>(Crossing{submissions_, group_->going_over, group_, getRank(), {}})
               : nullptr;
}

std::function<void(const std::string &)> WiresumBackend::lose() const {
    return [group = group_](const std::string &why) { group->lose(why); };
}

c10::intrusive_ptr<c10d::Backend> WiresumBackend::split(const c10::intrusive_ptr<c10d::Store> &store,
                                                        const std::vector<int> &ranks,
                                                        const c10::intrusive_ptr<Options> &options) {
    owner().check("split");
    TORCH_CHECK(split_, "wiresum: this group cannot be split, as it was merged from others.");
    if (std::find(ranks.begin(), ranks.end(), getRank()) == ranks.end()) {
        return nullptr; // this rank is in none of the parts
    }
    return split_(store, {ranks.begin(), ranks.end()}, options->timeout, options->group_name);
}

c10::intrusive_ptr<c10d::Backend> WiresumBackend::merge(const c10::intrusive_ptr<c10d::Store> &store,
                                                        const c10::intrusive_ptr<Options> &options,
                                                        const int &rank, const int &size) {
    return c10::make_intrusive<WiresumBackend>(inner()->merge(store, options, rank, size), timeout_.load(),
                                               Watching{std::make_shared<Progress>(), {}, nullptr},
                                               std::nullopt, "it was merged from other groups", nullptr,
                                               nullptr, nullptr);
}

c10::intrusive_ptr<c10d::Backend> WiresumBackend::shrink(const std::vector<int64_t> &excluded, int /*flags*/,
                                                         const c10::intrusive_ptr<Options> & /*options*/) {
    TORCH_CHECK(remake_, "wiresum: this group cannot shrink, as it was merged from others.");
    abort();
    return remake_(excluded);
}

} // namespace wiresum
