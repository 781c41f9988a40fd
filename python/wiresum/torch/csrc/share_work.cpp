#include "share_work.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "agreement.h"
#include "errors.h"
#include "rank_order.h"
#include "work.h"

namespace wiresum {

namespace {

// Types and operations travel in four bits each; the type of what is not reduced in all of them.
constexpr uint32_t kTags = 16;

uint32_t type_of(const Request &request) {
    return request.inputs.empty() ? 0 : static_cast<uint32_t>(request.inputs[0].scalar_type());
}

bool is_reduced(const Request &request) { return !is_copy(request.kind) && !is_share_alone(request.kind); }

wiresum_kind small(wiresum_kind kind) {
    switch (kind) {
    case WIRESUM_BARRIER:
    case WIRESUM_SMALL_GATHER:
    case WIRESUM_SMALL_SCATTER:
        return kind;
    case WIRESUM_REDUCE:
        return WIRESUM_SMALL_REDUCE;
    case WIRESUM_REDUCE_SCATTER:
        return WIRESUM_SMALL_REDUCE_SCATTER;
    case WIRESUM_ALL_GATHER:
        return WIRESUM_SMALL_ALL_GATHER;
    case WIRESUM_BROADCAST:
        return WIRESUM_SMALL_BROADCAST;
    default:
        return WIRESUM_SMALL_ALL_REDUCE;
    }
}

} // namespace

ShareWork::ShareWork(std::shared_ptr<GroupContext> group, Request request)
    : CarriedWork(std::move(group), std::move(request), title_of(request.kind)), kind_(small(request_.kind)),
      type_(type_of(request_) % kTags),
      operation_(is_reduced(request_) ? static_cast<uint32_t>(request_.operation.op_)
                                      : type_of(request_) / kTags) {
    if (request_.kind == WIRESUM_BARRIER) {
        return;
    }
    at::NoGradGuard no_grad;
    share_ = values_of(request_.inputs).reshape(-1);
    if (!is_reduced(request_)) {
        share_ = bytes_of(share_);
    }
    if (request_.kind == WIRESUM_SMALL_SCATTER && request_.root != group_->ledger->rank) {
        share_ = at::zeros_like(share_);
    }
    rows_ = at::empty({group_->ledger->size, share_.numel()}, share_.options());
}

ShareWork::ShareWork(std::shared_ptr<GroupContext> group, Request request, at::Tensor signature,
                     uint32_t refusal)
    : CarriedWork(std::move(group), std::move(request), title_of(request.kind)), share_(std::move(signature)),
      kind_(WIRESUM_AGREEMENT), type_(refusal), operation_(0) {
    rows_ = at::empty({group_->ledger->size, share_.numel()}, share_.options());
}

wiresum_collective ShareWork::collective(void *context) {
    const bool is_barrier = kind_ == WIRESUM_BARRIER;
    return {
        .kind = static_cast<uint32_t>(kind_),
        .root = static_cast<uint32_t>(request_.root),
        .source = is_barrier ? nullptr : share_.const_data_ptr(),
        .sink = is_barrier ? nullptr : rows_.mutable_data_ptr(),
        .elements = is_barrier ? 0 : static_cast<uint64_t>(share_.nbytes()),
        .element_type = type_,
        .operation = operation_,
        .timeout_us = static_cast<uint64_t>(std::chrono::microseconds(request_.timeout).count()),
        .done = &ShareWork::done,
        .context = context,
    };
}

// What other ranks may need again must not change, and results replace it where it is the user's memory.
void ShareWork::set_apart() {
    ReplayMemory::Lease kept = group_->going_over->keep(share_.defined() ? share_.nbytes() : 0);
    if (kept && share_.defined()) {
        share_ = share_.clone();
    }
    number_ = group_->going_over->note_share(share_, std::move(kept));
}

void ShareWork::submit(const wiresum_engine_abi *engine, const std::string &why_closed) {
    const auto work = c10::intrusive_ptr<ShareWork>::reclaim_copy(this);
    give_up_after(request_.timeout + NetworkWork::kEngineGrace);
    remaining_ = group_->groups().remaining;
    if (remaining_ && !remaining_->allows(request_.kind, request_.root)) {
        // On all ranks alike, so the engine numbers all others as they do.
        TaskPool::instance().post([work] { work->end(Reason::Failed, work->refusal(*work->remaining_)); });
        return;
    }
    if (group_->going_over) {
        set_apart();
    }
    // The reference that `done` takes back.
    auto reference = std::make_unique<c10::intrusive_ptr<ShareWork>>(work);
    const wiresum_collective collective = this->collective(reference.get());
    const int32_t answer = engine != nullptr ? engine->submit(engine->engine, &collective) : kNoEngine;
    if (answer == kQueued) {
        reference.release();
        return;
    }
    TaskPool::instance().post([work, why = why_not_queued(answer, why_closed)] {
        work->end(Reason::Failed, work->error_of(WIRESUM_FAILED, why));
    });
}

void ShareWork::leave(const std::string &why) {
    give_up_after(request_.timeout + NetworkWork::kEngineGrace);
    group_->going_over->leave_share(
        [work = c10::intrusive_ptr<ShareWork>::reclaim_copy(this), why] { work->go_over(why); });
}

// On the engine's thread: reduces what is small, and wakes whoever waits without another thread between.
// Callbacks may take long, and the last reference may take Python's lock to go away: both are the pool's.
void ShareWork::done(void *context, int32_t outcome, const char *message) {
    std::unique_ptr<c10::intrusive_ptr<ShareWork>> reference(
        static_cast<c10::intrusive_ptr<ShareWork> *>(context));
    c10::intrusive_ptr<ShareWork> work = std::move(*reference);
    const std::string text = message != nullptr ? message : "";
    if (const std::shared_ptr<GoingOver> over = work->group_->going_over) {
        if (outcome == WIRESUM_NOT_SERVED) {
            work->leave(text);
            return;
        }
        if (outcome == WIRESUM_OK) {
            over->end_share();
        }
    }
    if (outcome == WIRESUM_OK) {
        work->arrive(Reason::Shared);
    } else {
        work->end(Reason::Failed, work->error_of(outcome, text));
    }
}

void ShareWork::arrive(Reason reason) {
    std::exception_ptr error;
    try {
        write_results();
    } catch (...) {
        error = std::current_exception();
    }
    end(error ? Reason::Failed : reason, error);
}

void ShareWork::end(Reason reason, std::exception_ptr error) {
    tell(reason, error);
    TaskPool::instance().post(
        [work = c10::intrusive_ptr<ShareWork>::reclaim_copy(this), error] { work->call_back(error); });
}

std::exception_ptr ShareWork::error_of(int32_t outcome, const std::string &message) const {
    const bool known = outcome > WIRESUM_OK && outcome <= WIRESUM_WORKER_LOST;
    const auto code = known ? static_cast<wiresum_outcome>(outcome) : WIRESUM_FAILED;
    return failure(code, with_type_names(message));
}

void ShareWork::go_over(const std::string &why) {
    give_up_after(request_.timeout + NetworkWork::kEngineGrace);
    Reason reason = Reason::NotServed;
    try {
        GoingOver &over = *group_->going_over;
        if (number_ && over.has_ended_share(*number_)) {
            reason = Reason::Shared;
            rows_ = over.shares(*number_);
        } else {
            share_by_gloo(over.gloo());
        }
    } catch (const std::exception &trouble) {
        end(Reason::Failed, not_gone_over(why, trouble));
        return;
    }
    arrive(reason);
}

void ShareWork::share_by_gloo(c10d::Backend &gloo) {
    if (rows_.defined()) {
        const Remaining *remaining = remaining_of(gloo);
        if (remaining != nullptr && !remaining->allows(request_.kind, request_.root)) {
            remaining->refuse(request_.collective);
        }
        rows_ = gather_rows(gloo, share_, request_.timeout);
        return;
    }
    c10d::BarrierOptions options;
    options.timeout = request_.timeout;
    gloo.barrier(options)->wait();
}

at::Tensor ShareWork::taken_of(const at::Tensor &rows, const Remaining *remaining) const {
    const int rank = group_->ledger->rank;
    switch (request_.kind) {
    case WIRESUM_ALL_GATHER:
    case WIRESUM_SMALL_GATHER:
        return rows.reshape(-1);
    case WIRESUM_SMALL_SCATTER:
        return rows[request_.root].narrow(0, rank * rows.size(1) / group_->ledger->size,
                                          rows.size(1) / group_->ledger->size);
    case WIRESUM_BROADCAST:
        return rows[remaining != nullptr ? remaining->place_of(request_.root, "broadcast") : request_.root];
    default:
        break;
    }
    at::Tensor reduced = reduce_in_rank_order(rows, request_.operation);
    scale_sum(reduced, request_.operation, remaining != nullptr ? remaining->scale() : 1);
    if (request_.kind == WIRESUM_REDUCE_SCATTER) {
        const int64_t length = reduced.numel() / group_->ledger->size;
        return reduced.narrow(0, rank * length, length);
    }
    return reduced;
}

std::shared_ptr<const Remaining> ShareWork::remaining_of_rows() const {
    const bool has_room_for_all = rows_.size(0) == group_->ledger->size;
    return has_room_for_all ? remaining_ : group_->groups().remaining;
}

// Rows are of all ranks, or of those who are left: the engine leaves room for the others, and Gloo does not.
void ShareWork::write_results() {
    if (!rows_.defined() || !takes_part(request_, group_->ledger->rank)) {
        return;
    }
    at::NoGradGuard no_grad;
    const c10::InferenceMode mode; // outputs may have been made in it
    const auto remaining = remaining_of_rows();
    const bool has_room_for_all = rows_.size(0) == group_->ledger->size;
    const at::Tensor rows = has_room_for_all && remaining ? remaining->rows(rows_) : rows_;
    const at::Tensor taken = bytes_of(taken_of(rows, remaining.get()).contiguous());
    int64_t offset = 0;
    for (const at::Tensor &output : request_.outputs) {
        const auto bytes = static_cast<int64_t>(output.nbytes());
        bytes_of(output).copy_(taken.narrow(0, offset, bytes));
        offset += bytes;
    }
    copy_back(request_);
}

void ShareWork::release() {
    share_.reset();
    rows_.reset();
}

} // namespace wiresum
