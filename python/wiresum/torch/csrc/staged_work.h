// Collectives of tensors in a GPU's memory: streams copy them to pinned memory, where they are carried like
// any other, and back.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include <c10/core/Event.h>
#include <c10/core/Stream.h>

#include "pending_work.h"
#include "stream_flags.h"
#include "submissions.h"

namespace wiresum {

// What the staged collectives of one group share.
class Staging {
  public:
    // Streams of a device. What comes up waits for the network, so what goes down has a stream of its own.
    struct Streams {
        c10::Stream down;
        c10::Stream up;
    };

    Streams streams_on(c10::Device device);
    // The first error stays: the streams have gone on without a result.
    void note_failure(std::exception_ptr error);
    void raise_failure() const;

    // In these orders collectives wait for their values, and their buffers for the copy back.
    const std::shared_ptr<Strand> values = std::make_shared<Strand>();
    const std::shared_ptr<Strand> ends = std::make_shared<Strand>();

  private:
    mutable std::mutex mutex_;
    std::map<c10::Device, Streams, bool (*)(const c10::Device &, const c10::Device &)> streams_{
        [](const c10::Device &a, const c10::Device &b) { return a.index() < b.index(); }};
    std::exception_ptr failure_;
};

// Holds streams and not the host. wait() makes the current stream wait; the host waits only where it is given
// a timeout.
class StagedWork final : public ExplainedWork {
  public:
    // Makes the collective of the same values in the host's memory.
    using Carry = std::function<c10::intrusive_ptr<CarriedWork>(Request)>;

    StagedWork(std::shared_ptr<Staging> staging, Request request, int rank, Carry carry);

    // Enqueues both copies on streams, and has the collective submitted in its turn once its values are
    // there.
    static void start(const c10::intrusive_ptr<StagedWork> &work,
                      const std::shared_ptr<Submissions> &submissions);

    Reason reason() const override;
    std::vector<at::Tensor> result() override { return request_.outputs; }
    void synchronize() override;
    void blockCurrentStream() override;
    bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
    uint64_t getSequencenumber() const override { return request_.sequence; }
    std::chrono::milliseconds getTimeout() const override { return request_.timeout; }

  private:
    void enqueue();
    void copy_down(const c10::Stream &stream);
    void copy_up(const c10::Stream &stream);
    // On threads of the pool.
    void hand_over(Submissions &submissions, const Submissions::TurnPtr &turn);
    void end(std::exception_ptr error);
    void retire();
    // Whether the stream has set the flag within the collective's timeout and a grace.
    bool await(int64_t flag) const;

    const std::shared_ptr<Staging> staging_;
    const Request request_;
    const Carry carry_;
    const c10::Device device_;
    const bool takes_;
    const bool gives_;
    at::Tensor source_; // pinned, flat
    at::Tensor sink_;   // the same where the collective is in place
    const StreamFlags flags_;
    c10::Event is_back_;
    const c10::intrusive_ptr<c10::ivalue::Future> future_;
    // Guarded by Work::mutex_.
    c10::intrusive_ptr<CarriedWork> carried_;
    Reason reason_ = Reason::Pending;
};

} // namespace wiresum
