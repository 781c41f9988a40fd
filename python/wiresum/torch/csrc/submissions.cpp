#include "submissions.h"

namespace wiresum {

Submissions::TurnPtr Submissions::reserve() {
    std::lock_guard lock(mutex_);
    turns_.push_back(std::make_shared<Turn>());
    return turns_.back();
}

void Submissions::fill(const TurnPtr &turn, c10::intrusive_ptr<NetworkWork> work) {
    Submit submit;
    if (work) {
        submit = [work = std::move(work)](const wiresum_engine_abi *engine) {
            NetworkWork::submit(work, engine);
        };
    }
    fill_by(turn, std::move(submit));
}

void Submissions::fill_by(const TurnPtr &turn, Submit submit) {
    std::lock_guard lock(mutex_);
    turn->submit = std::move(submit);
    turn->is_filled = true;
    while (!turns_.empty() && turns_.front()->is_filled) {
        const TurnPtr next = std::move(turns_.front());
        turns_.pop_front();
        if (next->submit) {
            next->submit(engine_);
        }
    }
}

namespace {

// A collective of one element, which no rank sends.
struct Farewell {
    std::shared_ptr<GoingOver> going_over;
    float element = 0;
};

void say_farewell(void *context, int32_t outcome, const char * /*message*/) {
    const std::unique_ptr<Farewell> farewell(static_cast<Farewell *>(context));
    if (outcome == WIRESUM_NOT_SERVED) {
        farewell->going_over->leave();
    }
}

} // namespace

void Submissions::leave(std::shared_ptr<GoingOver> going_over) {
    auto farewell = std::make_unique<Farewell>(Farewell{std::move(going_over)});
    const wiresum_collective nothing{
        .kind = WIRESUM_ALL_REDUCE,
        .root = 0,
        .source = &farewell->element,
        .sink = &farewell->element,
        .elements = 1,
        .element_type = WIRESUM_FLOAT32,
        .operation = WIRESUM_SUM,
        .timeout_us = 1,
        .done = &say_farewell,
        .context = farewell.get(),
    };
    std::lock_guard lock(mutex_);
    if (engine_ != nullptr && engine_->submit(engine_->engine, &nothing) == 0) {
        farewell.release();
    }
}

void Submissions::close() {
    std::lock_guard lock(mutex_);
    engine_ = nullptr;
}

} // namespace wiresum
