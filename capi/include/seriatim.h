// The C interface of seriatim, a dependency engine: push functions, say which variables each reads and which it changes,
// and they run in parallel in a safe order.
//
// Every function may be called from any thread, and takes its turn in the total order of all pushes: what one thread pushes
// after another's push has returned comes after it. Functions that can fail return a SeriatimStatus, 0 for success, and
// leave a text for seriatim_last_error(). No function unwinds, and no callback may: a C++ exception must not leave one.
//
// Errors that every function can return, if it has such arguments, are not repeated below:
// SERIATIM_STATUS_NULL_POINTER for a pointer that must not be null; SERIATIM_STATUS_BAD_ARGUMENT for a number that is none
// of its enumeration, or a list that does not fit into memory; SERIATIM_STATUS_INVALID_UTF8 for a text;
// SERIATIM_STATUS_PANICKED for a fault of the library. A place for a result that is a pointer is NULL after an error.
// Times are nanoseconds, sizes are numbers of elements, priorities are greater for what runs sooner.
//
// An argument given with a deleter is the engine's from the moment of the call, also if the call is refused: the deleter
// runs exactly once, on some thread, when nothing can use the argument any more.
//
// Generated from the sources by capi/tests/header.rs; changes made here are lost.

#ifndef SERIATIM_H
#define SERIATIM_H

#include <stddef.h>
#include <stdint.h>

// The version of this header: the first number, which grows with changes that programs must
// follow, once it is 1 or more.
#define SERIATIM_VERSION_MAJOR 0

// The second number, which grows with additions, and with changes that programs must follow while
// the first is 0.
#define SERIATIM_VERSION_MINOR 1

// The third number, which grows with corrections.
#define SERIATIM_VERSION_PATCH 0

// All three in one that can be compared: 1,000,000 × major + 1,000 × minor + patch.
#define SERIATIM_VERSION_NUMBER 1000

// The version of this interface. It grows when a program compiled against an older header would no
// longer work.
#define SERIATIM_ABI_VERSION 1

// What became of a call. More codes may be added: treat unknown ones as failures.
enum SeriatimStatus
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // It succeeded.
    SERIATIM_STATUS_OK = 0,
    // An operation returned an error, or its completion was told of one.
    SERIATIM_STATUS_OPERATION_FAILED = 1,
    // An operation panicked. Only operations written in Rust can.
    SERIATIM_STATUS_OPERATION_PANICKED = 2,
    // The completion of an asynchronous operation was dropped.
    SERIATIM_STATUS_COMPLETION_DROPPED = 3,
    // The variable was deleted before this call.
    SERIATIM_STATUS_VARIABLE_DELETED = 4,
    // The variable belongs to another engine.
    SERIATIM_STATUS_FOREIGN_VARIABLE = 5,
    // The operator belongs to another engine.
    SERIATIM_STATUS_FOREIGN_OPERATOR = 6,
    // No device has this number.
    SERIATIM_STATUS_UNKNOWN_DEVICE = 7,
    // The device exists in principle, but this build, machine or process cannot use it, or its
    // driver has refused a call. The text says which.
    SERIATIM_STATUS_DEVICE_UNAVAILABLE = 8,
    // As many operations are in flight as the bound allows, and the engine was told not to wait;
    // or an operation has more than 8 million variables, or a graph more than 500 million
    // operations.
    SERIATIM_STATUS_ENGINE_FULL = 9,
    // A setting has a name or a value that is not valid; the text lists those that are.
    SERIATIM_STATUS_BAD_SETTING = 10,
    // The system refused to start a thread.
    SERIATIM_STATUS_THREAD_REFUSED = 11,
    // A wait inside an operation could wait for that very operation.
    SERIATIM_STATUS_WAIT_INSIDE_OPERATION = 12,
    // The time was up first; the text names what is pending and behind what.
    SERIATIM_STATUS_TIMED_OUT = 13,
    // The engine is stopped, or was told of the shutdown.
    SERIATIM_STATUS_STOPPED = 14,
    // A value is in use, in a way that does not go with this use: an array, also by a GPU that has
    // still to copy; a parameter outside of its graph; or a handle of a library where it is made.
    SERIATIM_STATUS_BORROW_CONFLICT = 15,
    // The process has made four thousand million engines, and has no numbers for more.
    SERIATIM_STATUS_ENGINES_EXHAUSTED = 16,
    // An operation uses an array that it has not declared, or a value of Rust.
    SERIATIM_STATUS_UNDECLARED_ACCESS = 17,
    // The variable is private to a graph, and this call is not an operation of that graph.
    SERIATIM_STATUS_PRIVATE_VARIABLE = 18,
    // The system refused the real-time priority that `FIFO_PRIORITY` asks for, or has none.
    SERIATIM_STATUS_PRIORITY_REFUSED = 19,
    // The system refused to lock memory as `LOCK_MEMORY` asks for, or cannot.
    SERIATIM_STATUS_MEMORY_LOCK_REFUSED = 20,
    // The device takes no more work in this process: its driver said so.
    SERIATIM_STATUS_DEVICE_LOST = 21,
    // There is no memory left for an array on a GPU.
    SERIATIM_STATUS_OUT_OF_MEMORY = 22,
    // Arrays do not go together, or do not belong to the operation's GPU.
    SERIATIM_STATUS_BUFFER_MISMATCH = 23,
    // A stream of the program's cannot be put in order with the engine's, such as one that is
    // being captured.
    SERIATIM_STATUS_STREAM_REFUSED = 24,
    // The call is for operations that have a stream. This one runs on the processor, or is
    // asynchronous.
    SERIATIM_STATUS_NO_STREAM = 25,
    // The token of an operation was cancelled before the operation started, so it was skipped.
    SERIATIM_STATUS_CANCELLED = 26,
    // The time in which an operation had to start was up, so it was skipped.
    SERIATIM_STATUS_DEADLINE_EXCEEDED = 27,
    // An operation is to commute on a variable that was not made for that, or on a GPU.
    SERIATIM_STATUS_CANNOT_COMMUTE = 28,
    // A failure that this version of the interface has no code for.
    SERIATIM_STATUS_OTHER = 99,
    // A pointer that must not be null is null.
    SERIATIM_STATUS_NULL_POINTER = 100,
    // An argument is outside its range: the number of an enumeration, or the length of a list.
    SERIATIM_STATUS_BAD_ARGUMENT = 101,
    // A text is not valid UTF-8.
    SERIATIM_STATUS_INVALID_UTF8 = 102,
    // A file could not be written.
    SERIATIM_STATUS_INPUT_OUTPUT = 103,
    // The library itself panicked; the call may have been carried out in part.
    SERIATIM_STATUS_PANICKED = 104,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum SeriatimStatus SeriatimStatus;
#else
typedef int32_t SeriatimStatus;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What kind of work an operation is, which decides where it runs.
enum SeriatimProperty
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Computes on the workers of its device.
    SERIATIM_PROPERTY_NORMAL = 0,
    // Copies from a GPU: runs on the copy worker of its device, or on the engine's I/O worker if
    // its context is the processor.
    SERIATIM_PROPERTY_COPY_FROM_GPU = 1,
    // Copies to a GPU: as the one before.
    SERIATIM_PROPERTY_COPY_TO_GPU = 2,
    // Computes on the pool of workers kept for prioritised operations.
    SERIATIM_PROPERTY_CPU_PRIORITIZED = 3,
    // Computes on a GPU before its other operations.
    SERIATIM_PROPERTY_GPU_PRIORITIZED = 4,
    // Only starts something: runs on the pushing thread when it is ready at once.
    SERIATIM_PROPERTY_ASYNC = 5,
    // Deletes a variable: as `Async`, and runs even after `seriatim_engine_notify_shutdown()`.
    SERIATIM_PROPERTY_DELETE_VAR = 6,
    // Runs even when what it uses is marked by a failure.
    SERIATIM_PROPERTY_NO_SKIP = 7,
    // Computes for well under a microsecond, and waits for nothing that its pushing thread does
    // later: its push may run it. Of an asynchronous operation this is meant of its function,
    // which its push may call; its completion may be used at any time.
    SERIATIM_PROPERTY_SHORT = 8,
    // Reads or writes a file, or blocks otherwise, on the processor: runs on the engine's I/O
    // worker.
    SERIATIM_PROPERTY_IO = 9,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum SeriatimProperty SeriatimProperty;
#else
typedef uint32_t SeriatimProperty;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The kinds of devices.
enum SeriatimDevice
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The processor.
    SERIATIM_DEVICE_CPU = 0,
    // The processor, on memory that a GPU can copy from and to without the processor.
    SERIATIM_DEVICE_CPU_PINNED = 1,
    // A GPU.
    SERIATIM_DEVICE_GPU = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum SeriatimDevice SeriatimDevice;
#else
typedef uint32_t SeriatimDevice;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Where memory lies.
enum SeriatimMemory
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : uint32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // On the GPU.
    SERIATIM_MEMORY_DEVICE = 0,
    // On the processor's side, where the GPU can copy from and to without the processor.
    SERIATIM_MEMORY_PINNED = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum SeriatimMemory SeriatimMemory;
#else
typedef uint32_t SeriatimMemory;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// A stream that the engine does not launch on, and that it brings into the order of variables.
// Work on it stands between two calls: one has the stream wait, the other says what the work has
// used. Each is a push, at its place in the order of pushes. Between them nothing else that uses
// the variable may be pushed, on any thread.
typedef struct SeriatimAdoptedStream SeriatimAdoptedStream;

// An array of bytes on a GPU, or in pinned memory, and the variable that stands for it.
typedef struct SeriatimArray SeriatimArray;

// The settings of an engine to be made. Used by one thread at a time.
typedef struct SeriatimBuilder SeriatimBuilder;

// A graph that is being captured. What is pushed into it is recorded, and not run. Used by one
// thread at a time. It keeps its engine alive.
typedef struct SeriatimCapture SeriatimCapture;

// Ends an asynchronous operation, once: each function that takes one uses it up. A second use is
// refused.
//
// Copy it, compare it and hand it to these functions. It is no address: keep all its bits, and do
// not look at what it points to.
typedef struct SeriatimCompletion SeriatimCompletion;

// An engine. Several handles may be the same engine: see `seriatim_engine_clone()`.
typedef struct SeriatimEngine SeriatimEngine;

// A GPU of an engine. As long as there is one, or an array or an adopted stream of it, the engine
// does not end.
typedef struct SeriatimGpu SeriatimGpu;

// A captured graph. A replay is one operation of the engine: it uses all variables of the captured
// operations but those that are private to the graph, and takes its turn among other pushes as if
// they had all been pushed in a row at that moment. A graph may outlive the other handles of its
// engine. When those are gone, its replays fail with `SERIATIM_STATUS_STOPPED`.
typedef struct SeriatimGraph SeriatimGraph;

// A reusable operation. May be pushed again while earlier uses are in flight, and may outlive its
// engine.
typedef struct SeriatimOperator SeriatimOperator;

// A parameter of a graph, from `seriatim_capture_parameter()`. Its value is a pointer with a
// deleter.
typedef struct SeriatimParameter SeriatimParameter;

// A captured pipeline. Each replay pushes the captured operations one by one, so that an operation
// runs as soon as those of the replay before have let go of its variables. It may outlive the
// other handles of its engine. When those are gone, its replays fail with
// `SERIATIM_STATUS_STOPPED`.
typedef struct SeriatimPipeline SeriatimPipeline;

// A value to which operations add parts at once, from `seriatim_reduction_new()`. Any thread may
// use the handle, and several at once.
typedef struct SeriatimReduction SeriatimReduction;

// What an operation is told when it runs. Belongs to the thread that the function was called on,
// and is valid until it returns.
typedef struct SeriatimRunContext SeriatimRunContext;

// Cancels a group of operations: those that are pushed with it, to any engine. An operation whose
// turn comes after `seriatim_token_cancel()` is skipped, like one that depends on a failed
// operation: its function is not called, its deleter runs, and it fails with
// `SERIATIM_STATUS_CANCELLED`. That marks what it changes, so that operations that use it are
// skipped as well, also those outside of the group, until a wait takes the error. It keeps its
// place among the uses of its variables. What has started goes on; on a GPU that is what was
// queued.
typedef struct SeriatimToken SeriatimToken;

// A setting: its name and its value, as an environment variable has them. The names are those of
// the environment variables, with or without `SERIATIM_` in front:
//
// - `ENGINE`: `per-device` (default), `pooled`, or `naive`, which runs each operation in its push
//   and has no threads.
// - `CPU_WORKERS`: threads for the processor, 1 to 1024; default: one less than there are cores,
//   at least 1.
// - `PRIORITY_WORKERS`: threads for prioritised operations, 1 to 1024; default 4.
// - `GPU_WORKERS`: threads for each GPU, 1 to 16, beside its one copy worker; default 2. Asked for
//   in a build without GPUs, they are a warning.
// - `GPU_AHEAD`: how many operations are queued on a stream of a GPU at most before one is done, 1
//   to 1024; default 64.
// - `GPU_MEMORY`: the most bytes that the engine's buffers on each GPU come to; default 0, for no
//   limit.
// - `PIN`: whether workers are pinned to cores, `on` (default) or `off`.
// - `CORES`: the cores to pin to, such as `0,2-5`; default: those of the calling thread.
// - `MOVE_CALLERS`: whether a thread that has waited on a pinned worker's core is moved to another
//   one, instead of the worker, `on` or `off` (default).
// - `IDLE`: what idle workers do, `spin-then-park` (default), `spin` or `park`.
// - `SPIN_FOR`: microseconds that a worker looks for work before it parks, with `spin-then-park`;
//   default 400. After a pause that was longer, it looks for 25 µs at most.
// - `BOUND`: operations in flight at most; default 0, for no bound.
// - `WHEN_FULL`: what a push does at the bound, `block` (default), `help` (runs ready operations
//   meanwhile) or `would-block` (fails with `SERIATIM_STATUS_ENGINE_FULL`).
// - `WAITERS_HELP`: whether a thread that waits without a limit runs ready operations meanwhile,
//   `on` (default) or `off`. A thread that holds a lock which operations take must not wait then.
// - `INLINE_BELOW`: nanoseconds; operations whose functions have lately taken less run inside
//   their push if nothing holds them up. Default 0, for none; 300 is a good start for functions
//   that do almost nothing. What is learned is kept for each function. Of an asynchronous
//   operation the time counts until its function returns, and not until its completion is used. Do
//   not set it if a function may wait for something that a pushing thread does after the push: it
//   would wait for ever. No effect with a bound.
// - `NESTED_THREADS`: threads that one operation may use itself, 1 to 1024; default 1.
// - `FORK_PATIENCE`: milliseconds that a `fork` of the process waits for operations in flight,
//   default 100. If they take longer, the engine is of no use in the child, and says so.
// - `LOCK_MEMORY`: whether the memory of the engine's blocks is locked (`mlock`), `on` or `off`
//   (default). If the system refuses, making the engine or preparing it is
//   `SERIATIM_STATUS_MEMORY_LOCK_REFUSED`. The child of a `fork` locks it again.
// - `FIFO_PRIORITY`: the priority of all workers under `SCHED_FIFO`, 1 to 99; default 0, for none.
//   If the system refuses, preparing or starting the engine, or the first push that needs the
//   workers, is `SERIATIM_STATUS_PRIORITY_REFUSED`; making it, on a system without the policy. A
//   worker then takes its core from all threads without a priority, while it looks for work too.
// - `INFO`: whether the engine says on standard error what it starts and stops, `on` or `off`
//   (default).
// - `PUBLISH`: a folder; what `seriatim_stats()` says is then published once a second to other
//   processes, at a Unix socket there, which the program `seriatim-top` shows. Default: none.
typedef struct SeriatimSetting {
    // The name.
    const char *key;
    // The value.
    const char *value;
} SeriatimSetting;

// Is told of an error that nobody has waited for: what kind it is of, the name of the operation
// (null if it has none), and the text. Both texts are valid until it returns. It must not unwind.
typedef void (*SeriatimErrorHook)(void *argument, SeriatimStatus status, const char *operation, const char *text);

// Deletes an argument, such as `free`. Called exactly once, also for a null argument, on the
// thread that used the argument last or found it unusable. Must not unwind, and must not wait for
// the engine. So it must not delete what may be the engine's last handle: captures, GPUs, arrays
// and adopted streams are handles of it as well.
typedef void (*SeriatimDeleter)(void *argument);

// What an operation does. It ends when the function returns: 0 if all went well; anything else
// fails the operation, with the text of `seriatim_run_context_set_error()`. `run` is valid until
// the function returns.
//
// Called on a thread of the engine, or on one that pushes, waits or completes. Must not unwind.
typedef int (*SeriatimFunction)(void *argument, const struct SeriatimRunContext *run);

// A token for anything that operations read or change. A plain value: copying it copies the
// handle, not the variable. It knows its engine, and whether it was deleted, so that misuse is
// refused. All zeros are no variable of any engine. To compare two, compare both fields: the bytes
// behind them are anything.
typedef struct SeriatimVariable {
    // The engine and the place in it.
    uint64_t place;
    // Which of the variables that had this place one after another.
    uint32_t generation;
} SeriatimVariable;

// Where an operation runs: a device and its number. All zeros mean any worker of the processor; on
// the per-device engine a processor number of 1 and more prefers one worker, always the same for
// the same number.
typedef struct SeriatimContext {
    // A `SeriatimDevice`. A plain number, so that a wrong one can be refused.
    uint32_t device;
    // The number of the device, 0 to 1023.
    uint32_t id;
} SeriatimContext;

// An operation, but for its function. All zeros are an unnamed one without variables, on any
// worker of the processor.
//
// What it points to is copied during the call.
typedef struct SeriatimOperation {
    // The name, for errors and profiles; may be null. Each text is kept for the life of the
    // process, and found again under a lock: use few names, and none or an operator where every
    // nanosecond counts.
    const char *name;
    // Where it runs. Not looked at when an operator is made: each use says it.
    struct SeriatimContext context;
    // The variables that it reads. Repeats are harmless, and one that it also changes counts as
    // changed.
    const struct SeriatimVariable *reads;
    // How many those are.
    size_t read_count;
    // The variables that it changes.
    const struct SeriatimVariable *writes;
    // How many those are.
    size_t write_count;
    // A `SeriatimProperty`. A plain number, so that a wrong one can be refused.
    uint32_t property;
    // Among ready operations, greater priorities run first; equal ones in push order. Not looked
    // at when an operator is made.
    int32_t priority;
    // Not 0: records this operation as `seriatim_profile_start()` records all, whether the
    // profiler is on or not, if the operation has a name. That takes some 300 ns more. In a
    // captured graph it has no effect.
    uint32_t profiled;
    // Not 0: an operation of a graph, recorded by `seriatim_capture_push()`, that may be launched
    // with others as one graph of the driver. What asks for it and lies on one GPU between two
    // operations of the processor is then launched as a whole. Such a function is called in the
    // first replay, and in the next after a `seriatim_parameter_set()`, while its stream is
    // captured: it puts its work on `seriatim_run_context_stream()`, and does nothing else. What
    // it puts there is done in each replay, or nothing of the whole if one of the functions fails.
    // No effect elsewhere, and without graphs of the driver, as before CUDA 11.4.
    uint32_t device_graph;
} SeriatimOperation;

// What an asynchronous operation does: it starts something, which calls
// `seriatim_completion_complete()` or `seriatim_completion_fail()` when it is done, once, on any
// thread, possibly before the function returns. `run` is valid until the function returns. Must
// not unwind.
typedef void (*SeriatimAsyncFunction)(void *argument,
                                      const struct SeriatimRunContext *run,
                                      struct SeriatimCompletion *completion);

// Until when an operation may start. All zeros are no limits.
typedef struct SeriatimLimits {
    // The token of the operation's group; may be null. It may be deleted after the call.
    const struct SeriatimToken *token;
    // Not 0: the operation is skipped if it has not started so many nanoseconds after the call. It
    // then fails with `SERIATIM_STATUS_DEADLINE_EXCEEDED`, when its turn comes.
    uint64_t start_within;
} SeriatimLimits;

// Makes a part that adds nothing, such as a zero of a sum. Null says that there is no memory for
// it: the operation that needs the part fails. Called on any thread, also on several at once. Must
// not unwind, and must not wait for the engine.
typedef void *(*SeriatimIdentity)(void *argument);

// Adds `part` to `into`. The library deletes `part` afterwards. Returns 0 if all went well;
// anything else fails the operation or the read that uses the value next, and `part` is missing
// from the value then. Called by one thread at a time. Must not unwind, and must not wait for the
// engine.
typedef int (*SeriatimCombine)(void *argument, void *into, void *part);

// What the parts of a reduction are.
typedef struct SeriatimReducer {
    // Makes a part that adds nothing.
    SeriatimIdentity identity;
    // Adds one part to another.
    SeriatimCombine combine;
    // Deletes a part, such as `free`; may be null.
    SeriatimDeleter delete_part;
    // What `identity` and `combine` are given.
    void *argument;
    // Deletes the argument, when the reduction and its parts are gone; may be null.
    SeriatimDeleter deleter;
} SeriatimReducer;

// Looks at the value of a reduction. Must not unwind, and must not wait for the engine.
typedef void (*SeriatimValueFunction)(void *argument, const void *value);

// What an operation uses beside the variables of its `SeriatimOperation`. All zeros are nothing.
//
// What it points to is copied during the call.
typedef struct SeriatimReducing {
    // The reductions to whose copies it adds. One that is named twice gives two copies.
    const struct SeriatimReduction *const *reduces;
    // How many those are.
    size_t reduce_count;
    // The reductions whose values it uses, also to change them.
    const struct SeriatimReduction *const *wholes;
    // How many those are.
    size_t whole_count;
    // The commutative variables that it changes, as by `seriatim_push_commuting()`.
    const struct SeriatimVariable *commutes;
    // How many those are.
    size_t commute_count;
} SeriatimReducing;

// What an operation on reductions does: as a `SeriatimFunction`, but it is given what its
// `SeriatimReducing` names, in that order: the copies that it reduces, then the values that it
// uses. They are the function's until it returns.
typedef int (*SeriatimReducingFunction)(void *argument, void *const *parts, const struct SeriatimRunContext *run);

// Makes a handle of a library: puts it into `out` and returns 0, or returns something else. The
// GPU is current on the calling thread. Must not unwind.
typedef int (*SeriatimHandleFunction)(void *argument, void **out);

// How much memory an engine has of a GPU, in bytes of whole buffers.
typedef struct SeriatimMemoryUsage {
    // In arrays.
    size_t in_use;
    // In buffers of deleted arrays, which are kept for the next ones.
    size_t kept;
    // The most that was ever in arrays.
    size_t peak;
} SeriatimMemoryUsage;

// What an engine has done so far and has to do now. `size` is set by the caller, to
// `sizeof(SeriatimStats)`: later versions may have more fields behind these. Times are of all
// workers together.
typedef struct SeriatimStats {
    // The size of the struct, as the caller knows it; on return how much of it was written.
    uint64_t size;
    // The time since the engine was made.
    uint64_t time;
    // How many operations were pushed, waits that had to queue included.
    uint64_t pushed;
    // How many have completed, failed and skipped ones included.
    uint64_t completed;
    // How many are pushed and not complete.
    uint64_t in_flight;
    // How many of these do not run, and wait for nothing but a thread or a device.
    uint64_t ready;
    // How many of these run.
    uint64_t running;
    // How many workers there are: `seriatim_worker_stats()` tells of each.
    uint64_t workers;
    // How long workers were busy.
    uint64_t busy;
    // How long workers were idle: they looked for work, slept, or had no thread.
    uint64_t idle;
    // How often workers took operations from other threads.
    uint64_t steals;
    // How often workers have parked.
    uint64_t parks;
    // How many of the parks were ended for work.
    uint64_t wake_ups;
    // Blocks for operations that were made, free ones included.
    uint64_t blocks;
    // The bytes of these blocks.
    uint64_t block_bytes;
    // The most threads that have used the engine at once.
    uint64_t threads;
    // The most variables that there were at once.
    uint64_t variables;
} SeriatimStats;

// What one worker has done. `size` is set by the caller, to `sizeof(SeriatimWorkerStats)`.
typedef struct SeriatimWorkerStats {
    // The size of the struct, as the caller knows it; on return how much of it was written.
    uint64_t size;
    // How long it was busy.
    uint64_t busy;
    // How long it was idle: it looked for work, slept, or had no thread.
    uint64_t idle;
    // How often it took operations from another thread.
    uint64_t steals;
    // How often it has parked.
    uint64_t parks;
    // How many of the parks were ended for work.
    uint64_t wake_ups;
} SeriatimWorkerStats;

// What a wait that holds no thread calls when it is over, once: with
// `SERIATIM_STATUS_OK`, or with the failure, whose text `seriatim_last_error()` has on this thread
// until the function returns.
//
// Called on a thread of the engine, or on one that pushes, waits or completes; or inside the call
// that begins the wait, if it is over already. It should be short: the thread has other things to
// do. It must not wait for the engine, so it must not delete what may be its last handle. It must
// not unwind. It may push.
typedef void (*SeriatimReadyFunction)(void *argument, SeriatimStatus status);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library that is loaded, such as "0.1.0". The text lives as long as the
// program.
const char *seriatim_version(void);

// The version of the library that is loaded, as `SERIATIM_VERSION_NUMBER` has that of the header.
// A library may be newer than the header, by its third number and, from 1.0.0 on, by its second.
uint32_t seriatim_version_number(void);

// The version of the interface in the library that is loaded: to be compared with
// `SERIATIM_ABI_VERSION`, which is that of the header the program was compiled with.
uint32_t seriatim_abi_version(void);

// Begins with the defaults.
//
// # Errors
// Only those of every function.
//
// # Safety
// `out` may be written to.
SeriatimStatus seriatim_builder_new(struct SeriatimBuilder **out);

// Begins with the settings of the environment; what is set afterwards overrides them. An engine
// that is made without a builder, by `seriatim_engine_new()`, does not look at the environment.
//
// # Errors
// `SERIATIM_STATUS_BAD_SETTING` for an unknown variable that starts with `SERIATIM_`, or for a
// value that is not valid; the text names both, and lists what is valid.
//
// # Safety
// `out` may be written to.
SeriatimStatus seriatim_builder_from_environment(struct SeriatimBuilder **out);

// Changes `count` settings; the last one counts if a name comes twice. After an error none of them
// is changed.
//
// # Errors
// `SERIATIM_STATUS_BAD_SETTING`; the text lists what is valid.
//
// # Safety
// `builder` is a live handle, which no other thread uses at the same time. `settings` points to
// `count` settings, whose texts end with a zero byte; it may be null if `count` is 0.
SeriatimStatus seriatim_builder_set(struct SeriatimBuilder *builder,
                                    const struct SeriatimSetting *settings,
                                    size_t count);

// Gives the engine `count` GPUs that are the processor: what a function of theirs does is done
// when it returns, and their memory is the processor's. For programs that are written or tested
// where there is no GPU. Their only stream is null.
//
// # Errors
// Only those of every function.
//
// # Safety
// `builder` is a live handle, which no other thread uses at the same time.
SeriatimStatus seriatim_builder_immediate_gpus(struct SeriatimBuilder *builder, size_t count);

// Chooses who is told of an error that nobody waited for; without it a line on standard error is.
// A second call replaces the first.
//
// `hook` is called when the engine ends, which is when its last handle is deleted: once for each
// operation that failed and whose error no wait has returned or passed over, in the order of the
// pushes, on the thread that deletes the handle, or on one of its own if that is inside an
// operation of the engine. At most 16 errors are told so; one more call then says how many there
// are besides. `seriatim_engine_stop()` calls nothing, as the errors can still be waited for.
// `deleter` runs when the engine, its graphs and its parameters are gone.
//
// # Errors
// Only those of every function. The deleter then runs before the call returns.
//
// # Safety
// `builder` is a live handle, which no other thread uses at the same time. `hook` and `deleter`
// may be called with `argument` on any thread.
SeriatimStatus seriatim_builder_on_error(struct SeriatimBuilder *builder,
                                         SeriatimErrorHook hook,
                                         void *argument,
                                         SeriatimDeleter deleter);

// Makes the engine. Its threads start when they are first needed. The handle of the builder is
// gone afterwards, also if the call fails.
//
// # Errors
// `SERIATIM_STATUS_BAD_SETTING` if the settings do not go together; the text says which.
// `SERIATIM_STATUS_ENGINES_EXHAUSTED`. `SERIATIM_STATUS_MEMORY_LOCK_REFUSED` and
// `SERIATIM_STATUS_PRIORITY_REFUSED` for settings that the system does not follow.
//
// # Safety
// `builder` is a live handle, which is not used again. `out` may be written to.
SeriatimStatus seriatim_builder_build(struct SeriatimBuilder *builder, struct SeriatimEngine **out);

// Deletes a builder without making an engine; a null pointer is fine.
//
// # Errors
// Only those of every function.
//
// # Safety
// `builder` is null or a live handle, which is not used again.
SeriatimStatus seriatim_builder_delete(struct SeriatimBuilder *builder);

// Makes an engine with `count` settings; the last one counts if a name comes twice, and those that
// are not named have their defaults. `settings` may be null if `count` is 0. The engine's threads
// start when they are first needed.
//
// # Errors
// `SERIATIM_STATUS_BAD_SETTING`; the text lists what is valid.
// `SERIATIM_STATUS_ENGINES_EXHAUSTED`. `SERIATIM_STATUS_MEMORY_LOCK_REFUSED` and
// `SERIATIM_STATUS_PRIORITY_REFUSED` for settings that the system does not follow.
//
// # Safety
// `settings` points to `count` settings, whose texts end with a zero byte. `out` may be written
// to.
SeriatimStatus seriatim_engine_new(const struct SeriatimSetting *settings, size_t count, struct SeriatimEngine **out);

// Makes an engine with the settings of the environment. A variable that starts with `SERIATIM_`
// and is not a setting is refused.
//
// # Errors
// `SERIATIM_STATUS_BAD_SETTING`; the text lists what is valid.
// `SERIATIM_STATUS_ENGINES_EXHAUSTED`. `SERIATIM_STATUS_MEMORY_LOCK_REFUSED` and
// `SERIATIM_STATUS_PRIORITY_REFUSED` for settings that the system does not follow.
//
// # Safety
// `out` may be written to.
SeriatimStatus seriatim_engine_from_environment(struct SeriatimEngine **out);

// A handle to the engine of the process, which is made from the environment when it is first asked
// for, and which never ends: wait for it before `main` returns, or what is in flight then is lost.
//
// # Errors
// As `seriatim_engine_from_environment()`, each time it is called.
//
// # Safety
// `out` may be written to.
SeriatimStatus seriatim_engine_global(struct SeriatimEngine **out);

// Another handle to the same engine, so that parts of a program can own it together.
//
// # Errors
// Only those of every function.
//
// # Safety
// `engine` is a live handle. `out` may be written to.
SeriatimStatus seriatim_engine_clone(const struct SeriatimEngine *engine, struct SeriatimEngine **out);

// Deletes a handle; a null pointer is fine. With the last one the engine ends: it runs what is in
// flight, asynchronous operations included, then ends its threads, and only then does the call
// return. Inside one of the engine's own operations, where that would wait for itself, the call
// returns at once and the engine ends by itself. Errors that nobody has waited for go to the hook
// of `seriatim_builder_on_error()`, or to standard error.
//
// # Errors
// Only those of every function.
//
// # Safety
// `engine` is null or a live handle, which no call is using any more and which is not used again.
// An operation that deletes the handle with which it was pushed may run inside that very push:
// give it a clone.
SeriatimStatus seriatim_engine_delete(struct SeriatimEngine *engine);

// Does now what a first push would do else: brings all threads up, waits until they look for work,
// and gives the calling thread memory for 1,024 usual operations and 128 larger ones, with pages
// that have been touched. The thread's first push then takes about as long as a later one. Another
// thread that is to push calls it as well. `seriatim_engine_start()` is for an engine that was
// stopped; this one does not start it.
//
// # Errors
// `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`,
// `SERIATIM_STATUS_MEMORY_LOCK_REFUSED`, `SERIATIM_STATUS_STOPPED`.
// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` inside an operation of the same engine.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_engine_prepare(const struct SeriatimEngine *engine);

// Says how long calls of a function take, in nanoseconds, so that the first of them is placed as
// later ones are: see `INLINE_BELOW` and `SERIATIM_PROPERTY_SHORT`, without which this has no
// effect. Operators of the function are meant as well. Cast an asynchronous function to
// `SeriatimFunction`: it is not called. What is said counts like 32 measurements, or like 8 if it
// is above the limit: calls are measured later as ever, so a word that is wrong by a factor of two
// is corrected within 72 measurements. One call in 14 is measured, or each if something is
// unusual.
//
// # Errors
// `SERIATIM_STATUS_NULL_POINTER` for a null function.
//
// # Safety
// `engine` is a live handle. The function is not called.
SeriatimStatus seriatim_engine_expect_cost(const struct SeriatimEngine *engine,
                                           SeriatimFunction function,
                                           uint64_t nanoseconds);

// Runs what is in flight, then ends the threads. Pushes are refused until
// `seriatim_engine_start()`, but for those of operations that still run. Stopping twice is
// harmless.
//
// # Errors
// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` inside an operation of the same engine.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_engine_stop(const struct SeriatimEngine *engine);

// Starts a stopped engine. Starting twice is harmless.
//
// # Errors
// `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`: the engine is then still
// stopped.
// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` inside an operation of the same engine.
// `SERIATIM_STATUS_STOPPED` in the child of a `fork` that could not wait for the engine: make
// another.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_engine_start(const struct SeriatimEngine *engine);

// Changes how many threads one operation may use itself, 1 to 1024, for operations that begin from
// now on: what `seriatim_run_context_nested_threads()` says.
//
// # Errors
// `SERIATIM_STATUS_BAD_SETTING`; nothing changes then.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_engine_set_nested_threads(const struct SeriatimEngine *engine, size_t threads);

// Says that the process is about to end: from now on operations complete without running, but for
// deletions. Deleters run as ever.
//
// # Errors
// Only those of every function.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_engine_notify_shutdown(const struct SeriatimEngine *engine);

// The value of a setting that the engine has, as `SeriatimSetting` would set it, to be freed with
// `seriatim_string_free()`.
//
// # Errors
// `SERIATIM_STATUS_BAD_SETTING` for an unknown name; the text lists those that are known.
//
// # Safety
// `engine` is a live handle. `key` ends with a zero byte. `out` may be written to.
SeriatimStatus seriatim_engine_setting(const struct SeriatimEngine *engine, const char *key, char **out);

// What did not go as the settings asked and was not worth an error, such as pins that the system
// refused, or workers for GPUs that this build does not have: a line each, in a text to be freed
// with `seriatim_string_free()`.
//
// # Errors
// Only those of every function.
//
// # Safety
// `engine` is a live handle. `out` may be written to.
SeriatimStatus seriatim_engine_warnings(const struct SeriatimEngine *engine, char **out);

// What the last failing call of this thread has to say: what went wrong, where, and what to do
// about it. Empty if none has failed. Valid until the next failing call of the thread; calls that
// succeed leave it as it is. What functions, deleters and hooks do inside a call counts as well,
// so copy what is to be kept across one.
const char *seriatim_last_error(void);

// What a status code means, in a few words that live as long as the program; for codes whose error
// text is gone.
const char *seriatim_status_text(int32_t status);

// Makes a variable, at version 0.
//
// # Errors
// Only those of every function.
//
// # Safety
// `engine` is a live handle. `out` may be written to.
SeriatimStatus seriatim_variable_new(const struct SeriatimEngine *engine, struct SeriatimVariable *out);

// The number of operations completed that change the variable, failed and skipped ones included.
//
// # Errors
// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
// `SERIATIM_STATUS_PRIVATE_VARIABLE`.
//
// # Safety
// `engine` is a live handle. `out` may be written to.
SeriatimStatus seriatim_variable_version(const struct SeriatimEngine *engine,
                                         struct SeriatimVariable variable,
                                         uint64_t *out);

// Names a variable, for people: the name stands in the texts of errors that tell of the variable,
// in the graph of `seriatim_dump_dot()`, and in profiles. A second name replaces the first. The
// text is copied, and each different text is kept for the life of the process.
//
// # Errors
// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`.
//
// # Safety
// `engine` is a live handle. `name` ends with a zero byte.
SeriatimStatus seriatim_variable_set_name(const struct SeriatimEngine *engine,
                                          struct SeriatimVariable variable,
                                          const char *name);

// Deletes a variable: `function` runs after its last use, even if the variable is marked by a
// failure, and every copy of the handle is refused from now on. `function` may be null. If the
// deletion is refused, the variable lives on.
//
// # Errors
// As `seriatim_push()`. The deleter then runs before the call returns.
//
// # Safety
// `engine` is a live handle. `function` and `deleter` may be called with `argument` on any thread.
SeriatimStatus seriatim_variable_delete(const struct SeriatimEngine *engine,
                                        struct SeriatimVariable variable,
                                        struct SeriatimContext context,
                                        SeriatimFunction function,
                                        void *argument,
                                        SeriatimDeleter deleter);

// Pushes an operation that ends when its function returns. `deleter` then runs before the
// operation ends, so a wait that returns has seen both. On a GPU it runs when the function has
// returned as well, and what that has put on the stream is done later: nothing on the stream may
// use what the deleter frees.
//
// # Errors
// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
// `SERIATIM_STATUS_PRIVATE_VARIABLE`, `SERIATIM_STATUS_UNKNOWN_DEVICE`,
// `SERIATIM_STATUS_DEVICE_UNAVAILABLE`, `SERIATIM_STATUS_DEVICE_LOST`,
// `SERIATIM_STATUS_ENGINE_FULL` at the bound with `WHEN_FULL` set to `would-block`, or for more
// than 8 million variables, `SERIATIM_STATUS_STOPPED`. The push that finds workers missing starts
// them: then also `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`. The
// function is then not called, and the deleter runs before the call returns; but if another thread
// deletes a variable during the call, it may run later, when the other variables are free.
//
// # Safety
// `engine` is a live handle. `operation` points to an operation whose pointers are as it describes
// them, and whose texts end with a zero byte. `function` and `deleter` may be called with
// `argument` on any thread.
SeriatimStatus seriatim_push(const struct SeriatimEngine *engine,
                             const struct SeriatimOperation *operation,
                             SeriatimFunction function,
                             void *argument,
                             SeriatimDeleter deleter);

// Pushes an operation that ends when its completion says so. `deleter` runs when the function has
// returned and the completion has been used, whichever is later; on a GPU that may be before the
// operation ends (`seriatim_completion_complete_after()`).
//
// # Errors
// As `seriatim_push()`.
//
// # Safety
// As for `seriatim_push()`.
SeriatimStatus seriatim_push_async(const struct SeriatimEngine *engine,
                                   const struct SeriatimOperation *operation,
                                   SeriatimAsyncFunction function,
                                   void *argument,
                                   SeriatimDeleter deleter);

// Makes a reusable operator. If it changes no variable, several of its uses may run at the same
// time, with the same argument. `deleter` runs when the operator is deleted and its last use is
// over.
//
// # Errors
// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
// `SERIATIM_STATUS_PRIVATE_VARIABLE`. The deleter then runs before the call returns.
//
// # Safety
// `engine` is a live handle. `operation` points to an operation whose pointers are as it describes
// them, and whose texts end with a zero byte. `function` and `deleter` may be called with
// `argument` on any thread, `function` on several at once if the operator changes no variable.
// `out` may be written to.
SeriatimStatus seriatim_operator_new(const struct SeriatimEngine *engine,
                                     const struct SeriatimOperation *operation,
                                     SeriatimFunction function,
                                     void *argument,
                                     SeriatimDeleter deleter,
                                     struct SeriatimOperator **out);

// Makes a reusable operator whose uses end when their completions say so; otherwise as
// `seriatim_operator_new()`.
//
// # Errors
// As `seriatim_operator_new()`.
//
// # Safety
// As for `seriatim_operator_new()`.
SeriatimStatus seriatim_operator_new_async(const struct SeriatimEngine *engine,
                                           const struct SeriatimOperation *operation,
                                           SeriatimAsyncFunction function,
                                           void *argument,
                                           SeriatimDeleter deleter,
                                           struct SeriatimOperator **out);

// Pushes an operator once more, to the engine that made it.
//
// # Errors
// As `seriatim_push()`, and `SERIATIM_STATUS_FOREIGN_OPERATOR`.
//
// # Safety
// `engine` and `operator_` are live handles.
SeriatimStatus seriatim_operator_push(const struct SeriatimEngine *engine,
                                      const struct SeriatimOperator *operator_,
                                      struct SeriatimContext context,
                                      int32_t priority);

// Deletes an operator; a null pointer is fine. Uses in flight go on.
//
// # Errors
// Only those of every function.
//
// # Safety
// `operator_` is null or a live handle, which is not used again.
SeriatimStatus seriatim_operator_delete(struct SeriatimOperator *operator_);

// Begins the capture of a graph, which `seriatim_capture_end()` makes of what was pushed in
// between. `name` is for profiles and for the texts of waits that run out of time; it may be null,
// and the graph is then called "graph".
//
// Other pushes and other captures go on as ever, also to the same variables.
//
// # Errors
// Only those of every function.
//
// # Safety
// `engine` is a live handle. `name` is null or ends with a zero byte. `out` may be written to.
SeriatimStatus seriatim_capture_begin(const struct SeriatimEngine *engine,
                                      const char *name,
                                      struct SeriatimCapture **out);

// Records an operation. In each replay it ends when its function returns. The function is called
// once for each replay, always with this argument, and never by two replays at once. `deleter`
// runs when the graph is deleted and its last replay is over.
//
// # Errors
// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
// `SERIATIM_STATUS_PRIVATE_VARIABLE` for one of another graph, `SERIATIM_STATUS_UNKNOWN_DEVICE`,
// `SERIATIM_STATUS_DEVICE_UNAVAILABLE`. The deleter then runs before the call returns, and the
// capture goes on without the operation.
//
// # Safety
// `capture` is a live handle, which no other thread uses at the same time. `operation` points to
// an operation whose pointers are as it describes them, and whose texts end with a zero byte.
// `function` and `deleter` may be called with `argument` on any thread.
SeriatimStatus seriatim_capture_push(struct SeriatimCapture *capture,
                                     const struct SeriatimOperation *operation,
                                     SeriatimFunction function,
                                     void *argument,
                                     SeriatimDeleter deleter);

// Records an asynchronous operation. In each replay it ends when its completion was used and its
// function has returned, whichever is later; each call gets a completion of its own. Otherwise as
// `seriatim_capture_push()`.
//
// # Errors
// As `seriatim_capture_push()`.
//
// # Safety
// As for `seriatim_capture_push()`.
SeriatimStatus seriatim_capture_push_async(struct SeriatimCapture *capture,
                                           const struct SeriatimOperation *operation,
                                           SeriatimAsyncFunction function,
                                           void *argument,
                                           SeriatimDeleter deleter);

// Records a use of an operator of the capture's engine. The graph keeps the operator alive.
//
// # Errors
// As `seriatim_capture_push()`, and `SERIATIM_STATUS_FOREIGN_OPERATOR`.
//
// # Safety
// `capture` and `operator_` are live handles; no other thread uses the capture at the same time.
SeriatimStatus seriatim_capture_push_operator(struct SeriatimCapture *capture,
                                              const struct SeriatimOperator *operator_,
                                              struct SeriatimContext context,
                                              int32_t priority);

// Makes a parameter of the graph: a value that its operations can read with
// `seriatim_parameter_get()`, and that `seriatim_parameter_set()` replaces between replays.
// `deleter` runs when the value is replaced or the handle of the parameter is deleted.
//
// # Errors
// Only those of every function. The deleter then runs before the call returns.
//
// # Safety
// `capture` is a live handle, which no other thread uses at the same time. `value` may be used and
// deleted on any thread, and used by several at once. `out` may be written to.
SeriatimStatus seriatim_capture_parameter(struct SeriatimCapture *capture,
                                          void *value,
                                          SeriatimDeleter deleter,
                                          struct SeriatimParameter **out);

// Makes a variable that only operations of this graph can name. It orders them as any variable
// does, but a replay does not claim it: the time of `seriatim_graph_replay()` does not grow with
// it. It has no version, and nothing waits for it. It ends with the graph, or with the capture if
// no graph is made; until then every call outside of the capture that is given it fails with
// `SERIATIM_STATUS_PRIVATE_VARIABLE`. A failure that marks it stays for later replays until a wait
// takes the failure.
//
// # Errors
// Only those of every function.
//
// # Safety
// `capture` is a live handle, which no other thread uses at the same time. `out` may be written
// to.
SeriatimStatus seriatim_capture_private_variable(struct SeriatimCapture *capture, struct SeriatimVariable *out);

// Makes a variable private to this graph that was made outside, and that operations may have used.
// From then on it is as one of `seriatim_capture_private_variable()`: it is refused everywhere
// else, and it does not come back when the graph is deleted. Replays come after all operations
// that use it and were pushed before. It waits for nothing.
//
// # Errors
// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
// `SERIATIM_STATUS_PRIVATE_VARIABLE` if it is private already, `SERIATIM_STATUS_STOPPED`,
// `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`. The variable is then as it
// was.
//
// # Safety
// `capture` is a live handle, which no other thread uses at the same time.
SeriatimStatus seriatim_capture_make_private(struct SeriatimCapture *capture, struct SeriatimVariable variable);

// Ends the capture and makes the graph. Time and memory proportional to the operations and their
// variables.
//
// # Errors
// `SERIATIM_STATUS_ENGINE_FULL` for more than 500 million operations, or more than 8 million
// variables in one graph of a driver.
// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_PRIVATE_VARIABLE` if one of their variables
// was deleted, or made private to another graph, after they were recorded. If variables were made
// private by `seriatim_capture_make_private()`, also `SERIATIM_STATUS_STOPPED`,
// `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`. The handle of the capture
// is gone all the same.
//
// # Safety
// `capture` is a live handle, which is not used again. `out` may be written to.
SeriatimStatus seriatim_capture_end(struct SeriatimCapture *capture, struct SeriatimGraph **out);

// Gives a capture up; a null pointer is fine. What was recorded is deleted, and parameters are
// refused from now on.
//
// # Errors
// Only those of every function.
//
// # Safety
// `capture` is null or a live handle, which is not used again.
SeriatimStatus seriatim_capture_delete(struct SeriatimCapture *capture);

// Pushes one replay, and does not wait for it: `seriatim_wait_for_variable()` does. Like any push
// it may wait for room under a bound. Replays of one graph follow each other, so it may be called
// again while one is under way. Lock-free, without allocation; time proportional to the number of
// variables of the graph that are not private, and not of its operations. On a naive engine the
// replay runs inside the call.
//
// Among ready operations of the engine, greater priorities run first. Those of the captured
// operations count among themselves.
//
// The variables are free again, and their versions step, when all operations of the replay are
// done. What fails inside marks what the failing operation changes, as for single pushes.
//
// # Errors
// As `seriatim_push()`, for all variables of the graph and for the workers and devices of all its
// operations, but for foreign variables and unknown devices, which the capture has refused:
// nothing of it is then run.
//
// # Safety
// `graph` is a live handle.
SeriatimStatus seriatim_graph_replay(const struct SeriatimGraph *graph, int32_t priority);

// How many operations the graph has.
//
// # Errors
// Only those of every function.
//
// # Safety
// `graph` is a live handle. `out` may be written to.
SeriatimStatus seriatim_graph_length(const struct SeriatimGraph *graph, size_t *out);

// The graph for Graphviz, to be freed with `seriatim_string_free()`: a box for each operation, an
// edge to each that waits for it, a frame around those that one thread runs.
//
// # Errors
// Only those of every function.
//
// # Safety
// `graph` is a live handle. `out` may be written to.
SeriatimStatus seriatim_graph_dump_dot(const struct SeriatimGraph *graph, char **out);

// Deletes a graph; a null pointer is fine. Replays in flight go on. The deleters of its arguments
// run after the last of them, on the thread that leaves it last, which may be a moment after its
// end.
//
// # Errors
// Only those of every function.
//
// # Safety
// `graph` is null or a live handle, which is not used again.
SeriatimStatus seriatim_graph_delete(struct SeriatimGraph *graph);

// The value, inside an operation of the parameter's graph: a comparison, no lock. It stays as it
// is until the operation ends, also for an asynchronous one, whose completion may use it.
//
// # Errors
// `SERIATIM_STATUS_BORROW_CONFLICT` anywhere but in an operation of the graph, because the value
// could be replaced at any time.
//
// # Safety
// `parameter` is a live handle. `run` was given to the function that is running on this thread.
// `out` may be written to.
SeriatimStatus seriatim_parameter_get(const struct SeriatimParameter *parameter,
                                      const struct SeriatimRunContext *run,
                                      void **out);

// Replaces the value for replays that are pushed from now on. Those in flight see the old one,
// whose deleter runs after the last of them. Does not wait for them: it pushes an operation, which
// allocates nothing, and waits for room under a bound as any push does.
//
// # Errors
// `SERIATIM_STATUS_VARIABLE_DELETED` once the graph is deleted, or the capture if no graph was
// made. `SERIATIM_STATUS_ENGINE_FULL`, `SERIATIM_STATUS_STOPPED`,
// `SERIATIM_STATUS_THREAD_REFUSED`, `SERIATIM_STATUS_PRIORITY_REFUSED`, as for `seriatim_push()`.
// The new value's deleter then runs before the call returns.
//
// # Safety
// `parameter` is a live handle. `value` may be used and deleted on any thread, and used by several
// at once.
SeriatimStatus seriatim_parameter_set(const struct SeriatimParameter *parameter, void *value, SeriatimDeleter deleter);

// Deletes a handle; a null pointer is fine. Operations of the graph must not use it any more:
// delete it after the graph's last replay.
//
// # Errors
// Only those of every function.
//
// # Safety
// `parameter` is null or a live handle, which is not used again.
SeriatimStatus seriatim_parameter_delete(struct SeriatimParameter *parameter);

// Ends a capture as `seriatim_capture_end()` does, but makes a pipeline, whose replays overlap.
//
// # Errors
// `SERIATIM_STATUS_PRIVATE_VARIABLE` if the capture has private variables, or if one of its
// variables was made private to a graph after it was recorded; `SERIATIM_STATUS_VARIABLE_DELETED`.
// The capture is gone then, too.
//
// # Safety
// `capture` is a live handle, which is not used again. `out` may be written to.
SeriatimStatus seriatim_capture_end_pipeline(struct SeriatimCapture *capture, struct SeriatimPipeline **out);

// Pushes all operations of a pipeline, in the order in which they were captured, and does not wait
// for them. Each push may wait for room under a bound, and on a naive engine runs its operation.
// Operations that other threads push may come between them.
//
// An operation that fails marks the variables that it changes, and is skipped in later replays, as
// is what depends on it, until a wait takes the failure.
//
// # Errors
// `SERIATIM_STATUS_STOPPED`, or `SERIATIM_STATUS_DEVICE_LOST` if one of its devices is lost,
// before anything is pushed. Otherwise as `seriatim_push()`: the operations before the one that is
// refused are pushed, and the text says which that is.
//
// # Safety
// `pipeline` is a live handle, which no other thread uses at the same time. No function that runs
// inside the call uses it.
SeriatimStatus seriatim_pipeline_replay(struct SeriatimPipeline *pipeline);

// How many operations the pipeline has.
//
// # Errors
// Only those of every function.
//
// # Safety
// `pipeline` is a live handle. `out` may be written to.
SeriatimStatus seriatim_pipeline_length(const struct SeriatimPipeline *pipeline, size_t *out);

// Deletes a pipeline; a null pointer is fine. Operations in flight go on. The deleters of its
// arguments run after the last of them.
//
// # Errors
// Only those of every function.
//
// # Safety
// `pipeline` is null or a live handle, which is not used again.
SeriatimStatus seriatim_pipeline_delete(struct SeriatimPipeline *pipeline);

// Makes a token that is not cancelled.
//
// # Errors
// Only those of every function.
//
// # Safety
// `out` may be written to.
SeriatimStatus seriatim_token_new(struct SeriatimToken **out);

// Cancels what has not started, for good. One store, whatever the size of the group; a second call
// changes nothing. An operation that starts on another thread at this moment may still run.
//
// # Errors
// Only those of every function.
//
// # Safety
// `token` is a live handle.
SeriatimStatus seriatim_token_cancel(const struct SeriatimToken *token);

// 1 if the token is cancelled, 0 if not. A function that runs for long may ask, and return early.
//
// # Safety
// `token` is a live handle.
uint32_t seriatim_token_is_cancelled(const struct SeriatimToken *token);

// Deletes a token; a null pointer is fine. Operations that were pushed with it stay as they are:
// cancelled if it was.
//
// # Errors
// Only those of every function.
//
// # Safety
// `token` is null or a live handle, which is not used again.
SeriatimStatus seriatim_token_delete(struct SeriatimToken *token);

// As `seriatim_push()`, but the operation starts only within its limits. If it is skipped, the
// deleter runs before it ends.
//
// # Errors
// As `seriatim_push()`. A token that is cancelled already is none: the operation is pushed, and
// skipped in its turn.
//
// # Safety
// As for `seriatim_push()`. `limits` points to limits, whose token is null or a live handle.
SeriatimStatus seriatim_push_limited(const struct SeriatimEngine *engine,
                                     const struct SeriatimOperation *operation,
                                     const struct SeriatimLimits *limits,
                                     SeriatimFunction function,
                                     void *argument,
                                     SeriatimDeleter deleter);

// As `seriatim_push_async()`, but the operation starts only within its limits. It has started when
// its function is called: from then on its completion ends it.
//
// # Errors
// As `seriatim_push_limited()`.
//
// # Safety
// As for `seriatim_push_limited()`.
SeriatimStatus seriatim_push_async_limited(const struct SeriatimEngine *engine,
                                           const struct SeriatimOperation *operation,
                                           const struct SeriatimLimits *limits,
                                           SeriatimAsyncFunction function,
                                           void *argument,
                                           SeriatimDeleter deleter);

// As `seriatim_operator_push()`, but the operation starts only within its limits.
//
// # Errors
// As `seriatim_operator_push()`.
//
// # Safety
// As for `seriatim_operator_push()`. `limits` points to limits, whose token is null or a live
// handle.
SeriatimStatus seriatim_operator_push_limited(const struct SeriatimEngine *engine,
                                              const struct SeriatimOperator *operator_,
                                              struct SeriatimContext context,
                                              int32_t priority,
                                              const struct SeriatimLimits *limits);

// As `seriatim_graph_replay()`, within limits, of which a replay takes one token and one time for
// all of its operations. The token is looked at before each of them: those that have not started
// are skipped. The time is for the beginning of the replay: all of it may start, or nothing.
//
// # Errors
// As `seriatim_graph_replay()`.
//
// # Safety
// `graph` is a live handle. `limits` points to limits, whose token is null or a live handle.
SeriatimStatus seriatim_graph_replay_limited(const struct SeriatimGraph *graph,
                                             int32_t priority,
                                             const struct SeriatimLimits *limits);

// As `seriatim_pipeline_replay()`, but each operation starts only within these limits, as if each
// were pushed with them.
//
// # Errors
// As `seriatim_pipeline_replay()`.
//
// # Safety
// As for `seriatim_pipeline_replay()`. `limits` points to limits, whose token is null or a live
// handle.
SeriatimStatus seriatim_pipeline_replay_limited(struct SeriatimPipeline *pipeline, const struct SeriatimLimits *limits);

// Makes a commutative variable, at version 0: operations may commute there, in any order, one at a
// time. All other functions take it as any variable.
//
// # Errors
// Only those of every function.
//
// # Safety
// `engine` is a live handle. `out` may be written to.
SeriatimStatus seriatim_variable_new_commutative(const struct SeriatimEngine *engine, struct SeriatimVariable *out);

// As `seriatim_push()`, but the operation also commutes on the `count` variables of `commutes`: it
// changes them, in any order with others that commute there, one at a time. A variable that the
// operation also writes counts as written.
//
// # Errors
// As `seriatim_push()`; also `SERIATIM_STATUS_CANNOT_COMMUTE` if a variable was not made by
// `seriatim_variable_new_commutative()`, or if the operation is one of a GPU.
//
// # Safety
// As for `seriatim_push()`. `commutes` points to so many variables, or is null if there are none.
SeriatimStatus seriatim_push_commuting(const struct SeriatimEngine *engine,
                                       const struct SeriatimOperation *operation,
                                       const struct SeriatimVariable *commutes,
                                       size_t count,
                                       SeriatimFunction function,
                                       void *argument,
                                       SeriatimDeleter deleter);

// As `seriatim_push_async()`, but the operation also commutes, until its completion is used.
//
// # Errors
// As `seriatim_push_commuting()`.
//
// # Safety
// As for `seriatim_push_commuting()`.
SeriatimStatus seriatim_push_async_commuting(const struct SeriatimEngine *engine,
                                             const struct SeriatimOperation *operation,
                                             const struct SeriatimVariable *commutes,
                                             size_t count,
                                             SeriatimAsyncFunction function,
                                             void *argument,
                                             SeriatimDeleter deleter);

// Ends the operation well.
//
// # Errors
// `SERIATIM_STATUS_BAD_ARGUMENT` if the completion was used before, or if the operation has ended
// already, because its function unwound. No operation is touched then. Of several uses one
// succeeds, also of two at the same time.
//
// Completions that follow each other in one place of the memory have 2^32 values (256 on 32 bits).
// An old one is taken for one in use if their distance is a multiple of that.
//
// # Safety
// `completion` is null, or was given to an asynchronous function.
SeriatimStatus seriatim_completion_complete(struct SeriatimCompletion *completion);

// Ends the operation when its GPU has done what is on a stream by now, such as a `CUstream` that a
// library has put work on. Returns at once, and no thread waits; the naive engine waits here. The
// deleter of the operation's argument does not wait for the stream: it may run in this call,
// before the stream is looked at, and must not destroy it.
//
// The stream is the operation's own, or one that comes after it: let it wait for an event on
// `seriatim_run_context_stream()`, or push with `SERIATIM_PROPERTY_ASYNC`, whose function is
// called when all that is before it is done.
//
// The operation fails with `SERIATIM_STATUS_DEVICE_LOST` if the GPU is lost before; so it is if
// the driver goes on to refuse the call. It fails with `SERIATIM_STATUS_STREAM_REFUSED` if the
// stream is being captured, and with `SERIATIM_STATUS_NO_STREAM` if the operation is not one of a
// GPU.
//
// # Errors
// As `seriatim_completion_complete()`.
//
// # Safety
// `completion` is null, or was given to an asynchronous function. `stream` is a stream of the
// operation's GPU, and is not destroyed before the call returns. No capture of it begins before
// the operation has ended.
SeriatimStatus seriatim_completion_complete_after(struct SeriatimCompletion *completion, void *stream);

// Ends the operation with an error, which marks the variables that it changes. `text` says what
// went wrong; it may be null, and bytes that are not UTF-8 are replaced, so that the operation
// ends in any case. It may lie in the operation's argument: it is copied before the deleter runs.
//
// # Errors
// As `seriatim_completion_complete()`.
//
// # Safety
// `completion` is null, or was given to an asynchronous function.
// `text` is null or ends with a zero byte.
SeriatimStatus seriatim_completion_fail(struct SeriatimCompletion *completion, const char *text);

// Gives up: the operation fails with `SERIATIM_STATUS_COMPLETION_DROPPED`, so that nothing waits
// for ever. For destructors and paths that should not be taken. A null pointer is fine.
//
// # Errors
// As `seriatim_completion_complete()`.
//
// # Safety
// `completion` is null, or was given to an asynchronous function.
SeriatimStatus seriatim_completion_drop(struct SeriatimCompletion *completion);

// Makes a reduction whose parts are combined in any order. Operations that reduce it are given one
// of several copies, and add to what they find there; `seriatim_push_reducing()` pushes them. One
// that uses the value comes behind all parts that were pushed before it, which are combined into
// the value then. The parts may be used on any thread.
//
// # Errors
// Only those of every function. The reducer's deleter has then run.
//
// # Safety
// `engine` is a live handle. `reducer` points to functions that may be called, and deleted, as
// they say. `out` may be written to.
SeriatimStatus seriatim_reduction_new(const struct SeriatimEngine *engine,
                                      const struct SeriatimReducer *reducer,
                                      struct SeriatimReduction **out);

// Makes a reduction whose value does not depend on the number of workers, to the last bit. The
// *i*-th operation that reduces it is given copy *i* mod `copies`, in push order, and copies are
// combined in a fixed tree. As many of them run at once as there are copies, say four for each
// worker. Otherwise it is as one of `seriatim_reduction_new()`.
//
// # Errors
// `SERIATIM_STATUS_BAD_SETTING` unless there are 1 to 65,536 copies. The reducer's deleter has
// then run.
//
// # Safety
// As for `seriatim_reduction_new()`.
SeriatimStatus seriatim_reduction_new_ordered(const struct SeriatimEngine *engine,
                                              size_t copies,
                                              const struct SeriatimReducer *reducer,
                                              struct SeriatimReduction **out);

// Gives up a reduction. Operations that use it go on, and its parts are deleted behind the last of
// them. Null is ignored.
//
// # Safety
// `reduction` was made by this library and is not used again.
void seriatim_reduction_delete(struct SeriatimReduction *reduction);

// The variable that stands for the value: what writes it comes behind all parts that were pushed
// before, and what reads it only behind uses of the value. A part that fails leaves no mark there.
//
// # Errors
// Only those of every function.
//
// # Safety
// `reduction` is a live handle. `out` may be written to.
SeriatimStatus seriatim_reduction_variable(const struct SeriatimReduction *reduction, struct SeriatimVariable *out);

// Waits until every part that was pushed before is added, and all are combined; then calls
// `function` once, on this thread, with the value. Operations that use the value wait until the
// function has returned.
//
// # Errors
// Those of `seriatim_wait_for_variable()`; the failure of an operation that was to add its part.
// `SERIATIM_STATUS_OPERATION_FAILED` if `identity` or `combine` has failed, once: the next read
// gets the value without what is missing. The function is then not called.
//
// # Safety
// `reduction` is a live handle. `function` may be called with `argument`.
SeriatimStatus seriatim_reduction_read(const struct SeriatimReduction *reduction,
                                       SeriatimValueFunction function,
                                       void *argument);

// As `seriatim_push()`, but the operation also adds to reductions, or uses their values: its
// function is given the parts. A copy or a value is the function's own while it is called.
//
// # Errors
// As `seriatim_push_commuting()`. `SERIATIM_STATUS_BORROW_CONFLICT` if the operation names one
// reduction twice, and not only to reduce it, or is to reduce one of fewer copies more often than
// those are. The operation fails if `identity` or `combine` does, and its function is not called
// then.
//
// # Safety
// As for `seriatim_push()`. `reducing` points to lists that are as it describes them; the
// reductions are live handles.
SeriatimStatus seriatim_push_reducing(const struct SeriatimEngine *engine,
                                      const struct SeriatimOperation *operation,
                                      const struct SeriatimReducing *reducing,
                                      SeriatimReducingFunction function,
                                      void *argument,
                                      SeriatimDeleter deleter);

// The name of the operation, empty if it has none. Valid as long as `run` is.
//
// # Safety
// `run` was given to the function that is running on this thread.
const char *seriatim_run_context_name(const struct SeriatimRunContext *run);

// The context that the operation was pushed with.
//
// # Safety
// `run` was given to the function that is running on this thread.
struct SeriatimContext seriatim_run_context_context(const struct SeriatimRunContext *run);

// The number of the worker within its group, or -1 on a thread that is not the engine's.
//
// # Safety
// `run` was given to the function that is running on this thread.
int64_t seriatim_run_context_worker(const struct SeriatimRunContext *run);

// The stream of an operation that runs on a GPU, such as a `CUstream`: what the function puts
// there is a part of the operation. Null on the processor, and for `SERIATIM_PROPERTY_ASYNC`. The
// stream is the engine's: do not wait for it, capture it or destroy it.
//
// # Safety
// `run` was given to the function that is running on this thread.
void *seriatim_run_context_stream(const struct SeriatimRunContext *run);

// How many threads the operation may use itself: the engine's setting `NESTED_THREADS`.
//
// # Safety
// `run` was given to the function that is running on this thread.
size_t seriatim_run_context_nested_threads(const struct SeriatimRunContext *run);

// Says why the operation is about to fail. The text counts if the function then returns something
// other than 0; the last one does if there are several. A null pointer takes it back; bytes that
// are not UTF-8 are replaced. Asynchronous operations say it with `seriatim_completion_fail()`
// instead.
//
// # Errors
// Only those of every function.
//
// # Safety
// `run` was given to the function that is running on this thread. `text` is null or ends with a
// zero byte.
SeriatimStatus seriatim_run_context_set_error(const struct SeriatimRunContext *run, const char *text);

// Says why the operation is about to fail, as `seriatim_run_context_set_error()` does, and gives
// the error an object, such as an exception. Who is told of the failure by a status finds it with
// `seriatim_last_error_object()`. Errors are shared: several threads may have the object at once.
// `deleter` runs when the function has returned 0, or when nothing keeps the error any more: the
// variables that it marks, and threads whose last error it is.
//
// # Errors
// Only those of every function. The deleter then runs before the call returns.
//
// # Safety
// `run` was given to the function that is running on this thread. `text` is null or ends with a
// zero byte. `object` may be used and deleted on any thread, and used by several at once.
SeriatimStatus seriatim_run_context_set_error_object(const struct SeriatimRunContext *run,
                                                     const char *text,
                                                     void *object,
                                                     SeriatimDeleter deleter);

// Ends the operation with an error, as `seriatim_completion_fail()` does, and gives the error an
// object, as `seriatim_run_context_set_error_object()` does.
//
// # Errors
// As `seriatim_completion_complete()`. The deleter then runs before the call returns.
//
// # Safety
// `completion` is null, or was given to an asynchronous function. `text` is null or ends with a
// zero byte. `object` may be used and deleted on any thread, and used by several at once.
SeriatimStatus seriatim_completion_fail_object(struct SeriatimCompletion *completion,
                                               const char *text,
                                               void *object,
                                               SeriatimDeleter deleter);

// The object that came with the error of this thread's last failing call, if it was given with
// this deleter, which says what kind of object is meant; else null. It is the program's to look
// at, and not to delete, until the next failing call of the thread: the thread keeps the error as
// long.
//
// # Safety
// `deleter` is not called.
void *seriatim_last_error_object(SeriatimDeleter deleter);

// A handle of a library, such as a `cublasHandle_t`, that belongs to the worker: made by `make`
// when an operation of this worker first asks for one with this key, and given to those that come
// later. `key` is an address of the program's own, such as that of `make`, and is not looked at;
// `argument` is for `make` alone. The handle may be used until the function returns, and is not
// sent to another thread.
//
// The GPU is current where `make` runs, and where the handle is given to `destroy`: on its own
// thread, when the worker ends, since the engine stops or ends, or the process forks; the last
// that was made goes first. `destroy` may be null, and must not wait for the engine. Handles of a
// GPU that is lost are not destroyed. On the naive engine, which has no workers, a handle is made
// for the operation that asks, and destroyed at its end.
//
// The operations of a worker come to all streams of its GPU: tell the library
// `seriatim_run_context_stream()` first. If the library ties memory for its work to a handle,
// there has to be one for each stream: the stream is a good key then.
//
// An operation that is captured for a graph of the driver (`SeriatimOperation.device_graph`) gets
// a handle that only the other operations of that graph get, so one is enough for it. When the
// worker has ended, the next replay captures anew; on the naive engine each replay does. When the
// graph is gone, the handle is destroyed before the worker captures another one, or at its end.
//
// # Errors
// `SERIATIM_STATUS_NO_STREAM` if the operation has none: on the processor, and for
// `SERIATIM_PROPERTY_ASYNC`. `SERIATIM_STATUS_DEVICE_UNAVAILABLE` and
// `SERIATIM_STATUS_DEVICE_LOST` if the function has made another GPU current and its own cannot be
// made current again. `SERIATIM_STATUS_OPERATION_FAILED` if `make` does not return 0: the next
// operation that asks makes the handle. `SERIATIM_STATUS_BORROW_CONFLICT` if `make` asks for the
// same handle.
//
// # Safety
// `run` was given to the function that is running on this thread. `make` may be called with
// `argument`, and `destroy` with what it has made. Each use of a key has the same `make` and
// `destroy`. `out` may be written to.
SeriatimStatus seriatim_run_context_handle(const struct SeriatimRunContext *run,
                                           const void *key,
                                           SeriatimHandleFunction make,
                                           void *argument,
                                           SeriatimDeleter destroy,
                                           void **out);

// A GPU of an engine, made ready if it has not been used.
//
// # Errors
// `SERIATIM_STATUS_DEVICE_UNAVAILABLE` if it cannot be used, and the text says why: this library
// was built without GPUs, there is no driver, or no such device. `SERIATIM_STATUS_DEVICE_LOST`.
// `SERIATIM_STATUS_UNKNOWN_DEVICE` if the number is above 1023.
//
// # Safety
// `engine` is a live handle. `out` may be written to.
SeriatimStatus seriatim_gpu_open(const struct SeriatimEngine *engine, uint32_t id, struct SeriatimGpu **out);

// How much memory the engine has of the GPU. `memory` is a `SeriatimMemory`.
//
// # Errors
// Only those of every function.
//
// # Safety
// `gpu` is a live handle. `out` may be written to.
SeriatimStatus seriatim_gpu_memory(const struct SeriatimGpu *gpu, uint32_t memory, struct SeriatimMemoryUsage *out);

// Has the buffers freed that are kept for the next arrays, as far as the GPU is done with them;
// says how many. The call does not wait: a thread of the engine frees them, since the driver may
// wait for the GPU meanwhile, and `seriatim_wait_for_all()` waits for that. An engine that is
// naive or stopped frees in the call. Where there is no room for a new array the engine frees by
// itself.
//
// # Errors
// Only those of every function.
//
// # Safety
// `gpu` is a live handle. `out` may be written to.
SeriatimStatus seriatim_gpu_trim(const struct SeriatimGpu *gpu, size_t *out);

// Deletes the handle; a null pointer is fine. Arrays and adopted streams of the GPU live on.
//
// # Errors
// Only those of every function.
//
// # Safety
// `gpu` is null or a live handle, which is not used again.
SeriatimStatus seriatim_gpu_delete(struct SeriatimGpu *gpu);

// Makes an array of `bytes` bytes. `memory` is a `SeriatimMemory`; `from` has the bytes, which are
// copied during the call, or is null for zeros. The array begins at a multiple of 64.
//
// The driver is asked for memory only if no array of this size was deleted before. If memory has
// to be freed first, the call does not wait for that: the operations that use the array do, and a
// pinned one is looked at after a wait for its variable. If there is none even then, the first of
// them fails, which fills the array. On the naive engine the call frees, and the driver may wait
// for the GPU meanwhile.
//
// # Errors
// `SERIATIM_STATUS_OUT_OF_MEMORY`; those of `seriatim_gpu_open()`, and those of a push.
//
// # Safety
// `gpu` is a live handle. `from` is null or points to `bytes` bytes. `out` may be written to.
SeriatimStatus seriatim_array_new(const struct SeriatimGpu *gpu,
                                  uint32_t memory,
                                  size_t bytes,
                                  const void *from,
                                  struct SeriatimArray **out);

// The variable that stands for the array: declare it in operations that use the array. All zeros
// if `array` is null.
//
// # Safety
// `array` is null or a live handle.
struct SeriatimVariable seriatim_array_variable(const struct SeriatimArray *array);

// The number of bytes; 0 if `array` is null.
//
// # Safety
// `array` is null or a live handle.
size_t seriatim_array_length(const struct SeriatimArray *array);

// The address of the array, for an operation of its GPU that has declared to read it: for what the
// function puts on its stream. For CUDA it is a `CUdeviceptr`.
//
// # Errors
// `SERIATIM_STATUS_UNDECLARED_ACCESS` if the operation has not declared the variable;
// `SERIATIM_STATUS_BUFFER_MISMATCH` if it runs elsewhere; `SERIATIM_STATUS_BORROW_CONFLICT` if the
// array is in use in another way; `SERIATIM_STATUS_OUT_OF_MEMORY` or `SERIATIM_STATUS_DEVICE_LOST`
// if its memory never came, for an operation that runs all the same (`NO_SKIP`).
//
// # Safety
// `array` is a live handle. `run` was given to the function that is running on this thread. `out`
// may be written to.
SeriatimStatus seriatim_array_read_on(const struct SeriatimArray *array,
                                      const struct SeriatimRunContext *run,
                                      void **out);

// The address of the array, for an operation of its GPU that has declared to change it. Otherwise
// as `seriatim_array_read_on()`.
//
// # Errors
// As `seriatim_array_read_on()`.
//
// # Safety
// As `seriatim_array_read_on()`.
SeriatimStatus seriatim_array_write_on(const struct SeriatimArray *array,
                                       const struct SeriatimRunContext *run,
                                       void **out);

// Copies bytes out of a pinned array: in an operation of the processor that has declared it, or
// between operations, after a wait for its variable.
//
// # Errors
// `SERIATIM_STATUS_BORROW_CONFLICT` if a GPU has still to write the array, another thread changes
// it, or its memory is still to come; `SERIATIM_STATUS_OUT_OF_MEMORY` if that never came;
// `SERIATIM_STATUS_UNDECLARED_ACCESS` if the running operation has not declared it;
// `SERIATIM_STATUS_DEVICE_LOST` if a lost GPU should have written it;
// `SERIATIM_STATUS_BAD_ARGUMENT` if it is on a GPU, or the bytes are not in it.
//
// # Safety
// `array` is a live handle. `to` points to room for `bytes` bytes; it may be null if that is 0.
SeriatimStatus seriatim_array_get(const struct SeriatimArray *array, size_t offset, void *to, size_t bytes);

// Copies bytes into a pinned array: in an operation of the processor that has declared to change
// it, or between operations, after a wait until its variable is unused.
//
// # Errors
// As `seriatim_array_get()`; also `SERIATIM_STATUS_BORROW_CONFLICT` if a GPU has still to read the
// array, or another thread reads it.
//
// # Safety
// `array` is a live handle. `from` points to `bytes` bytes; it may be null if that is 0.
SeriatimStatus seriatim_array_set(const struct SeriatimArray *array, size_t offset, const void *from, size_t bytes);

// Pushes a copy of an array to another one of the same length, of the same engine: an operation
// that reads `from` and changes `to`. To a GPU, from one, or from one to another.
//
// # Errors
// `SERIATIM_STATUS_BUFFER_MISMATCH` if the lengths are not equal, if both arrays are one, or if
// both are pinned; otherwise as `seriatim_push()`.
//
// # Safety
// Both are live handles.
SeriatimStatus seriatim_copy(const struct SeriatimArray *from, const struct SeriatimArray *to);

// Records a copy, which `seriatim_copy()` would push. Each replay copies what is there then. The
// handles of the arrays may be deleted: the graph keeps what they stand for.
//
// # Errors
// `SERIATIM_STATUS_BUFFER_MISMATCH` as for `seriatim_copy()`; otherwise as
// `seriatim_capture_push()`. The capture then goes on without the copy.
//
// # Safety
// `capture` is a live handle, which no other thread uses at the same time. Both arrays are live
// handles.
SeriatimStatus seriatim_capture_copy(struct SeriatimCapture *capture,
                                     const struct SeriatimArray *from,
                                     const struct SeriatimArray *to);

// Deletes an array and its variable; a null pointer is fine. Operations that were pushed before
// may still use the array on their streams: the memory goes on to another array with the order
// that it owes. A function that is called later must not be given the handle.
//
// # Errors
// Only those of every function.
//
// # Safety
// `array` is null or a live handle, which is not used again.
SeriatimStatus seriatim_array_delete(struct SeriatimArray *array);

// Takes a stream of the program's into the order of variables, such as a `CUstream`. CUDA's legacy
// default stream, which is null, is accepted; `CU_STREAM_PER_THREAD` is not.
//
// # Errors
// `SERIATIM_STATUS_STREAM_REFUSED` if the stream is being captured, or is a thread's;
// `SERIATIM_STATUS_DEVICE_LOST`.
//
// # Safety
// `gpu` is a live handle. `stream` is a stream of that GPU, and is not destroyed before the new
// handle is deleted. No capture of it begins while a function with the handle runs. `out` may be
// written to.
SeriatimStatus seriatim_gpu_adopt(const struct SeriatimGpu *gpu, void *stream, struct SeriatimAdoptedStream **out);

// Has the stream wait for every write of the variable that was pushed before, so that what is put
// there afterwards may read. Returns when the stream has been told, and does not wait for the GPU.
// In the order of pushes it is a read of the variable.
//
// # Errors
// As `seriatim_push()` and `seriatim_wait_for_variable()`, whose error it leaves to other waits;
// `SERIATIM_STATUS_STREAM_REFUSED` if the stream is being captured; `SERIATIM_STATUS_DEVICE_LOST`
// and `SERIATIM_STATUS_DEVICE_UNAVAILABLE` from the driver; `SERIATIM_STATUS_STOPPED` after
// `seriatim_engine_notify_shutdown()`. The stream may then not wait.
//
// # Safety
// `stream` is a live handle.
SeriatimStatus seriatim_adopted_stream_wait_to_read(const struct SeriatimAdoptedStream *stream,
                                                    struct SeriatimVariable variable);

// Has the stream wait for every use of the variable that was pushed before, so that what is put
// there afterwards may change it. In the order of pushes it is a write of the variable. Otherwise
// as `seriatim_adopted_stream_wait_to_read()`.
//
// # Errors
// As `seriatim_adopted_stream_wait_to_read()`.
//
// # Safety
// `stream` is a live handle.
SeriatimStatus seriatim_adopted_stream_wait_to_write(const struct SeriatimAdoptedStream *stream,
                                                     struct SeriatimVariable variable);

// Says that what is on the stream by now reads the variable: writes that are pushed later come
// after it.
//
// # Errors
// Those of a push; `SERIATIM_STATUS_STREAM_REFUSED` if the stream is being captured;
// `SERIATIM_STATUS_DEVICE_LOST` and `SERIATIM_STATUS_DEVICE_UNAVAILABLE` from the driver. After an
// error nothing was pushed.
//
// # Safety
// `stream` is a live handle.
SeriatimStatus seriatim_adopted_stream_has_read(const struct SeriatimAdoptedStream *stream,
                                                struct SeriatimVariable variable);

// Says that what is on the stream by now changes the variable: whatever is pushed later comes
// after it.
//
// # Errors
// As `seriatim_adopted_stream_has_read()`.
//
// # Safety
// `stream` is a live handle.
SeriatimStatus seriatim_adopted_stream_has_written(const struct SeriatimAdoptedStream *stream,
                                                   struct SeriatimVariable variable);

// Deletes the handle; a null pointer is fine. The stream is the program's, and lives on.
//
// # Errors
// Only those of every function.
//
// # Safety
// `stream` is null or a live handle, which is not used again.
SeriatimStatus seriatim_adopted_stream_delete(struct SeriatimAdoptedStream *stream);

// Starts recording named operations: those that are pushed from now on, about a million in the
// life of the engine. The table says how many were left out.
//
// # Errors
// Only those of every function.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_profile_start(const struct SeriatimEngine *engine);

// Stops recording. What was recorded is kept.
//
// # Errors
// Only those of every function.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_profile_stop(const struct SeriatimEngine *engine);

// Writes what was recorded to a file, as a trace in Chrome's format, which Perfetto
// (<https://ui.perfetto.dev>) opens.
//
// # Errors
// `SERIATIM_STATUS_INPUT_OUTPUT`; the text has the path and the system's reason.
//
// # Safety
// `engine` is a live handle. `path` ends with a zero byte.
SeriatimStatus seriatim_profile_write_trace(const struct SeriatimEngine *engine, const char *path);

// The statistics of what was recorded as a table for people, to be freed with
// `seriatim_string_free()`.
//
// # Errors
// Only those of every function.
//
// # Safety
// `engine` is a live handle. `out` may be written to.
SeriatimStatus seriatim_profile_table(const struct SeriatimEngine *engine, char **out);

// The operations in flight as a Graphviz graph, to be freed with `seriatim_string_free()`. A look
// at a moving engine, for people and not for programs.
//
// # Errors
// Only those of every function.
//
// # Safety
// `engine` is a live handle. `out` may be written to.
SeriatimStatus seriatim_dump_dot(const struct SeriatimEngine *engine, char **out);

// Looks at what an engine has done and has to do. Set `out->size` before. A field that the library
// does not know stays as it is. The call looks at each worker and, while anything is in flight, at
// every block that the engine has ever made: ask some times a second.
//
// # Errors
// `SERIATIM_STATUS_BAD_ARGUMENT` for a size that has no room for itself.
//
// # Safety
// `engine` is a live handle. `out` points to as many bytes as `out->size` says.
SeriatimStatus seriatim_stats(const struct SeriatimEngine *engine, struct SeriatimStats *out);

// Looks at what the worker of this number has done, counted from 0 through all workers of the
// engine: those of the processor, of priorities, of I/O, and of GPUs that were used. Set
// `out->size` before.
//
// # Errors
// `SERIATIM_STATUS_BAD_ARGUMENT` if there is no such worker, or for a size that has no room for
// itself.
//
// # Safety
// `engine` is a live handle. `out` points to as many bytes as `out->size` says.
SeriatimStatus seriatim_worker_stats(const struct SeriatimEngine *engine,
                                     size_t worker,
                                     struct SeriatimWorkerStats *out);

// Waits until the operations that change `variable` and were pushed before are complete. Running
// readers do not hold it up. The calling thread may run ready operations meanwhile (setting
// `WAITERS_HELP`).
//
// Returns the failure that the variable is marked with, and clears it everywhere: a second wait
// succeeds. Operations that this thread pushed before the wait, and that depend on the failed one,
// are skipped all the same; those of other threads are not, if they run later.
//
// # Errors
// That of the operation: `SERIATIM_STATUS_OPERATION_FAILED`, `SERIATIM_STATUS_OPERATION_PANICKED`,
// `SERIATIM_STATUS_COMPLETION_DROPPED`; or what the engine or a device has refused it, such as
// `SERIATIM_STATUS_DEVICE_LOST` or `SERIATIM_STATUS_OUT_OF_MEMORY`.
// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` inside an operation of the same engine.
// `SERIATIM_STATUS_VARIABLE_DELETED`, `SERIATIM_STATUS_FOREIGN_VARIABLE`,
// `SERIATIM_STATUS_PRIVATE_VARIABLE`. `SERIATIM_STATUS_STOPPED` in the child of a `fork` that
// could not wait for the engine, if something is pending.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_wait_for_variable(const struct SeriatimEngine *engine, struct SeriatimVariable variable);

// Waits until every operation that uses `variable` and was pushed before is complete, readers
// included: then what it stands for may be freed. Operations that use it and are pushed later
// begin after that. Otherwise as `seriatim_wait_for_variable()`.
//
// # Errors
// Those of `seriatim_wait_for_variable()`.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_wait_until_unused(const struct SeriatimEngine *engine, struct SeriatimVariable variable);

// As `seriatim_wait_until_unused()`, but not longer than this many nanoseconds, and without
// running operations itself. After an error the wait keeps its place in push order until the
// variable is free: operations that use it and are pushed later begin after that.
//
// # Errors
// Those of `seriatim_wait_for_variable_timeout()`.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_wait_until_unused_timeout(const struct SeriatimEngine *engine,
                                                  struct SeriatimVariable variable,
                                                  uint64_t nanoseconds);

// As `seriatim_wait_for_variable()`, but not longer than this many nanoseconds, and without
// running operations itself. The text of `SERIATIM_STATUS_TIMED_OUT` names what is pending and
// behind what.
//
// # Errors
// As `seriatim_wait_for_variable()`, and `SERIATIM_STATUS_TIMED_OUT`.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_wait_for_variable_timeout(const struct SeriatimEngine *engine,
                                                  struct SeriatimVariable variable,
                                                  uint64_t nanoseconds);

// Waits until every operation that was pushed before is complete. Pushes that go on meanwhile may
// hold it up.
//
// Returns the error of the operation that failed first in push order, of those that nobody has
// taken; all are cleared.
//
// # Errors
// That of the operation: `SERIATIM_STATUS_OPERATION_FAILED`, `SERIATIM_STATUS_OPERATION_PANICKED`,
// `SERIATIM_STATUS_COMPLETION_DROPPED`; or what the engine or a device has refused it, such as
// `SERIATIM_STATUS_DEVICE_LOST` or `SERIATIM_STATUS_OUT_OF_MEMORY`.
// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` inside an operation of the same engine.
// `SERIATIM_STATUS_STOPPED` in the child of a `fork` that could not wait for the engine, if
// something is in flight.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_wait_for_all(const struct SeriatimEngine *engine);

// As `seriatim_wait_for_all()`, but not longer than this many nanoseconds, and without running
// operations itself.
//
// # Errors
// As `seriatim_wait_for_all()`, and `SERIATIM_STATUS_TIMED_OUT`.
//
// # Safety
// `engine` is a live handle.
SeriatimStatus seriatim_wait_for_all_timeout(const struct SeriatimEngine *engine, uint64_t nanoseconds);

// Calls `function` when the operations that change `variable` and were pushed before this call are
// complete, as `seriatim_wait_for_variable()` waits, and waits itself for nobody. Running readers
// do not hold it up. The wait keeps its place in push order: what is pushed later is not waited
// for. If the variable is marked, the function gets the failure, which is thereby cleared
// everywhere.
//
// # Errors
// None that is not also given to `function`: `SERIATIM_STATUS_VARIABLE_DELETED`,
// `SERIATIM_STATUS_FOREIGN_VARIABLE`, `SERIATIM_STATUS_PRIVATE_VARIABLE`, and those of operations,
// are given to it, and the call succeeds. `SERIATIM_STATUS_NULL_POINTER` if `function` is null:
// then nothing is called but the deleter.
//
// # Safety
// `engine` is a live handle. `function` and `deleter` may be called with `argument` on any thread.
SeriatimStatus seriatim_when_ready(const struct SeriatimEngine *engine,
                                   struct SeriatimVariable variable,
                                   SeriatimReadyFunction function,
                                   void *argument,
                                   SeriatimDeleter deleter);

// As `seriatim_when_ready()`, but also waits for the operations that read `variable`, as
// `seriatim_wait_until_unused()` does: then what it stands for may be freed.
//
// # Errors
// Those of `seriatim_when_ready()`.
//
// # Safety
// `engine` is a live handle. `function` and `deleter` may be called with `argument` on any thread.
SeriatimStatus seriatim_when_unused(const struct SeriatimEngine *engine,
                                    struct SeriatimVariable variable,
                                    SeriatimReadyFunction function,
                                    void *argument,
                                    SeriatimDeleter deleter);

// Calls `function` when nothing is in flight, as `seriatim_wait_for_all()` waits, and waits itself
// for nobody. Inside an operation of the engine the function gets
// `SERIATIM_STATUS_WAIT_INSIDE_OPERATION` at once.
//
// # Errors
// Those of `seriatim_when_ready()`.
//
// # Safety
// `engine` is a live handle. `function` and `deleter` may be called with `argument` on any thread.
SeriatimStatus seriatim_when_all_ended(const struct SeriatimEngine *engine,
                                       SeriatimReadyFunction function,
                                       void *argument,
                                       SeriatimDeleter deleter);

// Adds 1 to an eventfd when the operations that change `variable` and were pushed before this call
// are complete: for programs that wait in `poll()` or `epoll_wait()`. A pipe does as well: it gets
// the eight bytes of that number. What the write returns is ignored. No failure is taken: call
// `seriatim_wait_for_variable()` then, which returns at once, and has it.
//
// It is an operation that reads `variable`, and runs even if that is marked by a failure. It
// writes exactly once, on some thread: also if the call is refused, or after a shutdown.
//
// # Errors
// As `seriatim_push()`. `SERIATIM_STATUS_BAD_ARGUMENT` if `descriptor` is negative, or the system
// has none.
//
// # Safety
// `engine` is a live handle. `descriptor` is open until it was written to.
SeriatimStatus seriatim_when_ready_write(const struct SeriatimEngine *engine,
                                         struct SeriatimVariable variable,
                                         int descriptor);

// Frees a text that a function of this library has put into a `char **`. Does nothing with a null
// pointer.
//
// # Errors
// Only those of every function.
//
// # Safety
// `text` came from this library in that way, was not changed, and is not used again.
SeriatimStatus seriatim_string_free(char *text);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* SERIATIM_H */
