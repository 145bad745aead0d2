// A fiber is a stack and a place to continue from. Switching saves the registers that a called function must keep, on
// the stack that is left, and takes them from the stack that is entered: a few nanoseconds, no system call.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(KH_FORCE_UCONTEXT) || (!defined(__x86_64__) && !defined(__aarch64__))
#include <ucontext.h>
#define KH_UCONTEXT 1
#endif

namespace kh {

struct Fiber {
#ifdef KH_UCONTEXT
    ucontext_t context;
#else
    void* stack_pointer = nullptr;
#endif
};

// Makes `fiber` begin with entry() on the stack [low, low + size). entry must never return.
void prepare(Fiber& fiber, void* low, std::size_t size, void (*entry)());

// Leaves the running code in `from` and continues `to`.
void switch_fiber(Fiber& from, Fiber& to);

}  // namespace kh
