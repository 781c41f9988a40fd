#include "backend.h"

#include "share_work.h"

#include <algorithm>

#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>

namespace wiresum {

namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;

// Bytes of collectives that have ended, besides the last one: ranks are apart by one window of packets at
// most. What is under way needs the room more.
constexpr uint64_t kEndedBytes = 64 << 20;

ReplayMemory memory_of(const Network &network) {
    const auto bytes = network.replay_bytes;
    return bytes ? ReplayMemory(*bytes, std::min(*bytes / 2, kEndedBytes), "WIRESUM_REPLAY")
                 : ReplayMemory(INT64_MAX, kEndedBytes, "");
}

std::shared_ptr<GroupContext> context_for(c10::intrusive_ptr<c10d::Backend> inner,
                                          const std::optional<Network> &network, std::string no_network) {
    auto group = std::make_shared<GroupContext>();
    group->ledger = Ledger::open(inner->getRank(), inner->getSize(), std::move(no_network));
    group->set_groups({std::move(inner), network ? network->fallback : nullptr, nullptr});
    if (network && network->afterwards) {
        group->going_over = std::make_shared<GoingOver>(network->afterwards, memory_of(*network));
        group->loss_known_after = network->loss_known_after;
    }
    return group;
}

// Behind turns a share would wait for its turn.
int64_t share_limit(const std::optional<Network> &network) {
    const bool is_in_turns = network && network->afterwards && !network->replay_bytes;
    return network && !is_in_turns ? network->engine->largest_share : -1;
}

// In a group of Gloo's own, which is made when the ranks first need it.
Submissions::Agree agreeing_by(const WiresumBackend::OpenGloo &open_gloo) {
    if (!open_gloo) {
        return nullptr;
    }
    return [open_gloo, gloo = c10::intrusive_ptr<c10d::Backend>()](uint64_t own) mutable {
        gloo = open_gloo("callbacks");
        Tensors numbers{at::tensor(static_cast<int64_t>(own))};
        c10d::AllreduceOptions options;
        options.reduceOp = c10d::ReduceOp(c10d::ReduceOp::MAX);
        gloo->allreduce(numbers, options)->wait();
        return static_cast<uint64_t>(numbers[0].item<int64_t>());
    };
}

Tensors flattened(const std::vector<Tensors> &lists) {
    Tensors all;
    for (const Tensors &list : lists) {
        all.insert(all.end(), list.begin(), list.end());
    }
    return all;
}

// The shares of several tensors, all of rank 0 first; none if a tensor has not as many elements as its share
// has on all ranks together.
std::optional<Tensors> shares_of(const Tensors &wholes, const Tensors &shares, int ranks) {
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
bool are_contiguous(const Tensors &tensors) {
    return std::all_of(tensors.begin(), tensors.end(),
                       [](const at::Tensor &t) { return t.layout() == at::kStrided && t.is_contiguous(); });
}

bool are_as_long(const Tensors &tensors, const Tensors &others) {
    return std::equal(
        tensors.begin(), tensors.end(), others.begin(), others.end(),
        [](const at::Tensor &one, const at::Tensor &other) { return one.numel() == other.numel(); });
}

} // namespace

WiresumBackend::WiresumBackend(c10::intrusive_ptr<c10d::Backend> inner, std::chrono::milliseconds timeout,
                               std::optional<Network> network, std::string no_network, OpenGloo open_gloo,
                               Remake remake, Split split)
    : Backend(inner->getRank(), inner->getSize()), network_(std::move(network)),
      open_gloo_(std::move(open_gloo)), remake_(std::move(remake)), split_(std::move(split)),
      largest_share_(share_limit(network_)), packs_(network_ && network_->engine->packs != 0),
      exact_bytes_(network_ ? network_->engine->exact_bytes : 0),
      group_(context_for(std::move(inner), network_, std::move(no_network))), timeout_(timeout),
      submissions_(
          std::make_shared<Submissions>(network_ ? network_->engine : nullptr, agreeing_by(open_gloo_))) {
    group_->submissions = submissions_;
    TaskPool::instance();
    init();
}

WiresumBackend::~WiresumBackend() { close(); }

// --- Without ranks that are lost
// -------------------------------------------------------------------------------------

void Crossing::go_on_without(std::shared_ptr<const Remaining> remaining,
                             c10::intrusive_ptr<c10d::Backend> inner,
                             c10::intrusive_ptr<c10d::Backend> fallback,
                             c10::intrusive_ptr<c10d::Backend> afterwards) {
    const auto of = [&](c10::intrusive_ptr<c10d::Backend> members) -> c10::intrusive_ptr<c10d::Backend> {
        return c10::make_intrusive<RemainingGloo>(std::move(members), remaining, rank);
    };
    going_over->go_on_without(of(std::move(afterwards)));
    next = GroupContext::Groups{of(std::move(inner)), of(std::move(fallback)), remaining};
}

// What Gloo had of the user's waits for who is lost, so it ends now.
void Crossing::leave() {
    if (next) {
        const GroupContext::Groups before = group->groups();
        group->note_loss(next->remaining->lost, false);
        group->set_groups(std::move(*next));
        next.reset();
        before.inner->abort();
    }
    submissions->leave(going_over);
}

void Crossing::lose(const std::string &why) const { group->lose(why); }

// --- Through the network
// ---------------------------------------------------------------------------------------------

WorkPtr WiresumBackend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
    // Several tensors in one all-reduce are several devices' shares of one: Gloo's business.
    const bool is_one = tensors.size() == 1 && !options.sparseIndices;
    Request request{WIRESUM_ALL_REDUCE, c10d::OpType::ALLREDUCE,    "all_reduce", tensors, tensors,
                    options.reduceOp,   timeout_of(options.timeout)};
    if (open_gloo_ && is_one && has_rows(tensors[0], options.reduceOp)) {
        return sum_rows(std::move(request));
    }
    return carry_or([&] { return inner()->allreduce(tensors, options); }, std::move(request), is_one);
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
    const auto by_gloo = [&] {
        c10d::AllreduceOptions options;
        options.reduceOp = operation;
        options.timeout = timeout;
        return inner()->allreduce(tensors, options);
    };
    return carry_or(by_gloo, std::move(request), true);
}

WorkPtr WiresumBackend::allreduce_coalesced(Tensors &tensors,
                                            const c10d::AllreduceCoalescedOptions &options) {
    return carry_or([&] { return inner()->allreduce_coalesced(tensors, options); },
                    {WIRESUM_ALL_REDUCE, c10d::OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", tensors,
                     tensors, options.reduceOp, timeout_of(options.timeout)},
                    true);
}

WorkPtr WiresumBackend::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
    return carry_or([&] { return inner()->reduce(tensors, options); },
                    {WIRESUM_REDUCE, c10d::OpType::REDUCE, "reduce", tensors, tensors, options.reduceOp,
                     timeout_of(options.timeout), static_cast<int>(options.rootRank)},
                    tensors.size() == 1 && is_rank(options.rootRank));
}

WorkPtr WiresumBackend::reduce_scatter(Tensors &outputs, std::vector<Tensors> &inputs,
                                       const c10d::ReduceScatterOptions &options) {
    const Tensors pieces = flattened(inputs);
    const bool is_even = outputs.size() == 1 && are_shares(pieces, outputs[0]);
    return carry_or([&] { return inner()->reduce_scatter(outputs, inputs, options); },
                    {WIRESUM_REDUCE_SCATTER, c10d::OpType::REDUCE_SCATTER, "reduce_scatter", pieces, outputs,
                     options.reduceOp, timeout_of(options.timeout)},
                    is_even);
}

WorkPtr WiresumBackend::reduce_scatter_single(at::Tensor &output, at::Tensor &input,
                                              const c10d::ReduceScatterOptions &options) {
    return carry_or([&] { return inner()->reduce_scatter_single(output, input, options); },
                    {WIRESUM_REDUCE_SCATTER,
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
    return carry_or([&] { return inner()->reduce_scatter_single_coalesced(outputs, inputs, options); },
                    {WIRESUM_REDUCE_SCATTER, c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED,
                     "reduce_scatter_single_coalesced", shares.value_or(inputs), outputs, options.reduceOp,
                     timeout_of(options.timeout)},
                    shares.has_value());
}

WorkPtr WiresumBackend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
    return carry_or([&] { return inner()->broadcast(tensors, options); },
                    {WIRESUM_BROADCAST, c10d::OpType::BROADCAST, "broadcast", tensors, tensors,
                     c10d::ReduceOp(), timeout_of(options.timeout), static_cast<int>(options.rootRank)},
                    tensors.size() == 1 && is_rank(options.rootRank));
}

WorkPtr WiresumBackend::allgather(std::vector<Tensors> &outputs, Tensors &inputs,
                                  const c10d::AllgatherOptions &options) {
    const Tensors shares = flattened(outputs);
    const bool is_even = inputs.size() == 1 && are_shares(shares, inputs[0]);
    return carry_or([&] { return inner()->allgather(outputs, inputs, options); },
                    {WIRESUM_ALL_GATHER, c10d::OpType::ALLGATHER, "all_gather", inputs, shares,
                     c10d::ReduceOp(), timeout_of(options.timeout)},
                    is_even);
}

WorkPtr WiresumBackend::all_gather_single(at::Tensor &output, at::Tensor &input,
                                          const c10d::AllgatherOptions &options) {
    return carry_or([&] { return inner()->all_gather_single(output, input, options); },
                    {WIRESUM_ALL_GATHER,
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
    return carry_or([&] { return inner()->allgather_coalesced(outputs, inputs, options); },
                    {WIRESUM_ALL_GATHER, c10d::OpType::ALLGATHER_COALESCED, "all_gather_coalesced", inputs,
                     flattened(outputs), c10d::ReduceOp(), timeout_of(options.timeout)},
                    is_even);
}

WorkPtr WiresumBackend::all_gather_single_coalesced(Tensors &outputs, Tensors &inputs,
                                                    const c10d::AllgatherOptions &options) {
    const auto shares = are_contiguous(outputs) ? shares_of(outputs, inputs, getSize()) : std::nullopt;
    return carry_or([&] { return inner()->all_gather_single_coalesced(outputs, inputs, options); },
                    {WIRESUM_ALL_GATHER, c10d::OpType::ALLGATHER_COALESCED, "all_gather_single_coalesced",
                     inputs, shares.value_or(outputs), c10d::ReduceOp(), timeout_of(options.timeout)},
                    shares.has_value());
}

WorkPtr WiresumBackend::gather(std::vector<Tensors> &outputs, Tensors &inputs,
                               const c10d::GatherOptions &options) {
    const bool is_root = options.rootRank == getRank();
    const Tensors shares = is_root ? flattened(outputs) : Tensors();
    const bool is_even = inputs.size() == 1 && (!is_root || are_shares(shares, inputs[0]));
    return carry_or([&] { return inner()->gather(outputs, inputs, options); },
                    {WIRESUM_GATHER, c10d::OpType::GATHER, "gather", inputs, shares, c10d::ReduceOp(),
                     timeout_of(options.timeout), static_cast<int>(options.rootRank)},
                    is_even && is_rank(options.rootRank));
}

WorkPtr WiresumBackend::gather_single(at::Tensor &output, at::Tensor &input,
                                      const c10d::GatherOptions &options) {
    const bool is_root = options.rootRank == getRank();
    const bool is_even = !is_root || output.numel() == input.numel() * getSize();
    return carry_or([&] { return inner()->gather_single(output, input, options); },
                    {WIRESUM_GATHER,
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
    return carry_or([&] { return inner()->scatter(outputs, inputs, options); },
                    {WIRESUM_SCATTER, c10d::OpType::SCATTER, "scatter", shares, outputs, c10d::ReduceOp(),
                     timeout_of(options.timeout), static_cast<int>(options.rootRank)},
                    has_one && are_shares(shares, outputs[0]));
}

bool WiresumBackend::is_rank(int64_t root) const { return root >= 0 && root < getSize(); }

bool WiresumBackend::are_shares(const Tensors &tensors, const at::Tensor &share) const {
    return are_as_long(tensors, Tensors(getSize(), share));
}

WorkPtr WiresumBackend::carry_or(const Delegate &to_gloo, Request request, bool is_ours) {
    const Reason reason = decide_on(request, is_ours);
    if (reason == Reason::Summed || reason == Reason::Copied) {
        return carry(std::move(request), false);
    }
    if (reason == Reason::Shared) {
        request.kind = share_kind(request.kind);
        return carry(std::move(request), true);
    }
    ledger()->count(row_of(request, reason), size_of(request.inputs));
    return delegate(to_gloo, request.collective, reason);
}

WorkPtr WiresumBackend::delegate(const Delegate &to_gloo, const char *collective, Reason reason) {
    if (const GroupContext::Loss loss = group_->loss(); loss.is_final) {
        throw lost_in_gloo(collective, loss);
    }
    return c10::make_intrusive<DelegatedWork>(in_turn(to_gloo), reason, group_, collective);
}

WorkPtr WiresumBackend::in_turn(const Delegate &to_gloo) {
    const TurnPtr turn = submissions_->await_turn(timeout_);
    const auto passed = c10::make_scope_exit([&] { submissions_->pass(turn); });
    return to_gloo();
}

WorkPtr WiresumBackend::delegate_message(const Delegate &to_gloo, const char *what, const Tensors &tensors) {
    count_delegated(what, tensors);
    if (const GroupContext::Loss loss = group_->loss(); loss.is_final) {
        throw lost_in_gloo(what, loss);
    }
    return c10::make_intrusive<DelegatedWork>(to_gloo(), Reason::Collective, group_, what);
}

WorkPtr WiresumBackend::count_and_delegate(const Delegate &to_gloo, const char *collective,
                                           const Tensors &tensors) {
    count_delegated(collective, tensors);
    return delegate(to_gloo, collective, Reason::Collective);
}

Reason WiresumBackend::decide_on(const Request &request, bool is_ours) const {
    const bool copies = is_copy(request.kind);
    if (!is_ours) {
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

WorkPtr WiresumBackend::carry(Request request, bool is_share) {
    const auto make = [group = group_, is_share](Request made) -> c10::intrusive_ptr<CarriedWork> {
        if (is_share) {
            return c10::make_intrusive<ShareWork>(group, std::move(made));
        }
        return c10::make_intrusive<NetworkWork>(group, std::move(made));
    };
    std::lock_guard lock(order_);
    if (!request.inputs.empty() && request.inputs[0].is_cuda()) {
        staging_->raise_failure();
        request.sequence = asked_++;
        auto staged = c10::make_intrusive<StagedWork>(staging_, std::move(request), getRank(), make);
        StagedWork::start(staged, submissions_);
        return staged;
    }
    request.sequence = asked_++;
    const auto work = make(std::move(request));
    submissions_->fill(submissions_->reserve(), work);
    return work;
}

WorkPtr WiresumBackend::sum_rows(Request request) {
    if (const auto remaining = group_->groups().remaining) {
        remaining->refuse("all_reduce of sparse tensors");
    }
    std::lock_guard lock(order_);
    if (!rows_) {
        rows_ = std::make_shared<RowChannel>(RowChannel{open_gloo_("rows"), ability(), submissions_});
    }
    request.sequence = asked_++;
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
    RowKey key = row_of(collective, tensors, c10d::ReduceOp(), Reason::Collective);
    key.operation.clear();
    ledger()->count(key, size_of(tensors));
}

WorkPtr WiresumBackend::allreduce_sparse(Tensors &tensors, const c10d::AllreduceOptions &options) {
    ledger()->count(row_of("all_reduce", tensors, options.reduceOp, Reason::Layout), size_of(tensors));
    return delegate([&] { return inner()->allreduce_sparse(tensors, options); }, "all_reduce",
                    Reason::Layout);
}

WorkPtr WiresumBackend::all_to_all_single(at::Tensor &output, at::Tensor &input,
                                          std::vector<int64_t> &output_sizes,
                                          std::vector<int64_t> &input_sizes,
                                          const c10d::AllToAllOptions &options) {
    return count_and_delegate(
        [&] { return inner()->all_to_all_single(output, input, output_sizes, input_sizes, options); },
        "all_to_all_single", {input});
}

WorkPtr WiresumBackend::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) {
    return count_and_delegate([&] { return inner()->alltoall(outputs, inputs, options); }, "all_to_all",
                              inputs);
}

WorkPtr WiresumBackend::send(Tensors &tensors, int destination, int tag) {
    return delegate_message([&] { return inner()->send(tensors, destination, tag); }, "send", tensors);
}

WorkPtr WiresumBackend::recv(Tensors &tensors, int source, int tag) {
    return delegate_message([&] { return inner()->recv(tensors, source, tag); }, "recv", tensors);
}

WorkPtr WiresumBackend::recvAnysource(Tensors &tensors, int tag) {
    return delegate_message([&] { return inner()->recvAnysource(tensors, tag); }, "recv", tensors);
}

WorkPtr WiresumBackend::barrier(const c10d::BarrierOptions &options) {
    if (ability().largest_share >= 0) {
        return carry({WIRESUM_BARRIER,
                      c10d::OpType::BARRIER,
                      "barrier",
                      {},
                      {},
                      c10d::ReduceOp(),
                      timeout_of(options.timeout)},
                     true);
    }
    return count_and_delegate([&] { return inner()->barrier(options); }, "barrier", {});
}

void WiresumBackend::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) {
    count_delegated("monitored_barrier", {});
    inner()->monitoredBarrier(options, wait_all_ranks);
}

// --- The group itself
// ------------------------------------------------------------------------------------------------

uint64_t WiresumBackend::getSequenceNumberForGroup() { return asked_ + inner()->getSequenceNumberForGroup(); }

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
    close();
    inner()->abort();
}

void WiresumBackend::shutdown() {
    if (group_->going_over) {
        group_->going_over->await(); // others may need what this rank has
    }
    close();
    inner()->shutdown();
}

void WiresumBackend::close() {
    if (!network_ || is_closed_.exchange(true)) {
        return;
    }
    submissions_->close();
    network_->close();
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
