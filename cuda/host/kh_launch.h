// A launch. The translator turns `k<<<grid, block, bytes, stream>>>(args)` into
// `kh_launch("k", __LINE__, k, grid, block, bytes, stream)(args)`; the arguments are converted to the kernel's
// parameter types exactly once, as on the GPU, and every thread gets its own copy.
#pragma once

#include <setjmp.h>

extern "C" jmp_buf* kh_launcher(int begins);
extern "C" void kh_run(const char* name, int line, void (*thread)(void*), void* arguments,
                       std::size_t arguments_bytes, const unsigned* grid, const unsigned* block, std::size_t shared_bytes);

template <class... P>
struct KhLaunch {
    const char* name;
    int line;
    void (*kernel)(P...);
    dim3 grid, block;
    std::size_t shared_bytes;

    struct Call {
        void (*kernel)(P...);
        std::tuple<P...> arguments;
    };

    static void thread(void* call) {
        auto* c = static_cast<Call*>(call);
        std::apply(c->kernel, c->arguments);
    }

    void operator()(P... arguments) const {
        Call call{kernel, std::tuple<P...>(arguments...)};
        const unsigned g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
        kh_run(name, line, &thread, &call, sizeof(call), g, b, shared_bytes);
    }
};

template <class... P>
KhLaunch<P...> kh_launch(const char* name, int line, void (*kernel)(P...), dim3 grid, dim3 block,
                         std::size_t shared_bytes = 0, cudaStream_t = nullptr) {
    return {name, line, kernel, grid, block, shared_bytes};
}

// The same where the arguments choose the kernel, a template or an overload.
template <class F>
struct KhLaunchAny {
    const char* name;
    int line;
    F kernel;
    dim3 grid, block;
    std::size_t shared_bytes;

    template <class... A>
    void operator()(A... arguments) const {
        struct Call {
            const F* kernel;
            std::tuple<A...> arguments;
        } call{&kernel, std::tuple<A...>(arguments...)};
        const unsigned g[3] = {grid.x, grid.y, grid.z}, b[3] = {block.x, block.y, block.z};
        void (*thread)(void*) = [](void* given) {
            auto* c = static_cast<Call*>(given);
            std::apply(*c->kernel, c->arguments);
        };
        kh_run(name, line, thread, &call, sizeof(call), g, b, shared_bytes);
    }
};

template <class F>
KhLaunchAny<F> kh_launch_any(const char* name, int line, F kernel, dim3 grid, dim3 block, std::size_t shared_bytes = 0,
                             cudaStream_t = nullptr) {
    return {name, line, kernel, grid, block, shared_bytes};
}

// For Python: three letters a parameter. What it is ('r' pointer to const, 'w' pointer, 's' stream, else as a number),
// the size of what it points to, and what that is (float, int, unsigned, other).
template <class T>
constexpr char kh_number() {
    if (std::is_same_v<T, bool>) return 'b';
    if (std::is_floating_point_v<T>) return sizeof(T) == 4 ? 'f' : 'd';
    if (!std::is_enum_v<T> && !std::is_integral_v<T>) return '?';
    if (sizeof(T) == 8) return std::is_signed_v<T> ? 'l' : 'L';
    return sizeof(T) == 4 ? (std::is_signed_v<T> ? 'i' : 'I') : '?';
}

template <class T>
constexpr char kh_letter(int which) {
    if constexpr (std::is_same_v<T, cudaStream_t>) {
        return which == 0 ? 's' : '0';
    } else if constexpr (std::is_pointer_v<T> && !std::is_void_v<std::remove_pointer_t<T>>) {
        using E = std::remove_cv_t<std::remove_pointer_t<T>>;
        if (which == 0) return std::is_const_v<std::remove_pointer_t<T>> ? 'r' : 'w';
        if (which == 1) return static_cast<char>('0' + (sizeof(E) < 64 ? sizeof(E) : 0));
        return std::is_floating_point_v<E> ? 'f' : !std::is_integral_v<E> ? '?' : std::is_signed_v<E> ? 'i' : 'u';
    } else if constexpr (std::is_pointer_v<T>) {
        return which == 0 ? (std::is_const_v<std::remove_pointer_t<T>> ? 'r' : 'w') : which == 1 ? '0' : '?';
    } else {
        return which == 0 ? kh_number<T>() : '0';
    }
}

template <class R, class... P>
void kh_signature(R (*)(P...), char* letters) {
    ((*letters++ = kh_letter<P>(0), *letters++ = kh_letter<P>(1), *letters++ = kh_letter<P>(2)), ...);
    *letters = 0;
}

template <class... P, std::size_t... I>
void kh_call_kernel(const char* name, void (*kernel)(P...), void** values, const unsigned* grid, const unsigned* block,
                    std::size_t shared_bytes, std::index_sequence<I...>) {
    kh_launch(name, 0, kernel, dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2]),
              shared_bytes)(*static_cast<std::remove_reference_t<P>*>(values[I])...);
}

template <class... P>
void kh_call(const char* name, void (*kernel)(P...), void** values, const unsigned* grid, const unsigned* block,
             std::size_t shared_bytes) {
    kh_call_kernel(name, kernel, values, grid, block, shared_bytes, std::index_sequence_for<P...>());
}

template <class R, class... P, std::size_t... I>
long long kh_call_host_with(R (*function)(P...), void** values, std::index_sequence<I...>) {
    if (_setjmp(*kh_launcher(1))) {  // the runtime gave the launcher up
        kh_launcher(0);
        return cudaErrorLaunchFailure;
    }
    if constexpr (std::is_void_v<R>) {
        function(*static_cast<std::remove_reference_t<P>*>(values[I])...);
        kh_launcher(0);
        return 0;
    } else {
        const auto result = static_cast<long long>(function(*static_cast<std::remove_reference_t<P>*>(values[I])...));
        kh_launcher(0);
        return result;
    }
}

template <class R, class... P>
long long kh_call_host(R (*function)(P...), void** values) {
    return kh_call_host_with(function, values, std::index_sequence_for<P...>());
}
