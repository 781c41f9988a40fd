#include "work.h"

#include <optional>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

#include "eligibility.h"
#include "errors.h"

namespace wiresum {

namespace {

// Whether each tensor's memory begins where that of the one before ends, in one allocation.
bool are_adjacent(const std::vector<at::Tensor> &tensors) {
    const char *end = nullptr;
    for (const at::Tensor &tensor : tensors) {
        const auto *start = static_cast<const char *>(tensor.const_data_ptr());
        if (!tensor.is_contiguous() || !tensor.is_alias_of(tensors[0]) || (end != nullptr && start != end)) {
            return false;
        }
        end = start + tensor.nbytes();
    }
    return true;
}

// All of them as one tensor, where they are adjacent.
at::Tensor joined(const std::vector<at::Tensor> &tensors) {
    return tensors[0].detach().as_strided({static_cast<int64_t>(size_of(tensors).elements)}, {1});
}

} // namespace

at::Tensor contiguous_values(const std::vector<at::Tensor> &tensors) {
    at::NoGradGuard no_grad;
    if (tensors.size() == 1) {
        return tensors[0].contiguous();
    }
    if (are_adjacent(tensors)) {
        return joined(tensors);
    }
    std::vector<at::Tensor> flat;
    flat.reserve(tensors.size());
    for (const at::Tensor &tensor : tensors) {
        flat.push_back(tensor.reshape(-1));
    }
    return at::cat(flat);
}

const char *title_of(wiresum_kind kind) {
    switch (kind) {
    case WIRESUM_REDUCE:
        return "wiresum:reduce";
    case WIRESUM_REDUCE_SCATTER:
        return "wiresum:reduce_scatter";
    case WIRESUM_ALL_GATHER:
        return "wiresum:all_gather";
    case WIRESUM_BROADCAST:
        return "wiresum:broadcast";
    case WIRESUM_BARRIER:
        return "wiresum:barrier";
    case WIRESUM_GATHER:
    case WIRESUM_SMALL_GATHER:
        return "wiresum:gather";
    case WIRESUM_SCATTER:
    case WIRESUM_SMALL_SCATTER:
        return "wiresum:scatter";
    default:
        return "wiresum:all_reduce";
    }
}

bool takes_part(const Request &request, int rank) {
    switch (request.kind) {
    case WIRESUM_REDUCE:
    case WIRESUM_GATHER:
    case WIRESUM_SMALL_GATHER:
        return request.root == rank;
    case WIRESUM_BROADCAST:
        return request.root != rank;
    default:
        return true;
    }
}

bool gives_part(const Request &request, int rank) {
    return request.kind != WIRESUM_SCATTER || request.root == rank;
}

namespace {

// What a rank gives that gives nothing: as many elements as the root has, none of which is anywhere.
at::Tensor nothing_like(const std::vector<at::Tensor> &tensors) {
    const auto elements = static_cast<int64_t>(size_of(tensors).elements);
    return at::empty({1}, tensors[0].options()).expand({elements});
}

// Whether two contiguous tensors have a byte in common.
bool overlap(const at::Tensor &a, const at::Tensor &b) {
    const auto *a_start = static_cast<const char *>(a.const_data_ptr());
    const auto *b_start = static_cast<const char *>(b.const_data_ptr());
    return a_start < b_start + b.nbytes() && b_start < a_start + a.nbytes();
}

// Where results go: the user's memory where it is one contiguous tensor already.
at::Tensor contiguous_results(const std::vector<at::Tensor> &outputs) {
    if (outputs.size() == 1 && outputs[0].is_contiguous()) {
        return outputs[0].detach();
    }
    if (outputs.size() > 1 && are_adjacent(outputs)) {
        return joined(outputs);
    }
    return at::empty({static_cast<int64_t>(size_of(outputs).elements)}, outputs[0].options());
}

// Why Gloo has to do what the network left untouched on every rank; nothing where it did not.
std::optional<Reason> reason_to_do_again(int32_t outcome) {
    switch (outcome) {
    case WIRESUM_NOT_FINITE:
        return Reason::NotFinite;
    case WIRESUM_UNFORESEEN:
        return Reason::Unforeseen;
    case WIRESUM_NOT_SERVED:
        return Reason::NotServed;
    default:
        return std::nullopt;
    }
}

// Whether what numbers of 8 bits leave is written anywhere.
bool keeps(const Request &request) { return request.eight_bits && request.eight_bits->kept.defined(); }

// How a collective has ended that has ended in the network on all ranks alike; nothing after an error.
std::optional<Reason> reason_of(int32_t outcome) {
    const bool is_summed = outcome == WIRESUM_OK || outcome == WIRESUM_MISSED;
    return is_summed ? std::optional(Reason::Summed) : reason_to_do_again(outcome);
}

} // namespace

NetworkWork::NetworkWork(std::shared_ptr<GroupContext> group, Request request)
    : CarriedWork(std::move(group), std::move(request), title_of(request.kind)),
      takes_(takes_part(request_, group_->ledger->rank)), gives_(gives_part(request_, group_->ledger->rank)),
      source_(gives_ ? contiguous_values(request_.inputs) : nothing_like(request_.inputs)), sink_(source_) {
    if (request_.kind == WIRESUM_ALL_GATHER || (request_.kind == WIRESUM_GATHER && takes_)) {
        keep_own_share();
    }
    if (request_.kind == WIRESUM_SCATTER) {
        keep_own_part();
    }
    at::NoGradGuard no_grad;
    if (request_.kind == WIRESUM_REDUCE_SCATTER) {
        sink_ = contiguous_results(request_.outputs);
        const auto *part =
            static_cast<const char *>(source_.const_data_ptr()) + group_->ledger->rank * sink_.nbytes();
        if (overlap(source_, sink_) && sink_.const_data_ptr() != part) {
            source_ = source_.clone();
        }
    }
    if (group_->going_over) {
        set_apart();
    }
}

// The engine copies what this rank gives while it sends it.
void NetworkWork::set_apart() {
    if (!gives_) {
        kept_ = group_->going_over->keep(0);
        return;
    }
    auto [apart, lease] = group_->going_over->lend_like(source_);
    aside_ = std::move(apart);
    kept_ = std::move(lease);
}

bool NetworkWork::has_results_aside() const {
    return request_.kind == WIRESUM_ALL_REDUCE && aside_.defined();
}

// The network brings the shares of the others; this rank's is put in its place here.
void NetworkWork::keep_own_share() {
    at::NoGradGuard no_grad;
    sink_ = contiguous_results(request_.outputs);
    const int64_t length = source_.numel();
    at::Tensor own = sink_.view(-1).narrow(0, group_->ledger->rank * length, length);
    if (source_.const_data_ptr() == own.const_data_ptr()) {
        return;
    }
    if (overlap(source_, sink_)) {
        source_ = source_.clone();
    }
    own.copy_(source_.view(-1));
}

// The network brings its part to each rank but the root, which takes its own here.
void NetworkWork::keep_own_part() {
    at::NoGradGuard no_grad;
    sink_ = contiguous_results(request_.outputs);
    if (!gives_) {
        return;
    }
    if (overlap(source_, sink_)) {
        source_ = source_.clone();
    }
    const int64_t length = sink_.numel();
    sink_.view(-1).copy_(source_.view(-1).narrow(0, group_->ledger->rank * length, length));
}

void NetworkWork::submit(const wiresum_engine_abi *engine, const std::string &why_closed) {
    const auto work = c10::intrusive_ptr<NetworkWork>::reclaim_copy(this);
    give_up_after(request_.timeout + kEngineGrace);
    const auto remaining = group_->groups().remaining;
    if (remaining && !remaining->allows(request_.kind, request_.root)) {
        // On all ranks alike, so the engine numbers all others as they do.
        conclude(Reason::Failed, refusal(*remaining));
        return;
    }
    if (group_->going_over) {
        group_->going_over->note_begun(kept_ != nullptr);
    }
    // The reference that `done` takes back.
    auto reference = std::make_unique<c10::intrusive_ptr<NetworkWork>>(work);
    const wiresum_kind kind = request_.kind;
    const wiresum_collective collective{
        .kind = static_cast<uint32_t>(kind),
        .root = static_cast<uint32_t>(request_.root),
        .source = source_.const_data_ptr(),
        .sink = sink_.mutable_data_ptr(),
        .elements = static_cast<uint64_t>(is_copy(kind) ? source_.nbytes() : source_.numel()),
        .element_type = static_cast<uint32_t>(element_type_of(source_.scalar_type())),
        .operation = static_cast<uint32_t>(operation_of(request_.operation)),
        .timeout_us = static_cast<uint64_t>(std::chrono::microseconds(request_.timeout).count()),
        .bits = request_.eight_bits ? 8u : 0u,
        .seed = request_.eight_bits ? request_.eight_bits->seed : 0,
        .kept = keeps(request_) ? request_.eight_bits->kept.mutable_data_ptr<float>() : nullptr,
        .aside = aside_.defined() ? aside_.mutable_data_ptr() : nullptr,
        .done = &NetworkWork::done,
        .context = reference.get(),
    };
    if (engine != nullptr && has_results_aside()) {
        tail_ = Tail(*engine, collective);
    }
    if (engine != nullptr && engine->submit(engine->engine, &collective) == 0) {
        reference.release();
        return;
    }
    TaskPool::instance().post([work, why_closed] {
        work->complete(WIRESUM_FAILED, why_closed.empty() ? kEngineIsClosed : why_closed);
    });
}

void NetworkWork::leave(const std::string &why) {
    const auto work = c10::intrusive_ptr<NetworkWork>::reclaim_copy(this);
    give_up_after(request_.timeout + kEngineGrace);
    group_->going_over->leave([work, why](uint64_t number) { work->go_over(number, why); });
}

// On the engine's thread: hands over to the pool and returns.
void NetworkWork::done(void *context, int32_t outcome, const char *message) {
    std::unique_ptr<c10::intrusive_ptr<NetworkWork>> reference(
        static_cast<c10::intrusive_ptr<NetworkWork> *>(context));
    c10::intrusive_ptr<NetworkWork> work = std::move(*reference);
    const std::shared_ptr<GoingOver> over = work->group_->going_over;
    if (over && outcome == WIRESUM_NOT_SERVED) {
        work->leave(message != nullptr ? message : "");
        return;
    }
    if (over && reason_of(outcome)) {
        over->note(work->ended(*reason_of(outcome)));
    }
    if (const std::optional<Reason> spared = reason_to_do_again(outcome)) {
        Strand &order = *work->group_->fallback_order;
        order.post([work = std::move(work), reason = *spared] { work->do_again(reason); });
        return;
    }
    const bool known = (outcome >= WIRESUM_OK && outcome <= WIRESUM_FAILED) || outcome == WIRESUM_MISSED ||
                       outcome == WIRESUM_WORKER_LOST;
    TaskPool::instance().post([work = std::move(work), text = std::string(message != nullptr ? message : ""),
                               code = known ? static_cast<wiresum_outcome>(outcome) : WIRESUM_FAILED] {
        work->complete(code, text);
    });
}

void NetworkWork::complete(wiresum_outcome outcome, const std::string &message) {
    if (outcome == WIRESUM_OK || outcome == WIRESUM_MISSED) {
        const Reason whole = is_copy(request_.kind) ? Reason::Copied : Reason::Summed;
        if (outcome == WIRESUM_MISSED) {
            keep_nothing();
        }
        succeed(outcome == WIRESUM_OK ? whole : Reason::Missed);
        return;
    }
    // Where no node watches ranks, the engine was stopped when one was lost.
    const GroupContext::Loss loss = group_->loss();
    const bool is_of_loss = loss.is_final && outcome == WIRESUM_FAILED;
    const wiresum_outcome kind = is_of_loss ? WIRESUM_WORKER_LOST : outcome;
    const std::string &why = is_of_loss ? loss.text : message;
    fail(std::make_exception_ptr(CollectiveError(kind, c10::str(describe(), ": ", why, ". ", remedy(kind)))));
}

// The same by Gloo, into the sink.
void NetworkWork::do_by(c10d::Backend &gloo) {
    if (is_copy(request_.kind)) {
        copy_by_gloo(gloo, request_.kind, request_.root, source_, sink_, request_.timeout);
    } else {
        sum_by_gloo(gloo, request_.kind, request_.root, request_.operation, source_, scratch(),
                    request_.timeout);
        take_from_aside();
    }
    keep_nothing();
}

// All results are aside.
void NetworkWork::take_from_aside() {
    if (has_results_aside()) {
        at::NoGradGuard no_grad;
        sink_.copy_(aside_);
    }
}

// Another rank has all results, and this one those that are aside.
void NetworkWork::receive_tail(GoingOver &over) {
    at::Tensor tail = at::empty({tail_.elements()}, sink_.options());
    over.receive(tail, request_.timeout);
    tail_.scatter(tail, aside_);
    take_from_aside();
}

void NetworkWork::keep_nothing() {
    if (keeps(request_)) {
        at::NoGradGuard no_grad;
        at::Tensor(request_.eight_bits->kept).zero_();
    }
}

// Gloo's sum keeps Inf and NaN where they belong. The tensors are untouched so far.
void NetworkWork::do_again(Reason reason) {
    give_up_after(request_.timeout + kEngineGrace);
    std::exception_ptr error;
    try {
        do_by(*group_->groups().fallback);
    } catch (...) {
        error = std::current_exception();
    }
    conclude(reason, error);
}

void NetworkWork::go_over(uint64_t number, const std::string &why) {
    give_up_after(request_.timeout + kEngineGrace);
    GoingOver &over = *group_->going_over;
    std::exception_ptr error;
    Reason reason = Reason::NotServed;
    try {
        const Reason fate = over.fate(number);
        if (fate == Reason::NotFinite || fate == Reason::Unforeseen) {
            group_->fallback_order->post(
                [self = c10::intrusive_ptr<NetworkWork>::reclaim_copy(this), fate] { self->do_again(fate); });
            return;
        }
        if (fate == Reason::Summed && request_.kind == WIRESUM_ALL_REDUCE) {
            receive_tail(over);
            reason = Reason::Summed;
        } else {
            do_by(over.gloo());
        }
    } catch (const std::exception &trouble) {
        error = not_gone_over(why, trouble);
    }
    conclude(reason, error);
}

Ended NetworkWork::ended(Reason reason) const {
    Ended ended{request_.kind, request_.root, request_.operation, reason, aside_.defined() ? aside_ : source_,
                kept_};
    if (request_.kind == WIRESUM_ALL_REDUCE && kept_) {
        const int64_t elements = reason == Reason::Summed ? tail_.elements() : 0;
        auto [tail, lease] = group_->going_over->lend_like(source_.view(-1).narrow(0, 0, elements));
        if (lease && elements > 0) {
            tail_.gather(sink_, tail);
        }
        ended.values = std::move(tail);
        ended.kept = std::move(lease);
    }
    return ended;
}

// Where Gloo may sum, so that what fails leaves the values: a rank that takes nothing has no sink.
at::Tensor &NetworkWork::scratch() {
    if (has_results_aside()) {
        return aside_;
    }
    if (!takes_) {
        sink_ = at::empty_like(source_);
    }
    return sink_;
}

void NetworkWork::conclude(Reason reason, std::exception_ptr error) {
    TaskPool::instance().post([self = c10::intrusive_ptr<NetworkWork>::reclaim_copy(this), error, reason] {
        error ? self->fail(error) : self->succeed(reason);
    });
}

void NetworkWork::succeed(Reason reason) {
    try {
        copy_back();
    } catch (...) {
        fail(std::current_exception());
        return;
    }
    settle(reason, nullptr);
}

void NetworkWork::release() {
    source_.reset();
    sink_.reset();
    aside_.reset();
    kept_.reset();
}

void NetworkWork::copy_back() {
    if (!takes_) {
        return;
    }
    at::NoGradGuard no_grad;
    int64_t offset = 0;
    for (const at::Tensor &tensor : request_.outputs) {
        if (tensor.is_alias_of(sink_)) {
            return;
        }
        tensor.detach().copy_(sink_.reshape(-1).narrow(0, offset, tensor.numel()).view(tensor.sizes()));
        offset += tensor.numel();
    }
}

DelegatedWork::DelegatedWork(c10::intrusive_ptr<Work> inner, Reason reason,
                             std::shared_ptr<const GroupContext> group, const char *collective)
    : ExplainedWork(-1, inner->retrieveOpType()), inner_(std::move(inner)), reason_(reason),
      group_(std::move(group)), collective_(collective), losses_before_(group_->loss().count) {}

bool DelegatedWork::wait(std::chrono::milliseconds timeout) {
    try {
        return inner_->wait(timeout);
    } catch (const std::exception &trouble) {
        // Gloo says where an error comes from: of a connection it may have known before the servers miss the
        // rank.
        const bool is_of_a_connection =
            std::string(trouble.what()).find("gloo/transport/") != std::string::npos;
        if (const auto loss = group_->loss_since(losses_before_, is_of_a_connection)) {
            throw lost_in_gloo(collective_, *loss);
        }
        throw;
    }
}

CollectiveError lost_in_gloo(const char *collective, const GroupContext::Loss &loss) {
    return {WIRESUM_WORKER_LOST, c10::str(collective, " through Gloo: ", loss.text)};
}

} // namespace wiresum
