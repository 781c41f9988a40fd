#include "ordered_future.h"

#include <optional>

#include "task_pool.h"

namespace wiresum {

namespace {

// Without Python's lock, which a thread that submits may need.
template <typename Call> auto unlocked(Call call) {
    std::optional<py::gil_scoped_release> lock_is_free;
    if (PyGILState_Check() != 0) {
        lock_is_free.emplace();
    }
    return call();
}

// The place of a callback, which is over when it has run, or never will.
class Place {
  public:
    explicit Place(std::shared_ptr<Submissions> submissions)
        : submissions_(std::move(submissions)),
          turn_(unlocked([this] { return submissions_->expect_callback(); })) {}
    ~Place() {
        if (turn_) {
            unlocked([this] { submissions_->fill(turn_, nullptr); });
        }
    }
    Place(const Place &) = delete;
    Place &operator=(const Place &) = delete;

    Submissions::Callback enter() const { return {submissions_.get(), turn_}; }

  private:
    const std::shared_ptr<Submissions> submissions_;
    const TurnPtr turn_;
};

} // namespace

// Held as what it derives from, which has to know who holds it.
std::shared_ptr<OrderedFuture> OrderedFuture::of(Completed future, std::shared_ptr<Submissions> submissions) {
    auto *fresh = new OrderedFuture(std::move(future), std::move(submissions));
    std::shared_ptr<PythonFutureWrapper> held(static_cast<PythonFutureWrapper *>(fresh),
                                              [fresh](PythonFutureWrapper * /*same*/) { delete fresh; });
    return std::static_pointer_cast<OrderedFuture>(held);
}

std::shared_ptr<OrderedFuture> OrderedFuture::then(py::function callback) {
    auto result = c10::make_intrusive<c10::ivalue::Future>(c10::PyObjectType::get());
    call_in_its_place(std::move(callback), [result](const Completed &completed) {
        if (completed->hasError()) {
            result->setError(completed->exception_ptr());
        } else {
            result->markCompleted(completed->value());
        }
    });
    return of(std::move(result), submissions_);
}

void OrderedFuture::add_done_callback(py::function callback) {
    call_in_its_place(std::move(callback), [](const Completed &completed) {
        if (completed->hasError()) {
            TORCH_WARN("wiresum: ", completed->tryRetrieveErrorMessage());
        }
    });
}

OrderedFuture::Completed OrderedFuture::call(const py::function &callback) {
    py::gil_scoped_acquire lock;
    return PythonFutureWrapper::then(callback)->fut;
}

void OrderedFuture::call_in_its_place(py::function callback, std::function<void(const Completed &)> tell) {
    auto self = std::static_pointer_cast<OrderedFuture>(PythonFutureWrapper::shared_from_this());
    auto held = std::make_shared<torch::jit::PythonFunctionGuard>(std::move(callback));
    auto place = std::make_shared<std::unique_ptr<Place>>(std::make_unique<Place>(submissions_));
    Task run = [self, held, place, tell = std::move(tell)] {
        Completed completed;
        {
            const std::unique_ptr<Place> here = std::move(*place);
            const Submissions::Callback running = here->enter();
            completed = self->call(held->func_);
        }
        tell(completed);
    };
    // The thread that completes this one must not let go of what the callback holds: it may be one of
    // Gloo's, and the last to hold the group that ends it.
    auto once = std::make_shared<Task>(std::move(run));
    fut->addCallback([once](c10::ivalue::Future & /*done*/) {
        Task due = std::move(*once);
        if (TaskPool::is_own_thread() && !Submissions::Callback::is_running()) {
            due();
        } else {
            TaskPool::instance().post(std::move(due));
        }
    });
}

} // namespace wiresum
