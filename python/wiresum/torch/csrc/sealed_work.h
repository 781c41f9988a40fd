// Handles of collectives and messages that Gloo carries encrypted.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "sealed_link.h"
#include "task_pool.h"

namespace wiresum {

// A collective on a strand of its group.
class SealedWork final : public c10d::Work {
  public:
    SealedWork(int rank, c10d::OpType op_type, const char *title, const std::vector<at::Tensor> &inputs,
               std::vector<at::Tensor> outputs, uint64_t number, std::chrono::milliseconds timeout);

    // Runs the collective on this thread. Callbacks of its future run on another one, as they may wait for a
    // later collective of the strand.
    void run(const std::function<void()> &collective);

    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    std::vector<at::Tensor> result() override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
    uint64_t getSequencenumber() const override { return number_; }
    std::chrono::milliseconds getTimeout() const override { return timeout_; }

  private:
    // Completes the future, once.
    void call_back(const std::exception_ptr &error);

    const std::vector<at::Tensor> outputs_;
    const uint64_t number_;
    const std::chrono::milliseconds timeout_;
    const c10::intrusive_ptr<c10::ivalue::Future> future_;
    std::atomic<bool> has_called_back_{false};
};

// A message that is to come. As with Gloo's own, whoever waits for it completes it.
class SealedMessage final : public c10d::Work {
  public:
    SealedMessage(std::shared_ptr<SealedLink> link, c10::intrusive_ptr<c10d::Work> inner, at::Tensor message,
                  at::Tensor tensor, int source, int tag, uint64_t expected);

    int sourceRank() const override { return source_ < 0 ? inner_->sourceRank() : source_; }
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    void abort() override { inner_->abort(); }
    std::vector<at::Tensor> result() override { return {tensor_}; }
    uint64_t getSequencenumber() const override { return inner_->getSequencenumber(); }

  private:
    void take();

    const std::shared_ptr<SealedLink> link_;
    const c10::intrusive_ptr<c10d::Work> inner_;
    const at::Tensor message_;
    const at::Tensor tensor_;
    const int source_;
    const int tag_;
    const uint64_t expected_;
    std::mutex taking_;
    bool is_taken_ = false;
};

} // namespace wiresum
