#include "submissions.h"

#include <chrono>
#include <future>
#include <thread>

#include "errors.h"

namespace wiresum {

namespace {

// Between two looks whether the program has given Gloo what the other ranks have given it.
constexpr std::chrono::milliseconds kLook{10};

} // namespace

TurnPtr Submissions::reserve() {
    std::lock_guard lock(mutex_);
    const TurnPtr callback = callback_here();
    if (callback && order_.is_free()) {
        leave_freedom();
    }
    return order_.append(callback);
}

void Submissions::fill(const TurnPtr &turn, c10::intrusive_ptr<CarriedWork> work) {
    std::lock_guard lock(mutex_);
    turn->work = std::move(work);
    turn->is_over = true;
    drain();
}

TurnPtr Submissions::await_turn(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    const TurnPtr callback = callback_here();
    if (callback && order_.is_free()) {
        leave_freedom();
    }
    TurnPtr turn = order_.pass(callback);
    if (!turn) {
        ++passing_;
        return nullptr;
    }
    drain();
    if (turned_.wait_for(lock, limit, [&turn] { return turn->is_next; })) {
        return turn;
    }
    turn->is_over = true;
    throw CollectiveError(WIRESUM_TIMED_OUT, "wiresum: a collective of Gloo's waits for what callbacks of "
                                             "futures submit before it, and has done so for too long.");
}

void Submissions::pass(const TurnPtr &turn) {
    std::lock_guard lock(mutex_);
    if (turn) {
        turn->is_over = true;
    } else {
        --passing_;
    }
    drain();
}

TurnPtr Submissions::expect_callback() {
    std::lock_guard lock(mutex_);
    return agree_ ? order_.append_callback(callback_here()) : nullptr;
}

void Submissions::leave_freedom() {
    TaskPool::instance().post([self = shared_from_this(), asked = order_.pause()] { self->agree(asked); });
}

void Submissions::agree(uint64_t asked) {
    try {
        const uint64_t last_free = agree_(asked);
        std::unique_lock lock(mutex_);
        turned_.wait(lock, [this] { return passing_ == 0; });
        order_.go_on(last_free);
        drain();
    } catch (const std::exception &trouble) {
        close(c10::str("the ranks could not agree where callbacks submit collectives: ", trouble.what()));
    }
}

namespace {

thread_local const Submissions::Callback *running = nullptr;

} // namespace

Submissions::Callback::Callback(const Submissions *submissions, TurnPtr turn)
    : submissions_(submissions), turn_(std::move(turn)), outer_(running) {
    running = this;
}

Submissions::Callback::~Callback() { running = outer_; }

bool Submissions::Callback::is_running() { return running != nullptr; }

TurnPtr Submissions::callback_here() const {
    return running != nullptr && running->submissions_ == this ? running->turn_ : nullptr;
}

void Submissions::drain() {
    while (!is_held_) {
        const auto work = order_.next();
        if (!work) {
            break;
        }
        give(*work);
    }
    turned_.notify_all();
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
    order_.end();
    drain();
}

} // namespace wiresum
