// A kernel that crashes, recurses without end or never ends is stopped; the process is not. Signals are taken over
// only while a kernel runs. The handler leaves the fiber for the scheduler and the fiber is never continued, which is
// safe because kernels hold no locks and own no memory.
#ifdef __APPLE__
#define _XOPEN_SOURCE 700
#define _DARWIN_C_SOURCE
#endif
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstring>

#ifdef __APPLE__
#include <sys/time.h>
#else
#include <sys/syscall.h>
#endif

#include "runtime.h"

namespace kh {

__attribute__((visibility("hidden"))) double cpu_seconds_left = 10.0;

namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
struct sigaction before[4], before_timer;
stack_t before_stack;
alignas(16) char handler_stack[64 * 1024];

// The clock that stops a kernel: CPU time of its thread on Linux, of the process on macOS, which has no other.
#ifdef __APPLE__
pthread_t kernel_thread;
int timer_signal() { return SIGVTALRM; }
int this_thread() { return pthread_equal(pthread_self(), kernel_thread) ? 1 : 0; }
void own_thread() { kernel_thread = pthread_self(), runtime.system_thread = 1; }
bool start_clock(double seconds) {
    itimerval when{};
    when.it_value.tv_sec = static_cast<time_t>(seconds);
    when.it_value.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(when.it_value.tv_sec)) * 1e6);
    return setitimer(ITIMER_VIRTUAL, &when, nullptr) == 0;
}
double stop_clock() {
    itimerval left{}, never{};
    setitimer(ITIMER_VIRTUAL, &never, &left);
    return static_cast<double>(left.it_value.tv_sec) + 1e-6 * static_cast<double>(left.it_value.tv_usec);
}
#else
timer_t timer;
int timer_signal() { return SIGRTMIN + 9; }
int this_thread() { return static_cast<int>(syscall(SYS_gettid)); }
void own_thread() { runtime.system_thread = this_thread(); }
bool start_clock(double seconds) {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = timer_signal();
#ifdef sigev_notify_thread_id
    event.sigev_notify_thread_id = runtime.system_thread;
#else
    event._sigev_un._tid = runtime.system_thread;
#endif
    if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) != 0) return false;
    itimerspec when{};
    when.it_value.tv_sec = static_cast<time_t>(seconds);
    when.it_value.tv_nsec = static_cast<long>((seconds - static_cast<double>(when.it_value.tv_sec)) * 1e9);
    timer_settime(timer, 0, &when, nullptr);
    return true;
}
double stop_clock() {
    itimerspec left{};
    timer_gettime(timer, &left);
    timer_delete(timer);
    return static_cast<double>(left.it_value.tv_sec) + 1e-9 * static_cast<double>(left.it_value.tv_nsec);
}
#endif
bool timer_made = false;

bool in_kernel() { return runtime.in_kernel && runtime.current && runtime.system_thread == this_thread(); }

// Where the signal met the thread, as a return address would say it (one past the instruction's first byte).
std::uint32_t interrupted_place(const void* context) {
    const auto* machine = &static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__APPLE__) && defined(__x86_64__)
    const auto at = static_cast<std::uintptr_t>((*machine)->__ss.__rip);
#elif defined(__APPLE__)
    const auto at = static_cast<std::uintptr_t>(__darwin_arm_thread_state64_get_pc((*machine)->__ss));
#elif defined(__x86_64__)
    const auto at = static_cast<std::uintptr_t>(machine->gregs[REG_RIP]);
#elif defined(__aarch64__)
    const auto at = static_cast<std::uintptr_t>(machine->pc);
#else
    const std::uintptr_t at = 0;
    (void)machine;
#endif
    return in_library(at) ? place(reinterpret_cast<const void*>(at + 1)) : runtime.last_place;
}

void on_crash(int signal_number, siginfo_t* info, void* context) {
    if (in_kernel()) {
        const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
        const bool stack = signal_number != SIGFPE && address >= runtime.stacks_low && address < runtime.stacks_high;
        stop(stack ? kStackOverflow : kCrash, interrupted_place(context), 0, address,
             static_cast<std::uint64_t>(signal_number));
    }
    // Not the kernel's: let it happen again with the handler that was there before.
    for (int i = 0; i < 4; ++i) {
        if (kSignals[i] == signal_number) sigaction(signal_number, &before[i], nullptr);
    }
}

void on_timer(int, siginfo_t*, void* context) {
#ifdef __APPLE__
    if (!this_thread()) {  // the process's clock may ring in any thread
        pthread_kill(kernel_thread, timer_signal());
        return;
    }
#endif
    if (in_kernel()) stop(kTooLong, interrupted_place(context));
    runtime.late = true;  // between two threads: the scheduler looks
}

}  // namespace

__attribute__((visibility("hidden"))) Guard::Guard() {
    own_thread();
    stack_t stack{};
    stack.ss_sp = handler_stack;
    stack.ss_size = sizeof handler_stack;
    sigaltstack(&stack, &before_stack);
    struct sigaction action{};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    action.sa_sigaction = on_crash;
    for (int i = 0; i < 4; ++i) sigaction(kSignals[i], &action, &before[i]);
    action.sa_sigaction = on_timer;
    sigaction(timer_signal(), &action, &before_timer);

    runtime.late = false;
    timer_made = runtime.library && start_clock(cpu_seconds_left < 1e-3 ? 1e-3 : cpu_seconds_left);
}

__attribute__((visibility("hidden"))) Guard::~Guard() {
    if (timer_made) cpu_seconds_left = stop_clock();
    for (int i = 0; i < 4; ++i) sigaction(kSignals[i], &before[i], nullptr);
    sigaction(timer_signal(), &before_timer, nullptr);
    sigaltstack(&before_stack, nullptr);
}

}  // namespace kh
