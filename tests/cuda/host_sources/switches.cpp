// Two fibers that hand over to each other, as two threads of a block do at a shuffle.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "fiber.h"

static kh::Fiber scheduler, first, second;
static volatile long count = 0;
static long wanted = 0;
static volatile double sums[2];
static int finished = 0;

static void run(kh::Fiber& own, kh::Fiber& other, double step, int which) {
    // Values that live in registers which a call keeps, as far as the compiler has them.
    double a = step, b = 2 * step, c = 3 * step;
    long i = 0, j = 7 * which, k = -which;
    for (; count < wanted; ++count) {
        a += step, b -= step, c += 2 * step, i += 1, j += 2, k -= 3;
        kh::switch_fiber(own, other);
    }
    sums[which] = a + b + c + static_cast<double>(i + j + k);
    kh::switch_fiber(own, ++finished == 1 ? other : scheduler);
}
static void one() { run(first, second, 0.5, 0); }
static void two() { run(second, first, 0.25, 1); }

int main(int, char** arguments) {
    wanted = std::atol(arguments[1]);
    constexpr std::size_t size = 64 * 1024;
    kh::prepare(first, std::malloc(size), size, one);
    kh::prepare(second, std::malloc(size), size, two);
    const auto start = std::chrono::steady_clock::now();
    kh::switch_fiber(scheduler, first);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - start;
    std::printf("%.3f %.17g %.17g\n", spent.count() / static_cast<double>(wanted), sums[0], sums[1]);
}
