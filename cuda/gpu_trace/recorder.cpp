// The host half of the recorder: a library that the CUDA driver loads into a program (CUDA_INJECTION64_PATH), patches
// every kernel of the program, and writes each launch's memory accesses to a file.
//
//   GPU_TRACE_PATCHES   the fatbin of patches.cu
//   GPU_TRACE_FILE      where the accesses go
//   GPU_TRACE_CAPACITY  accesses a launch may make (default 4194304, 32 bytes of device memory each)
//   GPU_TRACE_VERBOSE   1: say on standard error what happens
//
// A launch is waited for and copied out as soon as it has been made, so a program's launches run one after another.
// Every error is a line on standard error that begins with "gpu_trace:", and the end of the file is missing then:
// "KLEND..1" is written last, and only if nothing went wrong.
#include <sanitizer.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "access.h"

namespace {

struct Pending {
    LaunchHeader header;
    std::string name;
    CUcontext context;
    Sanitizer_StreamHandle stream;
    Log* device_log;
    Access* device_accesses;
};

struct Recorder {
    std::recursive_mutex mutex;
    std::FILE* file = nullptr;
    std::string patches;
    unsigned long long capacity = 4194304;
    bool verbose = false;
    bool failed = false;
    bool started = false;
    bool copying = false;
    unsigned modules = 0;
    std::set<CUcontext> patched_contexts;
    std::vector<Pending> pending;
    Sanitizer_SubscriberHandle subscriber = nullptr;
};

Recorder& recorder() {
    static Recorder* one = new Recorder;  // never destroyed: callbacks may come during exit
    return *one;
}

__attribute__((format(printf, 1, 2))) void fail(const char* format, ...) {
    recorder().failed = true;
    std::va_list values;
    va_start(values, format);
    std::fputs("gpu_trace: ", stderr);
    std::vfprintf(stderr, format, values);
    std::fputc('\n', stderr);
    va_end(values);
}

__attribute__((format(printf, 1, 2))) void say(const char* format, ...) {
    if (!recorder().verbose) {
        return;
    }
    std::va_list values;
    va_start(values, format);
    std::fputs("gpu_trace: ", stderr);
    std::vfprintf(stderr, format, values);
    std::fputc('\n', stderr);
    va_end(values);
}

bool check(SanitizerResult result, const char* call) {
    if (result == SANITIZER_SUCCESS) {
        say("%s: ok", call);
        return true;
    }
    const char* words = nullptr;
    sanitizerGetResultString(result, &words);
    fail("%s failed with status %d (%s).", call, static_cast<int>(result), words != nullptr ? words : "no words for it");
    return false;
}

#define CHECK(call) check((call), #call)

void write(const void* data, size_t bytes) {
    std::FILE* file = recorder().file;
    if (file != nullptr && std::fwrite(data, 1, bytes, file) != bytes) {
        fail("the accesses could not be written: %s.", std::strerror(errno));
    }
}

void patch(const Sanitizer_ResourceModuleData& data) {
    Recorder& state = recorder();
    say("module %u loaded, %zu bytes", state.modules, data.cubinSize);
    ++state.modules;
    if (state.patched_contexts.insert(data.context).second &&
        !CHECK(sanitizerAddPatchesFromFile(state.patches.c_str(), data.context))) {
        return;
    }
    if (CHECK(sanitizerPatchInstructions(SANITIZER_INSTRUCTION_GLOBAL_MEMORY_ACCESS, data.module, "RecordGlobal")) &&
        CHECK(sanitizerPatchInstructions(SANITIZER_INSTRUCTION_SHARED_MEMORY_ACCESS, data.module, "RecordShared")) &&
        CHECK(sanitizerPatchInstructions(SANITIZER_INSTRUCTION_LOCAL_MEMORY_ACCESS, data.module, "RecordLocal"))) {
        CHECK(sanitizerPatchModule(data.module));
    }
}

void begin(const Sanitizer_LaunchData& data) {
    Recorder& state = recorder();
    Pending launch{};
    launch.name = data.functionName != nullptr ? data.functionName : "";
    launch.context = data.context;
    launch.stream = data.hStream;
    std::memcpy(launch.header.magic, "KLAUNCH1", 8);
    const uint32_t grid[3] = {data.gridDim_x, data.gridDim_y, data.gridDim_z};
    const uint32_t block[3] = {data.blockDim_x, data.blockDim_y, data.blockDim_z};
    std::memcpy(launch.header.grid, grid, sizeof grid);
    std::memcpy(launch.header.block, block, sizeof block);
    launch.header.name_bytes = static_cast<uint32_t>(launch.name.size());
    launch.header.access_bytes = sizeof(Access);
    uint64_t pc = 0;
    uint64_t size = 0;
    if (sanitizerGetFunctionPcAndSize(data.module, launch.name.c_str(), &pc, &size) == SANITIZER_SUCCESS) {
        launch.header.function_pc = pc;
    }
    say("launch of %s, grid %u %u %u, block %u %u %u", launch.name.c_str(), grid[0], grid[1], grid[2], block[0],
        block[1], block[2]);

    void* accesses = nullptr;
    void* log = nullptr;
    if (!CHECK(sanitizerAlloc(data.context, &accesses, state.capacity * sizeof(Access))) ||
        !CHECK(sanitizerAlloc(data.context, &log, sizeof(Log)))) {
        return;
    }
    launch.device_accesses = static_cast<Access*>(accesses);
    launch.device_log = static_cast<Log*>(log);
    Log host = {0, state.capacity, launch.device_accesses};
    if (!CHECK(sanitizerMemcpyHostToDeviceAsync(log, &host, sizeof host, data.hStream))) {
        return;
    }
    // The launch's own setter exists on newer drivers only; the function's does for any, and serves here as well, for a
    // program that launches from one thread.
    if (sanitizerSetLaunchCallbackData(data.hLaunch, data.function, data.hStream, log) != SANITIZER_SUCCESS &&
        !CHECK(sanitizerSetCallbackData(data.function, log))) {
        return;
    }
    state.pending.push_back(launch);
}

void copy_out(Pending& launch) {
    Recorder& state = recorder();
    Log host = {};
    if (!CHECK(sanitizerMemcpyDeviceToHost(&host, launch.device_log, sizeof host, launch.stream))) {
        return;
    }
    const unsigned long long kept = std::min(host.asked, host.capacity);
    say("%s made %llu accesses", launch.name.c_str(), host.asked);
    if (host.asked > host.capacity) {
        fail("%s made %llu accesses and there is room for %llu; set GPU_TRACE_CAPACITY to %llu or more.",
             launch.name.c_str(), host.asked, host.capacity, host.asked);
    }
    std::vector<Access> accesses(kept);
    if (kept > 0 && !CHECK(sanitizerMemcpyDeviceToHost(accesses.data(), launch.device_accesses, kept * sizeof(Access),
                                                       launch.stream))) {
        return;
    }
    launch.header.asked = host.asked;
    launch.header.recorded = kept;
    write(&launch.header, sizeof launch.header);
    write(launch.name.data(), launch.name.size());
    write(accesses.data(), accesses.size() * sizeof(Access));
    if (state.file != nullptr) {
        std::fflush(state.file);  // what was copied survives a program that dies
    }
    CHECK(sanitizerFree(launch.context, launch.device_accesses));
    CHECK(sanitizerFree(launch.context, launch.device_log));
}

// Everything pending is complete. Copies may report a synchronisation of their own.
void copy_all() {
    Recorder& state = recorder();
    if (state.copying) {
        return;
    }
    state.copying = true;
    std::vector<Pending> done;
    done.swap(state.pending);
    for (Pending& launch : done) {
        copy_out(launch);
    }
    state.copying = false;
}

void SANITIZERAPI on_event(void*, Sanitizer_CallbackDomain domain, Sanitizer_CallbackId id, const void* data) {
    Recorder& state = recorder();
    const std::lock_guard<std::recursive_mutex> lock(state.mutex);
    if (domain == SANITIZER_CB_DOMAIN_RESOURCE && id == SANITIZER_CBID_RESOURCE_MODULE_LOADED) {
        patch(*static_cast<const Sanitizer_ResourceModuleData*>(data));
    } else if (domain == SANITIZER_CB_DOMAIN_RESOURCE && id == SANITIZER_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) {
        copy_all();
    } else if (domain == SANITIZER_CB_DOMAIN_LAUNCH && id == SANITIZER_CBID_LAUNCH_BEGIN) {
        begin(*static_cast<const Sanitizer_LaunchData*>(data));
    } else if (domain == SANITIZER_CB_DOMAIN_LAUNCH && id == SANITIZER_CBID_LAUNCH_END) {
        // Where the wait is refused, the launch stays pending until the program itself waits for the device.
        if (sanitizerStreamSynchronize(static_cast<const Sanitizer_LaunchData*>(data)->hStream) == SANITIZER_SUCCESS) {
            copy_all();
        } else {
            say("the launch could not be waited for; it is copied when the program waits");
        }
    } else if (domain == SANITIZER_CB_DOMAIN_SYNCHRONIZE) {
        copy_all();
    }
}

void finish() {
    Recorder& state = recorder();
    const std::lock_guard<std::recursive_mutex> lock(state.mutex);
    if (state.file == nullptr) {
        return;
    }
    if (!state.pending.empty()) {
        fail("%zu launches were never seen to end, so their accesses are lost; let the program wait for the device.",
             state.pending.size());
    }
    if (!state.failed) {
        write("KLEND..1", 8);
    }
    std::fclose(state.file);
    state.file = nullptr;
    say("finished, %s", state.failed ? "with errors" : "without an error");
}

int start() {
    Recorder& state = recorder();
    const std::lock_guard<std::recursive_mutex> lock(state.mutex);
    if (state.started) {
        return 1;
    }
    state.started = true;
    const char* verbose = std::getenv("GPU_TRACE_VERBOSE");
    state.verbose = verbose != nullptr && std::strcmp(verbose, "1") == 0;
    const char* patches = std::getenv("GPU_TRACE_PATCHES");
    const char* path = std::getenv("GPU_TRACE_FILE");
    if (patches == nullptr || path == nullptr) {
        fail("GPU_TRACE_PATCHES and GPU_TRACE_FILE must name the patches and the output.");
        return 0;
    }
    state.patches = patches;
    if (const char* capacity = std::getenv("GPU_TRACE_CAPACITY")) {
        char* end = nullptr;
        state.capacity = std::strtoull(capacity, &end, 10);
        if (end == capacity || *end != '\0' || state.capacity == 0) {
            fail("GPU_TRACE_CAPACITY is '%s'; it is a number of accesses, at least 1.", capacity);
            return 0;
        }
    }
    state.file = std::fopen(path, "wb");
    if (state.file == nullptr) {
        fail("%s cannot be written: %s.", path, std::strerror(errno));
        return 0;
    }
    if (!CHECK(sanitizerSubscribe(&state.subscriber, on_event, nullptr)) ||
        !CHECK(sanitizerEnableDomain(1, state.subscriber, SANITIZER_CB_DOMAIN_RESOURCE)) ||
        !CHECK(sanitizerEnableDomain(1, state.subscriber, SANITIZER_CB_DOMAIN_SYNCHRONIZE)) ||
        !CHECK(sanitizerEnableDomain(1, state.subscriber, SANITIZER_CB_DOMAIN_LAUNCH))) {
        return 0;
    }
    std::atexit(finish);
    return 1;
}

// The API must be subscribed to before the driver has made its first context. Loading is early enough; the driver also
// calls the function below, by its name.
__attribute__((constructor)) void loaded() { start(); }

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() { return start(); }
