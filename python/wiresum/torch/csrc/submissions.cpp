#include "submissions.h"

#include <chrono>
#include <future>
#include <thread>

namespace wiresum {

namespace {

// Between two looks whether the program has given Gloo what the other ranks have given it.
constexpr std::chrono::milliseconds kLook{10};

} // namespace

Submissions::TurnPtr Submissions::reserve() {
    std::lock_guard lock(mutex_);
    turns_.push_back(std::make_shared<Turn>());
    return turns_.back();
}

void Submissions::fill(const TurnPtr &turn, c10::intrusive_ptr<CarriedWork> work) {
    std::lock_guard lock(mutex_);
    turn->work = std::move(work);
    turn->is_filled = true;
    drain();
}

void Submissions::drain() {
    while (!is_held_ && !turns_.empty() && turns_.front()->is_filled) {
        const TurnPtr next = std::move(turns_.front());
        turns_.pop_front();
        if (next->work) {
            give(*next->work);
        }
    }
}

void Submissions::give(CarriedWork &work) {
    if (return_) {
        work.leave("the network is left until the ranks go back together");
    } else {
        work.submit(engine_, why_closed_);
    }
    ++given_;
    if (return_ && given_ == return_->first) {
        come_back();
    }
}

namespace {

// A collective of one element, which no rank sends.
struct Farewell {
    Submissions::Then then;
    float element = 0;
};

void say_farewell(void *context, int32_t outcome, const char * /*message*/) {
    const std::unique_ptr<Farewell> farewell(static_cast<Farewell *>(context));
    farewell->then(outcome == WIRESUM_NOT_SERVED);
}

// Has the ranks meet, unless another error has ended the job already.
Submissions::Then leaving(std::shared_ptr<GoingOver> going_over) {
    return [over = std::move(going_over)](bool is_unserved) {
        if (is_unserved) {
            over->leave();
        }
    };
}

} // namespace

// All that is Gloo's is on its way there.
void Submissions::come_back() {
    const Return back = std::move(*return_);
    return_.reset();
    back.going_over->come_back();
    engine_ = back.engine;
    given_ = 0;
    if (back.is_over) {
        say_farewell_to_engine(leaving(back.going_over));
    }
}

// Behind all that the engine has been given; false if it is closed. It must have been stopped.
bool Submissions::say_farewell_to_engine(Then then) {
    auto farewell = std::make_unique<Farewell>(Farewell{std::move(then)});
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
    const bool is_open = engine_ != nullptr && engine_->submit(engine_->engine, &nothing) == 0;
    if (is_open) {
        farewell.release();
    }
    return is_open;
}

void Submissions::leave(std::shared_ptr<GoingOver> going_over) {
    std::lock_guard lock(mutex_);
    if (return_) {
        return_->is_over = true;
        return;
    }
    say_farewell_to_engine(leaving(std::move(going_over)));
}

uint64_t Submissions::hold(GoingOver &going_over) {
    // A rank that is behind may hear of the next departure before it has come back from the one before.
    for (std::unique_lock lock(mutex_); return_;) {
        lock.unlock();
        std::this_thread::sleep_for(kLook);
        lock.lock();
    }
    going_over.await_meeting();
    std::promise<void> quiet;
    std::unique_lock lock(mutex_);
    is_held_ = true;
    const uint64_t given = given_;
    if (say_farewell_to_engine([&quiet](bool) { quiet.set_value(); })) {
        lock.unlock();
        quiet.get_future().wait();
    }
    return given;
}

void Submissions::go_on(uint64_t first, const wiresum_engine_abi *engine,
                        std::shared_ptr<GoingOver> going_over) {
    std::lock_guard lock(mutex_);
    if (!is_held_) {
        return; // closed meanwhile
    }
    is_held_ = false;
    return_ = Return{first, engine, std::move(going_over)};
    if (given_ == first) {
        come_back();
    }
    drain();
}

void Submissions::close(std::string why) {
    std::lock_guard lock(mutex_);
    if (why_closed_.empty()) {
        why_closed_ = std::move(why);
    }
    engine_ = nullptr;
    is_held_ = false;
    return_.reset();
    drain();
}

} // namespace wiresum
