#include "gloo_work.h"

#include <numeric>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

#include "errors.h"
#include "work.h"

namespace wiresum {

GlooWork::GlooWork(std::shared_ptr<GroupContext> group, Request request, GlooCall call)
    : ShareWork(std::move(group), std::move(request), bytes_of_signature(call.signature),
                static_cast<uint32_t>(call.refusal)),
      call_(std::move(call)), losses_before_(group_->loss().count) {
    if (call_.signature.refusal == Refusal::None && !call_.carry) {
        ends_ = ends_of(request_, group_->ledger->rank);
    }
}

// Submissions have the same order on all ranks.
void GlooWork::submit(const wiresum_engine_abi *engine, const std::string &why_closed) {
    place_ = group_->gloo_order->reserve();
    if (call_.has_shares) {
        ShareWork::submit(engine, why_closed);
    } else {
        wait_for_turn();
    }
}

void GlooWork::leave(const std::string &why) {
    if (call_.has_shares) {
        ShareWork::leave(why);
    } else {
        wait_for_turn();
    }
}

void GlooWork::arrive(Reason /*reason*/) { wait_for_turn(); }

// The others may take long.
void GlooWork::wait_for_turn() {
    give_up_after(kLongestTimeout);
    const auto self = c10::intrusive_ptr<GlooWork>::reclaim_copy(this);
    fill_place([self] { self->run(); });
}

void GlooWork::run() {
    std::exception_ptr error;
    group_->interrupt_by_loss([self = c10::intrusive_ptr<GlooWork>::reclaim_copy(this)](const auto &loss) {
        self->interrupt(std::make_exception_ptr(lost_in_gloo(self->request_.collective, loss)));
    });
    try {
        const c10::InferenceMode mode; // stand-ins may have been made in it
        const c10::intrusive_ptr<c10d::Backend> gloo = group_->groups().inner;
        compare(*gloo);
        carry(*gloo);
    } catch (const std::exception &trouble) {
        error = explained(trouble);
    }
    group_->interrupt_by_loss(nullptr);
    end(error ? Reason::Failed : call_.reason, error);
}

// Whoever is lost has no row, or one without a meaning.
void GlooWork::compare(c10d::Backend &gloo) {
    if (!call_.has_shares) {
        rows_ = gather_rows(gloo, share_, request_.timeout);
    }
    std::vector<int> ranks(group_->ledger->size);
    std::iota(ranks.begin(), ranks.end(), 0);
    if (const auto remaining = remaining_of_rows()) {
        ranks = remaining->ranks;
        rows_ = rows_.size(0) == group_->ledger->size ? remaining->rows(rows_) : rows_;
    }
    check_signatures(request_, rows_, ranks, describe());
    if (request_.kind == WIRESUM_AGREEMENT && !call_.carry && has_uneven(rows_)) {
        compare_splits(gloo);
    }
}

void GlooWork::compare_splits(c10d::Backend &gloo) {
    std::vector<int64_t> sizes = call_.sent;
    sizes.insert(sizes.end(), call_.received.begin(), call_.received.end());
    check_splits(gather_rows(gloo, at::tensor(sizes, at::kLong), request_.timeout), describe());
}

void GlooWork::carry(c10d::Backend &gloo) {
    at::NoGradGuard no_grad;
    if (call_.carry) {
        call_.carry(gloo);
        return;
    }
    const bool takes = takes_part(request_, group_->ledger->rank);
    if (request_.kind == WIRESUM_AGREEMENT) {
        exchange(gloo);
    } else if (ends_.source.numel() == 0) {
        // Nobody has anything.
    } else if (is_copy(request_.kind)) {
        copy_by_gloo(gloo, request_.kind, request_.root, ends_.source, ends_.sink, request_.timeout);
    } else {
        if (!takes) {
            ends_.sink = at::empty_like(ends_.source); // Gloo writes there
        }
        sum_by_gloo(gloo, request_.kind, request_.root, request_.operation, ends_.source, ends_.sink,
                    request_.timeout);
        divide_average(request_, ends_.sink, static_cast<int64_t>(rows_.size(0)));
    }
    if (takes) {
        spread(request_, ends_.sink);
        copy_back(request_);
    }
}

void GlooWork::exchange(c10d::Backend &gloo) {
    const auto in_bytes = [width = ends_.source.element_size()](std::vector<int64_t> sizes) {
        for (int64_t &size : sizes) {
            size *= width;
        }
        return sizes;
    };
    std::vector<int64_t> sent = in_bytes(call_.sent);
    std::vector<int64_t> received = in_bytes(call_.received);
    at::Tensor source = bytes_of(ends_.source);
    at::Tensor sink = bytes_of(ends_.sink);
    c10d::AllToAllOptions options;
    options.timeout = request_.timeout;
    gloo.all_to_all_single(sink, source, received, sent, options)->wait();
}

std::exception_ptr GlooWork::explained(const std::exception &trouble) const {
    // Gloo says where an error comes from: of a connection it may have known before the servers miss the
    // rank.
    const bool is_of_a_connection = std::string(trouble.what()).find("gloo/transport/") != std::string::npos;
    if (const auto loss = group_->loss_since(losses_before_, is_of_a_connection)) {
        return std::make_exception_ptr(lost_in_gloo(request_.collective, *loss));
    }
    return std::current_exception();
}

void GlooWork::fill_place(Task task) {
    if (place_) {
        group_->gloo_order->fill(*place_, std::move(task));
        place_.reset();
    }
}

// A work that has failed before its turn gives up its place.
void GlooWork::release() {
    fill_place(nullptr);
    ShareWork::release();
    ends_ = {};
}

} // namespace wiresum
