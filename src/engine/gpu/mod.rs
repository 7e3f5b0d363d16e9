//! GPUs: how operations reach a device, and how the order of variables becomes that of its streams.
//!
//! An operation of a device is *queued*, then *done*. Its closure is called on a worker of the
//! device, and puts work on a stream. When it returns, the operation gets the next number of that
//! stream's timeline (`src/device/timeline.rs`), leaves this ticket on its variables, and ends for
//! the engine: its successors come to their turn. What they do then depends on where they run.
//!
//! | successor | before its closure is called |
//! |---|---|
//! | on the same stream | nothing |
//! | on another stream of the device | the stream is told to wait, by a mark (`queue.rs`) |
//! | on the processor, or on another device | it is parked until the device has come there (`turn.rs`) |
//!
//! So no worker waits for a device. One thread a device, its watcher (`watch.rs`), asks how far the
//! streams have come, hands parked operations out, and counts operations as completed. If memory is
//! short it frees what is kept, and the driver may wait meanwhile: arrays that need the room are
//! parked, and no other thread waits. The naive engine has no workers and no watcher: the thread
//! that has called a closure waits for the stream.
//!
//! [`rows`] has the tickets of the variables, and [`devices`] what an engine knows of its devices.
//! [`buffers`] has the memory of a device in [`size_classes`], which [`allocate`] asks the driver
//! for and gives back. [`lease`] has the owners of that memory. [`admit`] makes a device ready for
//! its first operation. [`submit`](mod@submit) hands an operation to the device's workers,
//! [`queue`] chooses a stream, and [`call`](mod@call) calls the closure, behind which [`entered`]
//! makes the device current again. An operation that leaves no ticket has a [`borrow`] instead.
//! [`timing`] and [`under_way`] note when the device did its work, if it is profiled. [`turn`]
//! parks what has to wait, [`watch`] is the watcher, and [`sleep`] how it sleeps. [`loss`] says
//! what becomes of a device that fails. [`foreign`] puts streams in order that are the program's
//! own, by marks of [`spare_marks`], and by operations that [`stage`] sees called.
//!
//! An engine that has used no device knows nothing of this: the flag `DEVICES_USED` leads here,
//! from `execute.rs`, from `inline/fast_path.rs` and from `wait/for_var.rs`.

pub mod admit;
pub mod allocate;
pub mod borrow;
pub mod buffers;
pub mod call;
pub mod devices;
pub mod entered;
pub mod foreign;
pub mod lease;
pub mod loss;
pub mod queue;
pub mod rows;
pub mod size_classes;
pub mod sleep;
pub mod spare_marks;
pub mod stage;
pub mod submit;
pub mod timing;
pub mod turn;
pub mod under_way;
pub mod watch;
