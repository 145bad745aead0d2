#include "fiber.h"

#ifdef KH_UCONTEXT

namespace kh {

void prepare(Fiber& fiber, void* low, std::size_t size, void (*entry)()) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = low;
    fiber.context.uc_stack.ss_size = size;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, entry, 0);
}

void switch_fiber(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }

}  // namespace kh

#else

#ifdef __APPLE__
#define KH_SYMBOL "_kh_switch"
#define KH_BEGIN ".text\n.globl _kh_switch\n.private_extern _kh_switch\n.p2align 4\n"
#else
#define KH_SYMBOL "kh_switch"
#define KH_BEGIN ".text\n.globl kh_switch\n.hidden kh_switch\n.type kh_switch, %function\n.p2align 4\n"
#endif

extern "C" void kh_switch(void** save, void* load);

#ifdef __x86_64__
// System V: rbx, rbp and r12 to r15 belong to the caller, and the floating point control words do.
asm(KH_BEGIN KH_SYMBOL ":\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n");
constexpr int kSaved = 6;  // words below the return address
#else
// AAPCS64: x19 to x30 and the low halves of v8 to v15 belong to the caller.
asm(KH_BEGIN KH_SYMBOL ":\n"
    "  sub sp, sp, #160\n"
    "  stp x19, x20, [sp, #0]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n"
    "  stp x25, x26, [sp, #48]\n  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
    "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
    "  mov x9, sp\n  str x9, [x0]\n"
    "  mov sp, x1\n"
    "  ldp x19, x20, [sp, #0]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n"
    "  ldp x25, x26, [sp, #48]\n  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
    "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
    "  add sp, sp, #160\n"
    "  ret\n");
#endif

namespace kh {

void prepare(Fiber& fiber, void* low, std::size_t size, void (*entry)()) {
    const std::uintptr_t top = (reinterpret_cast<std::uintptr_t>(low) + size) & ~std::uintptr_t(15);
    auto* word = reinterpret_cast<std::uintptr_t*>(top);
#ifdef __x86_64__
    word[-1] = 0;  // where entry would return to; keeps the stack 16-byte aligned at entry's first instruction
    word[-2] = reinterpret_cast<std::uintptr_t>(entry);
    for (int i = 1; i <= kSaved; ++i) word[-2 - i] = 0;
    fiber.stack_pointer = word - 2 - kSaved;
#else
    for (int i = 1; i <= 20; ++i) word[-i] = 0;
    word[-20 + 11] = reinterpret_cast<std::uintptr_t>(entry);  // x30
    fiber.stack_pointer = word - 20;
#endif
}

void switch_fiber(Fiber& from, Fiber& to) { kh_switch(&from.stack_pointer, to.stack_pointer); }

}  // namespace kh

#endif
