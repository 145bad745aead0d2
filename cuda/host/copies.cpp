// Asynchronous copies into shared memory. What a copy brings is not there before its thread has waited for it: until
// then the destination reads as NaN, and the trace has two events, one where the copy begins and one where it ends.
// Semantics after "cp.async" in the PTX manual: a thread waits for batches that it has committed, oldest first.
#include <cstring>

#include "runtime.h"

#define HIDDEN __attribute__((visibility("hidden")))

namespace kh {
namespace {

struct Copy {
    std::uintptr_t to;
    const void* caller;
    std::uint32_t size, batch;
    std::int32_t next;
    unsigned char bytes[16];
};

constexpr int kMaxCopies = 1 << 16;
Copy copies[kMaxCopies];
int used = 0, unused = -1;  // never used before; given back
struct Queue {
    std::int32_t first, last;
    std::uint32_t committed;
} queues[kMaxThreads];

void end_before(Queue& queue, std::uint32_t batch) {
    while (queue.first >= 0 && copies[queue.first].batch < batch) {
        const int number = queue.first;
        Copy& copy = copies[number];
        queue.first = copy.next;
        copy.next = unused;
        unused = number;
        record(copy.to, copy.size, kCopyEnd, copy.caller);
        std::memcpy(reinterpret_cast<void*>(copy.to), copy.bytes, copy.size);
    }
}

}  // namespace

HIDDEN void reset_copies() {
    used = 0;
    unused = -1;
    for (int i = 0; i < runtime.thread_count; ++i) queues[i] = {-1, -1, 0};
}

HIDDEN bool has_copies(int thread) { return queues[thread].first >= 0; }

HIDDEN void end_copies() {
    Queue& queue = queues[number(runtime.current)];
    if (queue.first >= 0) end_before(queue, queue.committed + 1);
}

}  // namespace kh

using namespace kh;

extern "C" {

// size: 4, 8 or 16 bytes, of which the last `zeros` are zero and not read.
HIDDEN void kh_copy_begin(void* to, const void* from, std::size_t size, std::size_t zeros) {
    const void* caller = __builtin_return_address(0);
    const auto target = reinterpret_cast<std::uintptr_t>(to), source = reinterpret_cast<std::uintptr_t>(from);
    if (zeros > size) zeros = size;
    if (target % size) stop(kMisaligned, place(caller), kWrite, target, size);
    if (source % size) stop(kMisaligned, place(caller), kRead, source, size);
    record(source, size - zeros, kRead, caller);
    record(target, size, kCopyBegin, caller);
    Queue& queue = queues[number(runtime.current)];
    int number = unused;
    if (number >= 0) {
        unused = copies[number].next;
    } else if (used < kMaxCopies) {
        number = used++;
    } else {  // no room: this thread's copies are quick
        end_before(queue, queue.committed + 1);
        number = unused;
        if (number < 0) {
            record(target, size, kCopyEnd, caller);
            std::memcpy(to, from, size - zeros);
            std::memset(static_cast<char*>(to) + (size - zeros), 0, zeros);
            return;
        }
        unused = copies[number].next;
    }
    Copy& copy = copies[number];
    copy = {target, caller, static_cast<std::uint32_t>(size), queue.committed, -1, {}};
    std::memcpy(copy.bytes, from, size - zeros);
    std::memset(to, 0xff, size);
    queue.first >= 0 ? copies[queue.last].next = number : queue.first = number;
    queue.last = number;
}

HIDDEN void kh_copy_commit() { ++queues[number(runtime.current)].committed; }

// Waits for all batches but the `newest` ones.
HIDDEN void kh_copy_wait(std::size_t newest) {
    Queue& queue = queues[number(runtime.current)];
    if (queue.committed > newest) end_before(queue, queue.committed - static_cast<std::uint32_t>(newest));
}

}  // extern "C"
