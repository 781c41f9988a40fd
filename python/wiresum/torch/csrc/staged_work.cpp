#include "staged_work.h"

#include <cstring>
#include <thread>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include "errors.h"
#include "work.h"

namespace wiresum {

namespace {

using Clock = std::chrono::steady_clock;

// The flags of a collective, in the order in which they are set.
enum Flag : int64_t { kIsDown, kHasEnded, kIsUp, kFlagCount };

// Between two looks at a flag that a stream sets: short beside a copy, long beside what a look costs.
constexpr std::chrono::microseconds kLook{20};

// Bytes of results that there are none of: NaN in every type of floats, so that nobody takes them for a sum.
constexpr int kNoResult = 0xFF;

bool is_in_place(wiresum_kind kind) {
    return kind == WIRESUM_ALL_REDUCE || kind == WIRESUM_REDUCE || kind == WIRESUM_BROADCAST;
}

at::Tensor pinned_for(const std::vector<at::Tensor> &tensors, at::ScalarType type) {
    const auto options = at::TensorOptions().dtype(type).pinned_memory(true);
    return at::empty({static_cast<int64_t>(size_of(tensors).elements)}, options);
}

// Calls back with each tensor and its part of the flat one.
template <typename Copy>
void for_each_part(const std::vector<at::Tensor> &tensors, const at::Tensor &flat, Copy copy) {
    int64_t offset = 0;
    for (const at::Tensor &tensor : tensors) {
        copy(tensor.detach(), flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
        offset += tensor.numel();
    }
}

c10::Stream current_stream(c10::Device device) {
    return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

} // namespace

Staging::Streams Staging::streams_on(c10::Device device) {
    std::lock_guard lock(mutex_);
    const auto known = streams_.find(device);
    if (known != streams_.end()) {
        return known->second;
    }
    const c10::impl::VirtualGuardImpl guard(device.type());
    const Streams made{guard.getStreamFromGlobalPool(device, true),
                       guard.getStreamFromGlobalPool(device, true)};
    return streams_.emplace(device, made).first->second;
}

void Staging::note_failure(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    if (!failure_) {
        failure_ = std::move(error);
    }
}

void Staging::raise_failure() const {
    std::lock_guard lock(mutex_);
    if (failure_) {
        std::rethrow_exception(failure_);
    }
}

StagedWork::StagedWork(std::shared_ptr<Staging> staging, Request request, int rank, Carry carry)
    : ExplainedWork(rank, request.op_type, request.collective, request.inputs), staging_(std::move(staging)),
      request_(std::move(request)), carry_(std::move(carry)), device_(request_.inputs[0].device()),
      takes_(takes_part(request_, rank)), gives_(gives_part(request_, rank)),
      source_(pinned_for(request_.inputs, request_.inputs[0].scalar_type())),
      sink_(is_in_place(request_.kind) ? source_
                                       : pinned_for(request_.outputs, request_.inputs[0].scalar_type())),
      flags_(kFlagCount), is_back_(device_.type()),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                       std::vector{device_})) {}

void StagedWork::start(const c10::intrusive_ptr<StagedWork> &work,
                       const std::shared_ptr<Submissions> &submissions) {
    try {
        work->enqueue();
    } catch (...) {
        work->flags_.set(kHasEnded); // a stream may wait for it already
        throw;
    }
    work->staging_->values->post(
        [work, submissions, turn = submissions->reserve()] { work->hand_over(*submissions, turn); });
}

// All of it at once, so that CUDA sees every dependency but that of the copy up on the network.
void StagedWork::enqueue() {
    at::NoGradGuard no_grad;
    const auto [down, up] = staging_->streams_on(device_);
    c10::Event is_ready(device_.type());
    is_ready.record(current_stream(device_));
    is_ready.block(down);
    is_ready.block(up);
    copy_down(down);
    copy_up(up);
}

void StagedWork::copy_down(const c10::Stream &stream) {
    const c10::StreamGuard on(stream);
    if (gives_) {
        for_each_part(request_.inputs, source_,
                      [](const at::Tensor &tensor, const at::Tensor &part) { part.copy_(tensor, true); });
    }
    flags_.set_by(stream, kIsDown);
}

void StagedWork::copy_up(const c10::Stream &stream) {
    const c10::StreamGuard on(stream);
    flags_.hold(stream, kHasEnded);
    if (takes_) {
        for_each_part(request_.outputs, sink_,
                      [](const at::Tensor &tensor, const at::Tensor &part) { tensor.copy_(part, true); });
    }
    flags_.set_by(stream, kIsUp);
    is_back_.record(stream);
    future_->markCompleted(
        c10::IValue(request_.outputs)); // as NCCL's: it holds the streams of those who use it
}

void StagedWork::hand_over(Submissions &submissions, const Submissions::TurnPtr &turn) {
    try {
        TORCH_CHECK(await(kIsDown), request_.collective, " #", request_.sequence, ": the values on ",
                    device_.str(), " were not there within the group's timeout of ", request_.timeout.count(),
                    " ms: what the GPU does before them takes longer, or has failed.");
        Request request = request_;
        request.inputs = {source_};
        request.outputs = {sink_};
        auto carried = carry_(std::move(request));
        {
            std::lock_guard lock(mutex_);
            carried_ = carried;
        }
        carried->getFuture()->addCallback(
            [self = c10::intrusive_ptr<StagedWork>::reclaim_copy(this)](c10::ivalue::Future &future) {
                self->end(future.hasError() ? future.exception_ptr() : nullptr);
            });
        submissions.fill(turn, std::move(carried));
    } catch (const std::exception &trouble) {
        end(std::current_exception());
        // Without this one the later ones would meet others of the other ranks.
        submissions.close(trouble.what());
        submissions.fill(turn, nullptr);
    }
}

// Releases the streams, whatever has happened. An error is known before they go on.
void StagedWork::end(std::exception_ptr error) {
    if (error) {
        std::memset(sink_.mutable_data_ptr(), kNoResult, sink_.nbytes());
        staging_->note_failure(error);
        finish(error);
    }
    flags_.set(kHasEnded);
    staging_->ends->post([self = c10::intrusive_ptr<StagedWork>::reclaim_copy(this)] { self->retire(); });
}

// The streams use flags and buffers until the copy up is over.
void StagedWork::retire() {
    if (!await(kIsUp)) {
        // The GPU may use this memory yet, so it stays.
        new c10::intrusive_ptr<StagedWork>(c10::intrusive_ptr<StagedWork>::reclaim_copy(this));
        finish(std::make_exception_ptr(CollectiveError(
            WIRESUM_FAILED, c10::str(request_.collective, " #", request_.sequence, ": ", device_.str(),
                                     " did not copy the results within the group's timeout"))));
        return;
    }
    {
        std::lock_guard lock(mutex_);
        reason_ = carried_ ? carried_->reason() : Reason::Failed;
        carried_.reset();
        source_.reset();
        sink_.reset();
        if (completed_) {
            return; // by an error
        }
    }
    finish();
}

bool StagedWork::await(int64_t flag) const {
    const Clock::time_point limit = Clock::now() + request_.timeout + NetworkWork::kEngineGrace;
    while (!flags_.is_set(flag)) {
        if (Clock::now() >= limit) {
            return false;
        }
        std::this_thread::sleep_for(kLook);
    }
    return true;
}

Reason StagedWork::reason() const {
    std::lock_guard lock(mutex_);
    return carried_ ? carried_->reason() : reason_;
}

void StagedWork::blockCurrentStream() { is_back_.block(current_stream(device_)); }

void StagedWork::synchronize() {
    if (const std::exception_ptr error = exception()) {
        std::rethrow_exception(error);
    }
    blockCurrentStream();
}

bool StagedWork::wait(std::chrono::milliseconds timeout) {
    synchronize();
    if (timeout > kNoTimeout) {
        std::unique_lock lock(mutex_);
        const bool is_over =
            cv_.wait_for(lock, std::min(timeout, kLongestTimeout), [this] { return completed_; });
        if (exception_) {
            std::rethrow_exception(exception_);
        }
        if (!is_over) {
            throw CollectiveError(WIRESUM_TIMED_OUT, c10::str(request_.collective, " #", request_.sequence,
                                                              ": still under way after the ", timeout.count(),
                                                              " ms given to wait(): wait again."));
        }
    }
    return true;
}

} // namespace wiresum
