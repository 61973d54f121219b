// CUDA's blocks, warps and shuffles on one core: the kernels compile as plain C++.
//
// Each thread of a block is a fiber with its own stack. A fiber runs until it waits for its warp or
// its block, and all go on when all have arrived. Blocks run one after the other, so shared memory
// is a static variable, and an atomic is a plain operation.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__x86_64__) || defined(__aarch64__)
#define OWN_SWITCH  // far cheaper than ucontext, which asks the system at every switch
#else
#include <ucontext.h>
#endif

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static
#define __restrict__ __restrict
#define __launch_bounds__(...)

using std::isnan;
using std::min;

struct dim3 {
    unsigned x, y, z;
};
static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {

enum { READY, AT_WARP, AT_BLOCK, DONE };
const int MOST = 1024;
const std::size_t STACK = (16 << 10) + 320;  // no power of 2: all stacks would share cache lines

static int state[MOST];
static int current, n_threads;
static double slots[2][MOST];
static unsigned char parity[MOST];
static void (*body)(void**);
static void** arguments;
static char* stacks;

static void run_thread() {
    body(arguments);
    state[current] = DONE;
}

#if defined(OWN_SWITCH)
static void* place[MOST];
static void* home;

// Saves what a function must preserve on the stack, and goes on with another stack.
extern "C" void hdsl_switch(void** from, void* to);
#if defined(__x86_64__)
const int WORDS = 8, RETURN = 6;  // as a call leaves the stack: 8 bytes off a multiple of 16
asm(".text\n.globl hdsl_switch\n.hidden hdsl_switch\nhdsl_switch:\n"
    "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
    "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
    "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");
#else
const int WORDS = 20, RETURN = 11;
asm(".text\n.globl hdsl_switch\n.hidden hdsl_switch\nhdsl_switch:\n"
    "sub sp, sp, #160\n"
    "stp x19, x20, [sp]\nstp x21, x22, [sp, #16]\nstp x23, x24, [sp, #32]\n"
    "stp x25, x26, [sp, #48]\nstp x27, x28, [sp, #64]\nstp x29, x30, [sp, #80]\n"
    "stp d8, d9, [sp, #96]\nstp d10, d11, [sp, #112]\nstp d12, d13, [sp, #128]\n"
    "stp d14, d15, [sp, #144]\n"
    "mov x9, sp\nstr x9, [x0]\nmov sp, x1\n"
    "ldp x19, x20, [sp]\nldp x21, x22, [sp, #16]\nldp x23, x24, [sp, #32]\n"
    "ldp x25, x26, [sp, #48]\nldp x27, x28, [sp, #64]\nldp x29, x30, [sp, #80]\n"
    "ldp d8, d9, [sp, #96]\nldp d10, d11, [sp, #112]\nldp d12, d13, [sp, #128]\n"
    "ldp d14, d15, [sp, #144]\n"
    "add sp, sp, #160\nret\n");
#endif

static void leave() { hdsl_switch(&place[current], home); }
static void enter(int t) { hdsl_switch(&home, place[t]); }
static void begin() {
    run_thread();
    leave();
}
static void prepare(int t) {
    void** top = reinterpret_cast<void**>(stacks + (t + 1) * STACK) - WORDS;
    std::memset(top, 0, WORDS * sizeof(void*));
    top[RETURN] = reinterpret_cast<void*>(&begin);
    place[t] = top;
}
#else
static ucontext_t place[MOST], home;
static void leave() { swapcontext(&place[current], &home); }
static void enter(int t) { swapcontext(&home, &place[t]); }
static void prepare(int t) {
    getcontext(&place[t]);
    place[t].uc_stack.ss_sp = stacks + t * STACK;
    place[t].uc_stack.ss_size = STACK;
    place[t].uc_link = &home;
    makecontext(&place[t], run_thread, 0);
}
#endif

static void wait_at(int where) {
    state[current] = where;
    leave();
}

static bool release(int first, int last, int where) {
    int waiting = 0;
    for (int t = first; t < last; t++) {
        if (state[t] == where) waiting++;
        else if (state[t] != DONE) return false;
    }
    for (int t = first; t < last; t++)
        if (state[t] == where) state[t] = READY;
    return waiting > 0;
}

static bool run_block() {
    for (int t = 0; t < n_threads; t++) {
        state[t] = READY;
        parity[t] = 0;
        prepare(t);
    }
    for (;;) {
        int done = 0;
        bool ran = false;
        for (int t = 0; t < n_threads; t++) {
            if (state[t] == READY) {
                current = t;
                threadIdx.x = t;
                enter(t);
                ran = true;
            }
            done += state[t] == DONE;
        }
        if (done == n_threads) return true;
        bool freed = false;
        for (int first = 0; first < n_threads; first += 32)
            freed |= release(first, first + 32 < n_threads ? first + 32 : n_threads, AT_WARP);
        freed |= release(0, n_threads, AT_BLOCK);
        if (!freed && !ran) return false;  // some wait for what others will never do
    }
}

template <class T> static T exchange(T value, int source) {
    static_assert(sizeof(T) <= 8, "one slot per thread");
    int at = parity[current] ^= 1;
    std::memcpy(&slots[at][current], &value, sizeof(T));
    wait_at(AT_WARP);
    int from = (current & ~31) + (source & 31);
    std::memcpy(&value, &slots[at][from < n_threads ? from : current], sizeof(T));
    return value;
}

static int launch(long long grid, long long block, void (*kernel)(void**), void** given) {
    if (grid < 1 || block < 1 || block > MOST || block % 32) return 1;
    if (stacks == nullptr) stacks = static_cast<char*>(std::malloc(MOST * STACK));
    body = kernel;
    arguments = given;
    n_threads = static_cast<int>(block);
    gridDim = {static_cast<unsigned>(grid), 1, 1};
    blockDim = {static_cast<unsigned>(block), 1, 1};
    for (long long b = 0; b < grid; b++) {
        blockIdx = {static_cast<unsigned>(b), 0, 0};
        if (!run_block()) return 2;
    }
    return 0;
}

template <class... A, std::size_t... I>
static void call(void (*kernel)(A...), void** given, std::index_sequence<I...>) {
    kernel(*static_cast<std::remove_const_t<A>*>(given[I])...);
}
template <class... A> static void call(void (*kernel)(A...), void** given) {
    call(kernel, given, std::index_sequence_for<A...>());
}
template <class... A> static constexpr int count(void (*)(A...)) { return sizeof...(A); }

}  // namespace emulator

static inline void __syncthreads() { emulator::wait_at(emulator::AT_BLOCK); }
static inline void __syncwarp(unsigned = ~0u) { emulator::wait_at(emulator::AT_WARP); }
static inline void __threadfence() {}

template <class T> static inline T __shfl_sync(unsigned, T value, int source) {
    return emulator::exchange(value, source);
}
template <class T> static inline T __shfl_xor_sync(unsigned, T value, int mask) {
    return emulator::exchange(value, (emulator::current & 31) ^ mask);
}
template <class T> static inline T __shfl_down_sync(unsigned, T value, int delta) {
    int lane = emulator::current & 31;
    return emulator::exchange(value, lane + delta < 32 ? lane + delta : lane);
}
template <class T> static inline T __shfl_up_sync(unsigned, T value, int delta) {
    int lane = emulator::current & 31;
    return emulator::exchange(value, lane >= delta ? lane - delta : lane);
}

static inline unsigned __ballot_sync(unsigned, int flag) {
    int at = emulator::parity[emulator::current] ^= 1;
    double mine = flag ? 1.0 : 0.0;
    emulator::slots[at][emulator::current] = mine;
    emulator::wait_at(emulator::AT_WARP);
    unsigned all = 0;
    for (int lane = 0; lane < 32; lane++)
        if (emulator::slots[at][(emulator::current & ~31) + lane] == 1.0) all |= 1u << lane;
    return all;
}
static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline int __ffs(int bits) { return __builtin_ffs(bits); }
static inline int __float2int_ru(float x) {
    return std::isnan(x) ? 0 : static_cast<int>(std::ceil(x));
}

template <class T> static inline T atomicAdd(T* place, T value) {
    static_assert(std::is_integral<T>::value, "sums of floats have a fixed order");
    T old = *place;
    *place += value;
    return old;
}
template <class T> static inline T atomicOr(T* place, T value) {
    T old = *place;
    *place |= value;
    return old;
}
static inline double __longlong_as_double(long long bits) {
    double value;
    std::memcpy(&value, &bits, 8);
    return value;
}
template <class T> static inline T __ldg(const T* place) { return *place; }
