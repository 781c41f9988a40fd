#include "stream_flags.h"

#include <atomic>

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <dlfcn.h>

namespace wiresum {

namespace {

// The two calls of CUDA's driver (cuda.h, since 11.7) that PyTorch has no name for, and what they need. They
// are looked up where there is a GPU, so that the extension is the same for every build of PyTorch.
struct Driver {
    using Address = unsigned long long; // CUdeviceptr
    using OnStream = int (*)(void *stream, Address address, uint32_t value, unsigned flags);
    using AddressOf = int (*)(Address *address, void *host, unsigned flags);

    OnStream wait;
    OnStream write;
    AddressOf address_of;
};

constexpr unsigned kWaitUntilAtLeast = 0;    // CU_STREAM_WAIT_VALUE_GEQ
constexpr unsigned kWriteAfterAllBefore = 0; // CU_STREAM_WRITE_VALUE_DEFAULT

template <typename Function> Function symbol(void *library, const char *name) {
    void *found = library != nullptr ? dlsym(library, name) : nullptr;
    TORCH_CHECK(found != nullptr, "wiresum: NVIDIA's driver (libcuda.so.1) has no ", name,
                ": update it to release 515 or later, or give CUDA tensors another backend: "
                "init_process_group(\"cpu:wiresum,cuda:gloo\").");
    return reinterpret_cast<Function>(found);
}

const Driver &driver() {
    static const Driver found = [] {
        void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
        return Driver{symbol<Driver::OnStream>(library, "cuStreamWaitValue32_v2"),
                      symbol<Driver::OnStream>(library, "cuStreamWriteValue32_v2"),
                      symbol<Driver::AddressOf>(library, "cuMemHostGetDevicePointer_v2")};
    }();
    return found;
}

void check(int code, const char *call) {
    TORCH_CHECK(code == 0, "wiresum: ", call, " failed with CUDA's error ", code,
                ". Streams that are captured into a graph cannot carry collectives of Wiresum.");
}

Driver::Address address_of(uint32_t *word) {
    Driver::Address address = 0;
    check(driver().address_of(&address, word, 0), "cuMemHostGetDevicePointer");
    return address;
}

} // namespace

StreamFlags::StreamFlags(int64_t count) {
    driver();
    words_ = at::empty({count}, at::TensorOptions().dtype(at::kInt).pinned_memory(true));
    words_.zero_();
}

uint32_t *StreamFlags::word(int64_t index) const {
    return static_cast<uint32_t *>(words_.mutable_data_ptr()) + index;
}

void StreamFlags::set_by(const c10::Stream &stream, int64_t index) const {
    check(driver().write(stream.native_handle(), address_of(word(index)), 1, kWriteAfterAllBefore),
          "cuStreamWriteValue32");
}

void StreamFlags::hold(const c10::Stream &stream, int64_t index) const {
    check(driver().wait(stream.native_handle(), address_of(word(index)), 1, kWaitUntilAtLeast),
          "cuStreamWaitValue32");
}

void StreamFlags::set(int64_t index) const {
    std::atomic_ref<uint32_t>(*word(index)).store(1, std::memory_order_release);
}

bool StreamFlags::is_set(int64_t index) const {
    return std::atomic_ref<uint32_t>(*word(index)).load(std::memory_order_acquire) != 0;
}

} // namespace wiresum
