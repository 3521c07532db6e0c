// Counts the bytes that live in torch's CPU allocator. Loaded with ctypes: no pybind11, so it builds in two seconds.
//
// Each block carries its size in a header of its own, which is not counted: live and peak are requested bytes.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace {

constexpr std::size_t kHeaderBytes = 64;  // keeps torch's alignment
c10::Allocator* wrapped = nullptr;
std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

void release(void* data) {
  if (data == nullptr) return;
  char* block = static_cast<char*>(data) - kHeaderBytes;
  live_bytes -= *reinterpret_cast<int64_t*>(block);
  wrapped->raw_deallocate(block);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    const c10::Device cpu(c10::DeviceType::CPU);
    if (size == 0) return {nullptr, nullptr, &release, cpu};
    char* block = static_cast<char*>(wrapped->raw_allocate(size + kHeaderBytes));
    *reinterpret_cast<int64_t*>(block) = static_cast<int64_t>(size);
    const int64_t now = live_bytes += static_cast<int64_t>(size);
    int64_t seen = peak_bytes.load();
    while (now > seen && !peak_bytes.compare_exchange_weak(seen, now)) {
    }
    // data == context, as raw_allocate demands
    return {block + kHeaderBytes, block + kHeaderBytes, &release, cpu};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* destination, const void* source, std::size_t count) const override {
    default_copy_data(destination, source, count);
  }
};

}  // namespace

extern "C" {

void zeroconf_counter_install() {
  if (wrapped != nullptr) return;
  wrapped = c10::GetCPUAllocator();
  // never destroyed: torch frees tensors after static destructors have run
  c10::SetCPUAllocator(new CountingAllocator, 255);
}

int64_t zeroconf_counter_live() { return live_bytes.load(); }
int64_t zeroconf_counter_peak() { return peak_bytes.load(); }
void zeroconf_counter_reset() { peak_bytes.store(live_bytes.load()); }

}
