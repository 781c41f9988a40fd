#include "sealed_work.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/Exception.h>

namespace wiresum {

SealedWork::SealedWork(int rank, c10d::OpType op_type, const char *title,
                       const std::vector<at::Tensor> &inputs, std::vector<at::Tensor> outputs,
                       uint64_t number, std::chrono::milliseconds timeout)
    : Work(rank, op_type, title, inputs), outputs_(std::move(outputs)), number_(number), timeout_(timeout),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

void SealedWork::run(const std::function<void()> &collective) {
    std::exception_ptr error;
    try {
        at::NoGradGuard no_grad;
        collective();
    } catch (...) {
        error = std::current_exception();
    }
    finish(error);
    TaskPool::instance().post(
        [work = c10::intrusive_ptr<SealedWork>::reclaim_copy(this), error] { work->call_back(error); });
}

void SealedWork::call_back(const std::exception_ptr &error) {
    if (has_called_back_.exchange(true)) {
        future_->wait();
    } else if (error) {
        future_->setError(error);
    } else {
        future_->markCompleted(c10::IValue(outputs_));
    }
}

// Whoever has waited may rely on the future.
bool SealedWork::wait(std::chrono::milliseconds timeout) {
    try {
        Work::wait(timeout);
    } catch (...) {
        if (isCompleted()) {
            call_back(std::current_exception());
        }
        throw;
    }
    call_back(nullptr);
    return true;
}

std::vector<at::Tensor> SealedWork::result() {
    TORCH_CHECK(isCompleted(), "Work needs to be completed before calling result(). "
                               "Should call wait() before result().");
    return outputs_;
}

SealedMessage::SealedMessage(std::shared_ptr<SealedLink> link, c10::intrusive_ptr<c10d::Work> inner,
                             at::Tensor message, at::Tensor tensor, int source, int tag, uint64_t expected)
    : Work(link->rank(), source < 0 ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV),
      link_(std::move(link)), inner_(std::move(inner)), message_(std::move(message)),
      tensor_(std::move(tensor)), source_(source), tag_(tag), expected_(expected) {}

bool SealedMessage::wait(std::chrono::milliseconds timeout) {
    std::lock_guard lock(taking_);
    if (is_taken_) {
        return Work::wait(timeout);
    }
    if (!inner_->wait(timeout)) {
        return false; // aborted
    }
    is_taken_ = true;
    std::exception_ptr error;
    try {
        take();
    } catch (...) {
        error = std::current_exception();
    }
    finishAndThrow(error);
    return true;
}

void SealedMessage::take() {
    at::NoGradGuard no_grad;
    const bool is_in_place = tensor_.is_cpu() && tensor_.is_contiguous();
    const at::Tensor host =
        is_in_place ? tensor_ : at::empty(tensor_.sizes(), tensor_.options().device(at::kCPU));
    link_->take(message_, sourceRank(), tag_, expected_, memory_of(host));
    if (!is_in_place) {
        tensor_.detach().copy_(host);
    }
}

} // namespace wiresum
