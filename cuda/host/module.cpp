// Where this library lies in memory: what to subtract from an address to get what its symbol table and its debug
// information say, and the range of addresses that are its own.
#include "runtime.h"

#ifdef __APPLE__
#include <dlfcn.h>
#include <mach-o/dyld.h>
#include <mach-o/loader.h>
#else
#include <link.h>
#endif

namespace kh {

#ifdef __APPLE__

__attribute__((visibility("hidden"))) void find_module() {
    Dl_info own{};
    if (!dladdr(reinterpret_cast<const void*>(&find_module), &own)) return;
    for (std::uint32_t image = 0; image < _dyld_image_count(); ++image) {
        const auto* header = reinterpret_cast<const mach_header_64*>(_dyld_get_image_header(image));
        if (header != own.dli_fbase) continue;
        const auto slide = static_cast<std::uintptr_t>(_dyld_get_image_vmaddr_slide(image));
        std::uintptr_t low = ~std::uintptr_t(0), high = 0;
        const char* at = reinterpret_cast<const char*>(header + 1);
        for (std::uint32_t i = 0; i < header->ncmds; ++i) {
            const auto* command = reinterpret_cast<const load_command*>(at);
            at += command->cmdsize;
            if (command->cmd != LC_SEGMENT_64) continue;
            const auto* segment = reinterpret_cast<const segment_command_64*>(command);
            const std::uintptr_t start = slide + segment->vmaddr;
            if (start < low) low = start;
            if (start + segment->vmsize > high) high = start + segment->vmsize;
        }
        runtime.library = slide;
        runtime.library_low = low;
        runtime.library_high = high;
        return;
    }
}

#else

static int note_module(dl_phdr_info* info, std::size_t, void*) {
    const auto own = reinterpret_cast<std::uintptr_t>(&note_module);
    std::uintptr_t low = ~std::uintptr_t(0), high = 0;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const auto& part = info->dlpi_phdr[i];
        if (part.p_type != PT_LOAD) continue;
        const std::uintptr_t start = info->dlpi_addr + part.p_vaddr;
        if (start < low) low = start;
        if (start + part.p_memsz > high) high = start + part.p_memsz;
    }
    if (own < low || own >= high) return 0;
    runtime.library = info->dlpi_addr;
    runtime.library_low = low;
    runtime.library_high = high;
    return 1;
}

__attribute__((visibility("hidden"))) void find_module() { dl_iterate_phdr(note_module, nullptr); }

#endif

}  // namespace kh
