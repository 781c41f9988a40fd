// Exceptions of collectives, which Python sees as classes of `wiresum.errors` wherever they surface.
#pragma once

#include <exception>
#include <string>

#include <torch/csrc/Exceptions.h>

#include "engine_abi.h"

namespace wiresum {

// What a collective is told that was to be submitted after the end.
inline constexpr const char *kEngineIsClosed =
    "the connection to the network is closed, by an earlier error or by shutdown";
// What a collective is told that the engine does not know, although it is open.
inline constexpr const char *kEngineRefuses =
    "the engine does not take this collective. This is a defect of Wiresum: please report it";

// Answers of `wiresum_engine_abi.submit`.
inline constexpr int32_t kQueued = 0;
inline constexpr int32_t kIllFormed = 2;
// There is no engine any more.
inline constexpr int32_t kNoEngine = -1;

// Why the engine has not queued a collective.
std::string why_not_queued(int32_t answer, const std::string &why_closed);

// torch turns a PyTorchError into its `python_type` on every way out of C++: wait(), futures, and the
// autograd engine.
struct CollectiveError : public torch::PyTorchError {
    CollectiveError(wiresum_outcome outcome, std::string message)
        : PyTorchError(std::move(message)), outcome(outcome) {}

    PyObject *python_type() override;

    const wiresum_outcome outcome;
};

// A call that this backend cannot do, whatever it carries. Nothing has been written. A RuntimeError in
// Python.
struct RefusedError : public torch::PyTorchError {
    explicit RefusedError(std::string message) : PyTorchError(std::move(message)) {}

    PyObject *python_type() override { return PyExc_RuntimeError; }
};

// Sets the Python class for an outcome; it is kept for the life of the process.
void set_error_type(wiresum_outcome outcome, PyObject *type);

// What a user can do about an outcome.
const char *remedy(wiresum_outcome outcome);

} // namespace wiresum
