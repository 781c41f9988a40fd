// Futures of collectives as Python sees them: what a callback submits has its place in the order of the
// group's collectives.
#pragma once

#include <functional>
#include <memory>

#include <torch/csrc/jit/python/pybind_utils.h>

#include "submissions.h"

namespace wiresum {

// Callbacks run on threads of the pool, never on the program's: that may have to ask for what is due before
// whatever the callback asks for. The second base keeps pybind11 from a cast that needs virtual methods,
// which the first one has not.
class OrderedFuture final : public torch::jit::PythonFutureWrapper,
                            private std::enable_shared_from_this<OrderedFuture> {
  public:
    using Completed = c10::intrusive_ptr<c10::ivalue::Future>;

    static std::shared_ptr<OrderedFuture> of(Completed future, std::shared_ptr<Submissions> submissions);

    // As those of PyTorch's futures.
    std::shared_ptr<OrderedFuture> then(py::function callback);
    void add_done_callback(py::function callback);

  private:
    OrderedFuture(Completed future, std::shared_ptr<Submissions> submissions)
        : PythonFutureWrapper(std::move(future)), submissions_(std::move(submissions)) {}

    // What PyTorch makes of the callback, which runs while this is called.
    Completed call(const py::function &callback);
    // Calls it once this is complete. `tell` is told of it after the callback's place is over.
    void call_in_its_place(py::function callback, std::function<void(const Completed &)> tell);

    const std::shared_ptr<Submissions> submissions_;
};

} // namespace wiresum
