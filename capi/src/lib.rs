//! The C interface of [`seriatim`]: opaque handles, status codes, and arguments with deleters.
//!
//! C programs use `include/seriatim.h`, which is generated from this crate, and link
//! `libseriatim_c`. The functions are as public here as there, so that what C sees can be tested
//! from Rust.
//!
//! Three rules hold for all of them. They do not unwind. They check every pointer for null and
//! every number for being one of its enumeration. And they own an argument from the moment of the
//! call, so that its deleter runs exactly once whatever happens.

#![deny(missing_docs)]

// The header has things in this order.
mod version;

mod builder;
mod engine;
mod error;

mod variable;

mod operation;
mod operator;

mod capture;
mod graph;
mod parameter;
mod pipeline;

mod limits;

mod commuting;
mod completion;
mod reduction;
mod run_context;

mod error_object;

mod library_handle;

mod gpu;

mod array;

mod adopted_stream;

mod profile;
mod stats;
mod wait;
mod when;

mod call;
mod device;
mod handle;
mod input;
mod stock;
mod sync;
mod text;

pub use adopted_stream::{
    seriatim_adopted_stream_delete, seriatim_adopted_stream_has_read, seriatim_adopted_stream_has_written,
    seriatim_adopted_stream_wait_to_read, seriatim_adopted_stream_wait_to_write, seriatim_gpu_adopt,
    SeriatimAdoptedStream,
};
pub use array::{
    seriatim_array_delete, seriatim_array_get, seriatim_array_length, seriatim_array_new, seriatim_array_read_on,
    seriatim_array_set, seriatim_array_variable, seriatim_array_write_on, seriatim_capture_copy, seriatim_copy,
    SeriatimArray,
};
pub use builder::{
    seriatim_builder_build, seriatim_builder_delete, seriatim_builder_from_environment,
    seriatim_builder_immediate_gpus, seriatim_builder_new, seriatim_builder_on_error, seriatim_builder_set,
    SeriatimBuilder, SeriatimErrorHook,
};
pub use call::{SeriatimAsyncFunction, SeriatimDeleter, SeriatimFunction};
pub use capture::{
    seriatim_capture_begin, seriatim_capture_delete, seriatim_capture_end, seriatim_capture_make_private,
    seriatim_capture_parameter, seriatim_capture_private_variable, seriatim_capture_push, seriatim_capture_push_async,
    seriatim_capture_push_operator, SeriatimCapture,
};
pub use commuting::{seriatim_push_async_commuting, seriatim_push_commuting, seriatim_variable_new_commutative};
pub use completion::{
    seriatim_completion_complete, seriatim_completion_complete_after, seriatim_completion_drop,
    seriatim_completion_fail, SeriatimCompletion,
};
pub use device::{SeriatimContext, SeriatimDevice};
pub use engine::{
    seriatim_engine_clone, seriatim_engine_delete, seriatim_engine_expect_cost, seriatim_engine_from_environment,
    seriatim_engine_global, seriatim_engine_new, seriatim_engine_notify_shutdown, seriatim_engine_prepare,
    seriatim_engine_set_nested_threads, seriatim_engine_setting, seriatim_engine_start, seriatim_engine_stop,
    seriatim_engine_warnings, SeriatimEngine, SeriatimSetting,
};
pub use error::{seriatim_last_error, seriatim_status_text, SeriatimStatus};
pub use error_object::{
    seriatim_completion_fail_object, seriatim_last_error_object, seriatim_run_context_set_error_object,
};
pub use gpu::{
    seriatim_gpu_delete, seriatim_gpu_memory, seriatim_gpu_open, seriatim_gpu_trim, SeriatimGpu, SeriatimMemory,
    SeriatimMemoryUsage,
};
pub use graph::{
    seriatim_graph_delete, seriatim_graph_dump_dot, seriatim_graph_length, seriatim_graph_replay, SeriatimGraph,
};
pub use library_handle::{seriatim_run_context_handle, SeriatimHandleFunction};
pub use limits::{
    seriatim_graph_replay_limited, seriatim_operator_push_limited, seriatim_pipeline_replay_limited,
    seriatim_push_async_limited, seriatim_push_limited, seriatim_token_cancel, seriatim_token_delete,
    seriatim_token_is_cancelled, seriatim_token_new, SeriatimLimits, SeriatimToken,
};
pub use operation::{seriatim_push, seriatim_push_async, SeriatimOperation, SeriatimProperty};
pub use operator::{
    seriatim_operator_delete, seriatim_operator_new, seriatim_operator_new_async, seriatim_operator_push,
    SeriatimOperator,
};
pub use parameter::{seriatim_parameter_delete, seriatim_parameter_get, seriatim_parameter_set, SeriatimParameter};
pub use pipeline::{
    seriatim_capture_end_pipeline, seriatim_pipeline_delete, seriatim_pipeline_length, seriatim_pipeline_replay,
    SeriatimPipeline,
};
pub use profile::{
    seriatim_dump_dot, seriatim_profile_start, seriatim_profile_stop, seriatim_profile_table,
    seriatim_profile_write_trace,
};
pub use reduction::{
    seriatim_push_reducing, seriatim_reduction_delete, seriatim_reduction_new, seriatim_reduction_new_ordered,
    seriatim_reduction_read, seriatim_reduction_variable, SeriatimCombine, SeriatimIdentity, SeriatimReducer,
    SeriatimReducing, SeriatimReducingFunction, SeriatimReduction, SeriatimValueFunction,
};
pub use run_context::{
    seriatim_run_context_context, seriatim_run_context_name, seriatim_run_context_nested_threads,
    seriatim_run_context_set_error, seriatim_run_context_stream, seriatim_run_context_worker, SeriatimRunContext,
};
pub use stats::{seriatim_stats, seriatim_worker_stats, SeriatimStats, SeriatimWorkerStats};
pub use text::seriatim_string_free;
pub use variable::{
    seriatim_variable_delete, seriatim_variable_new, seriatim_variable_set_name, seriatim_variable_version,
    SeriatimVariable,
};
pub use version::{
    seriatim_abi_version, seriatim_version, seriatim_version_number, SERIATIM_ABI_VERSION, SERIATIM_VERSION_MAJOR,
    SERIATIM_VERSION_MINOR, SERIATIM_VERSION_NUMBER, SERIATIM_VERSION_PATCH,
};
pub use wait::{
    seriatim_wait_for_all, seriatim_wait_for_all_timeout, seriatim_wait_for_variable,
    seriatim_wait_for_variable_timeout, seriatim_wait_until_unused, seriatim_wait_until_unused_timeout,
};
pub use when::{
    seriatim_when_all_ended, seriatim_when_ready, seriatim_when_ready_write, seriatim_when_unused,
    SeriatimReadyFunction,
};

// The header says that any thread may use these handles, and several at once.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    const fn sent<T: Send>() {}
    shared::<SeriatimEngine>();
    shared::<SeriatimOperator>();
    shared::<SeriatimGraph>();
    shared::<SeriatimParameter>();
    shared::<SeriatimToken>();
    shared::<SeriatimReduction>();
    shared::<SeriatimGpu>();
    shared::<SeriatimArray>();
    shared::<SeriatimAdoptedStream>();
    sent::<SeriatimBuilder>();
    sent::<SeriatimCapture>();
};
