// The extension module `wiresum.torch._c10d`.
#include <memory>

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>

#include "backend.h"
#include "errors.h"
#include "ledger.h"
#include "ordered_future.h"
#include "reconfigurable.h"
#include "share_work.h"
#include "sparse_work.h"
#include "work.h"

namespace wiresum {

// How Python holds a backend: the last reference goes without Python's lock, because Gloo's destructor joins
// threads that may be waiting for it. PyTorch holds its own backends in the same way.
template <typename T> class UnlockedHolder {
  public:
    UnlockedHolder(c10::intrusive_ptr<T> held) : held_(std::move(held)) {}
    explicit UnlockedHolder(T *fresh) : held_(c10::intrusive_ptr<T>::unsafe_steal_from_new(fresh)) {}
    UnlockedHolder(const UnlockedHolder &) = default;
    UnlockedHolder(UnlockedHolder &&) noexcept = default;
    UnlockedHolder &operator=(const UnlockedHolder &) = default;
    UnlockedHolder &operator=(UnlockedHolder &&) noexcept = default;
    ~UnlockedHolder() {
        if (held_ && PyGILState_Check() != 0) {
            py::gil_scoped_release unlocked;
            held_.reset();
        }
    }

    T *get() const { return held_.get(); }
    T *operator->() const { return held_.get(); }
    T &operator*() const { return *held_; }

  private:
    c10::intrusive_ptr<T> held_;
};

} // namespace wiresum

PYBIND11_DECLARE_HOLDER_TYPE(T, wiresum::UnlockedHolder<T>, true)

namespace wiresum {

namespace {

// Keeps a Python callable for C++ code that runs without Python's lock, and after Python has ended.
std::shared_ptr<py::object> without_lock(py::object object) {
    return {new py::object(std::move(object)), [](py::object *held) {
                if (Py_IsInitialized() == 0) {
                    return; // the interpreter has taken its objects with it
                }
                py::gil_scoped_acquire lock;
                delete held;
            }};
}

// A failing close must not keep a group from going away: its error is shown and dropped.
std::function<void()> closing(py::object callable) {
    return [held = without_lock(std::move(callable))] {
        if (Py_IsInitialized() == 0) {
            return;
        }
        py::gil_scoped_acquire lock;
        try {
            (*held)();
        } catch (py::error_already_set &error) {
            error.discard_as_unraisable("wiresum: closing a group");
        }
    };
}

// Calls Python for a group.
template <typename... Arguments>
std::function<c10::intrusive_ptr<c10d::Backend>(Arguments...)> making(py::object callable) {
    return [held = without_lock(std::move(callable))](Arguments... arguments) {
        py::gil_scoped_acquire lock;
        return (*held)(std::move(arguments)...).template cast<c10::intrusive_ptr<c10d::Backend>>();
    };
}

WiresumBackend::Split splitting(py::object split) {
    return making<c10::intrusive_ptr<c10d::Store>, std::vector<int64_t>, std::chrono::milliseconds,
                  std::string>(std::move(split));
}

const wiresum_engine_abi *engine_in(const py::capsule &capsule) {
    const auto *engine =
        static_cast<const wiresum_engine_abi *>(PyCapsule_GetPointer(capsule.ptr(), WIRESUM_ENGINE_CAPSULE));
    if (engine == nullptr) {
        throw py::error_already_set();
    }
    TORCH_CHECK(engine->version == WIRESUM_ENGINE_ABI_VERSION, "wiresum: wiresum._native speaks version ",
                engine->version, " of the engine interface, this extension version ",
                WIRESUM_ENGINE_ABI_VERSION,
                ". Run `python -m wiresum.torch.build`, or install matching versions.");
    return engine;
}

c10::intrusive_ptr<c10d::Backend>
connected(const c10::intrusive_ptr<c10d::Backend> &inner, const c10::intrusive_ptr<c10d::Backend> &fallback,
          std::chrono::milliseconds timeout, const py::capsule &engine, int64_t min_elements,
          int64_t lane_bytes, int64_t narrow_lane_bytes, bool copies, py::object open_gloo, py::object close,
          const c10::intrusive_ptr<c10d::Backend> &afterwards, std::optional<uint64_t> replay_bytes,
          py::object remake, py::object split, std::chrono::milliseconds loss_known_after) {
    const LaneBytes bytes{lane_bytes, narrow_lane_bytes};
    Network network{engine_in(engine),
                    fallback,
                    min_elements,
                    bytes,
                    copies,
                    afterwards,
                    loss_known_after,
                    replay_bytes,
                    closing(std::move(close))};
    return c10::make_intrusive<WiresumBackend>(
        inner, timeout, std::move(network), std::string(), making<std::string>(std::move(open_gloo)),
        making<std::vector<int64_t>>(std::move(remake)), splitting(std::move(split)));
}

c10::intrusive_ptr<c10d::Backend> unconnected(const c10::intrusive_ptr<c10d::Backend> &inner,
                                              std::chrono::milliseconds timeout, std::string why,
                                              py::object open_gloo, py::object remake, py::object split) {
    return c10::make_intrusive<WiresumBackend>(
        inner, timeout, std::nullopt, std::move(why), making<std::string>(std::move(open_gloo)),
        making<std::vector<int64_t>>(std::move(remake)), splitting(std::move(split)));
}

c10::intrusive_ptr<c10d::Backend> reconfigurable(int rank, int size, std::chrono::milliseconds timeout,
                                                 py::object handle, py::object meet) {
    const auto name = [held = without_lock(std::move(handle))] {
        py::gil_scoped_acquire lock;
        return (*held)().cast<std::string>();
    };
    return c10::make_intrusive<ReconfigurableBackend>(
        rank, size, timeout, name,
        making<int64_t, std::vector<std::string>, std::chrono::milliseconds>(std::move(meet)));
}

py::object leaving(const WiresumBackend &backend) {
    const std::function<void()> leave = backend.leave();
    return leave ? py::cpp_function(leave, py::call_guard<py::gil_scoped_release>()) : py::object(py::none());
}

py::object losing(const WiresumBackend &backend) {
    return py::cpp_function(backend.lose(), py::call_guard<py::gil_scoped_release>());
}

// The capsule has to live until the group is closed, or goes on with another engine.
void go_on(const Crossing &crossing, uint64_t first, const py::capsule &capsule) {
    const wiresum_engine_abi *engine = engine_in(capsule);
    py::gil_scoped_release unlocked;
    crossing.go_on(first, engine);
}

void go_on_without(Crossing &crossing, std::vector<int> ranks, std::string lost,
                   const c10::intrusive_ptr<c10d::Backend> &inner,
                   const c10::intrusive_ptr<c10d::Backend> &fallback,
                   const c10::intrusive_ptr<c10d::Backend> &afterwards) {
    const int size = crossing.group->ledger->size;
    auto remaining = std::make_shared<const Remaining>(Remaining{std::move(ranks), size, std::move(lost)});
    crossing.go_on_without(std::move(remaining), inner, fallback, afterwards);
}

c10::intrusive_ptr<c10d::Work> all_reduce_int8(WiresumBackend &backend, const at::Tensor &tensor,
                                               const c10d::ReduceOp &operation,
                                               const std::optional<at::Tensor> &kept,
                                               std::optional<std::chrono::milliseconds> timeout) {
    return backend.all_reduce_int8(tensor, operation, kept.value_or(at::Tensor()),
                                   timeout.value_or(c10d::kUnsetTimeout));
}

py::list rows_of(const Ledger &ledger) {
    py::list rows;
    for (const auto &[key, count] : ledger.rows()) {
        rows.append(py::make_tuple(key.collective, key.element_type, key.operation, name_of(key.reason),
                                   count.collectives, count.total.elements, count.total.bytes,
                                   count.total.rows, count.total.rows_of_all));
    }
    return rows;
}

template <typename Work> std::shared_ptr<OrderedFuture> future_of(Work &work) {
    return OrderedFuture::of(work.getFuture(), work.group().submissions);
}

// A handle as Python sees it.
template <typename Work> void add_work(py::module &module, const char *name) {
    py::class_<Work, c10d::Work, c10::intrusive_ptr<Work>>(module, name).def("get_future", &future_of<Work>);
}

// Works of Gloo itself are of collectives that the network does not sum.
std::string reason_of(const c10::intrusive_ptr<c10d::Work> &work) {
    const auto *explained = dynamic_cast<const ExplainedWork *>(work.get());
    return name_of(explained != nullptr ? explained->reason() : Reason::Collective);
}

void set_error_types(const py::object &mismatch, const py::object &timed_out, const py::object &lost,
                     const py::object &failed) {
    set_error_type(WIRESUM_MISMATCH, mismatch.ptr());
    set_error_type(WIRESUM_TIMED_OUT, timed_out.ptr());
    set_error_type(WIRESUM_WORKER_LOST, lost.ptr());
    set_error_type(WIRESUM_FAILED, failed.ptr());
}

} // namespace

} // namespace wiresum

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
    using namespace wiresum;
    // Registers c10d's classes, which those below derive from.
    py::module::import("torch.distributed");

    py::class_<Ledger, std::shared_ptr<Ledger>>(module, "Ledger")
        .def_property_readonly("group", &Ledger::group)
        .def_readonly("id", &Ledger::id)
        .def_readonly("rank", &Ledger::rank)
        .def_readonly("size", &Ledger::size)
        .def_readonly("no_network", &Ledger::no_network)
        .def_property_readonly("errors", &Ledger::errors)
        .def("rows", &rows_of);

    py::class_<Crossing, std::shared_ptr<Crossing>>(module, "Crossing")
        .def("go_on_without", &go_on_without, py::arg("ranks"), py::arg("lost"), py::arg("inner"),
             py::arg("fallback"), py::arg("afterwards"), py::call_guard<py::gil_scoped_release>())
        .def("leave", &Crossing::leave, py::call_guard<py::gil_scoped_release>())
        .def("lose", &Crossing::lose, py::arg("why"), py::call_guard<py::gil_scoped_release>())
        .def("hold", &Crossing::hold, py::call_guard<py::gil_scoped_release>())
        .def("go_on", &go_on, py::arg("first"), py::arg("engine"))
        .def("fail", &Crossing::fail, py::arg("why"), py::call_guard<py::gil_scoped_release>());

    py::class_<WiresumBackend, c10d::Backend, UnlockedHolder<WiresumBackend>>(module, "WiresumBackend")
        .def_property_readonly("ledger", &WiresumBackend::ledger)
        .def_property_readonly("leave", &leaving)
        .def_property_readonly("crossing", &WiresumBackend::crossing)
        .def_property_readonly("inner", &WiresumBackend::inner)
        .def_property_readonly("lose", &losing)
        .def_property_readonly("packs", &WiresumBackend::packs)
        .def("all_reduce_int8", &all_reduce_int8, py::arg("tensor"), py::arg("operation"), py::arg("kept"),
             py::arg("timeout"), py::call_guard<py::gil_scoped_release>())
        // What PyTorch calls on ranks that are not in a `new_group()`, where the default group is bound to a
        // device. Ranks that are in it do not wait for these.
        .def("perform_nocolor_split", [](const WiresumBackend &, const py::object &) {}, py::arg("device"));

    py::class_<ReconfigurableBackend, c10d::Backend, UnlockedHolder<ReconfigurableBackend>>(
        module, "ReconfigurableBackend")
        .def_property_readonly("members", &ReconfigurableBackend::members);

    using Future = torch::jit::PythonFutureWrapper;
    py::class_<OrderedFuture, Future, std::shared_ptr<OrderedFuture>>(module, "OrderedFuture")
        .def("then", &OrderedFuture::then, py::arg("callback"))
        .def("add_done_callback", &OrderedFuture::add_done_callback, py::arg("callback"));

    add_work<NetworkWork>(module, "NetworkWork");
    add_work<ShareWork>(module, "ShareWork");
    add_work<SparseWork>(module, "SparseWork");
    add_work<DelegatedWork>(module, "DelegatedWork");

    module.def("connected", &connected, py::arg("inner"), py::arg("fallback"), py::arg("timeout"),
               py::arg("engine"), py::arg("min_elements"), py::arg("lane_bytes"),
               py::arg("narrow_lane_bytes"), py::arg("copies"), py::arg("open_gloo"), py::arg("close"),
               py::arg("afterwards"), py::arg("replay_bytes"), py::arg("remake"), py::arg("split"),
               py::arg("loss_known_after") = std::chrono::milliseconds(0));
    module.def("unconnected", &unconnected, py::arg("inner"), py::arg("timeout"), py::arg("why"),
               py::arg("open_gloo"), py::arg("remake"), py::arg("split"));
    module.def("reconfigurable", &reconfigurable, py::arg("rank"), py::arg("size"), py::arg("timeout"),
               py::arg("handle"), py::arg("meet"));
    module.def("ledgers", &Ledger::all);
    module.def("reason_of", &reason_of);
    // A wait for a message ends, which Python cannot ask for otherwise.
    module.def(
        "abort", [](const c10::intrusive_ptr<c10d::Work> &work) { work->abort(); }, py::arg("work"),
        py::call_guard<py::gil_scoped_release>());
    module.def("set_error_types", &set_error_types);
    module.attr("REASONS") = py::cast(std::vector<std::string>(kReasonNames.begin(), kReasonNames.end()));
    module.attr("ENGINE_ABI_VERSION") = WIRESUM_ENGINE_ABI_VERSION;
}
