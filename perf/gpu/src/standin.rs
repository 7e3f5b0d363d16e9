//! The stand-in for CUDA's driver, and the kernels as it knows them: functions that say what they
//! use. What they compute is what `kernels/kernels.cu` does.

use crate::client::{call, memory, Fault, Standin};
use crate::mix::mixed;
use std::cell::RefCell;
use std::ffi::{c_char, CStr};

type Kernel = unsafe extern "C" fn(usize, *const *const u8, *const u32, *const u32) -> i32;

/// What an address that is not there is answered with.
const ILLEGAL: i32 = 700;

std::thread_local! {
    /// On the thread that has begun it, which asks for the reports.
    static HELD: RefCell<Option<Standin>> = const { RefCell::new(None) };
}

/// Makes the stand-in this process's driver, with two devices and the kernels.
///
/// What another call of this thread has begun is over: its handles are none any more.
///
/// # Errors
/// If its library is not beside this program.
pub fn begin() -> Result<(), String> {
    let library = crate::client::path();
    if !library.exists() {
        return Err(format!("{} is not there: build the package cuda-standin", library.display()));
    }
    HELD.set(None);
    let standin = Standin::begin(1, 256);
    standin.devices(2);
    register(c"mix", 7, mix);
    register(c"fill", 7, fill);
    register(c"compare", 8, compare);
    HELD.set(Some(standin));
    Ok(())
}

/// From now on commands run late, out of step and in bursts.
pub fn late() {
    with(|standin| {
        standin.pace(100);
        standin.burst(4);
    });
}

/// How many faults that were planted were made.
pub fn planted() -> u64 {
    with(Standin::planted)
}

/// How often each function of the driver was called.
pub fn called() -> Vec<(String, u64)> {
    with(Standin::called)
}

/// From now on nothing runs.
pub fn rest() {
    with(|standin| standin.pace(0));
}

/// So many devices are there.
pub fn devices(count: usize) {
    with(|standin| standin.devices(count));
}

fn with<R>(ask: impl FnOnce(&Standin) -> R) -> R {
    HELD.with_borrow(|held| ask(held.as_ref().expect("this thread has begun the stand-in")))
}

/// Unordered uses of memory, and misuse of the driver, in words.
pub fn reports() -> Vec<String> {
    with(Standin::reports)
}

/// Has the driver forget each so many-th wait for an event.
pub fn swallow_waits(every: u64) {
    with(|standin| standin.plant(Fault::WaitSwallowed, every));
}

/// Has the driver say of each so many-th event that it is done when it is not.
pub fn hurry(every: u64) {
    with(|standin| standin.plant(Fault::DoneTooEarly, every));
}

fn register(name: &CStr, count: usize, kernel: Kernel) {
    let sizes = vec![8usize; count];
    call!(standin_kernel(
        name.as_ptr() => *const c_char, sizes.as_ptr() => *const usize, count => usize,
        kernel => Kernel, 0 => usize
    ));
}

/// # Safety
/// There are so many arguments of eight bytes.
unsafe fn arguments<const N: usize>(arguments: *const *const u8) -> [u64; N] {
    // SAFETY: by the contract.
    std::array::from_fn(|at| unsafe { (*arguments.add(at)).cast::<u64>().read_unaligned() })
}

/// The words at an address that a kernel uses; none if they are not there.
fn words(at: u64, count: usize, write: bool) -> Option<*mut u64> {
    let found = memory(at, count * 8, write, 0).cast::<u64>();
    (!found.is_null()).then_some(found)
}

unsafe extern "C" fn mix(_: usize, given: *const *const u8, _: *const u32, _: *const u32) -> i32 {
    // SAFETY: it is registered with seven arguments.
    let [out, a, b, c, id, spin, count] = unsafe { arguments(given) };
    let count = count as usize;
    if count == 0 {
        return 0;
    }
    let run = || {
        let mut from = [std::ptr::null_mut(); 3];
        for (place, at) in from.iter_mut().zip([a, b, c]) {
            *place = if at == 0 { std::ptr::null_mut() } else { words(at, count, false)? };
        }
        let out = words(out, count, true)?;
        for at in 0..count {
            // SAFETY: `memory` has found so many words in each place.
            unsafe {
                let values = from.map(|from| if from.is_null() { 0 } else { *from.add(at) });
                *out.add(at) = mixed(*out.add(at), values, id, spin);
            }
        }
        Some(())
    };
    run().map_or(ILLEGAL, |()| 0)
}

/// The number in a row and a column of the matrix that `fill` makes.
fn element(i: u64, j: u64, n: u64) -> f64 {
    let (low, high) = (i.min(j), i.max(j));
    let word = high.wrapping_mul(4_294_967_311).wrapping_add(low).wrapping_mul(6_364_136_223_846_793_005);
    let word = word.wrapping_add(1_442_695_040_888_963_407);
    let word = (word ^ (word >> 29)).wrapping_mul(2_862_933_555_777_941_757);
    let value = (word >> 32) as f64 / 4_294_967_296.0 - 0.5;
    value + if i == j { n as f64 } else { 0.0 }
}

unsafe extern "C" fn fill(_: usize, given: *const *const u8, _: *const u32, _: *const u32) -> i32 {
    // SAFETY: it is registered with seven arguments.
    let [at, rows, columns, right, row, column, n] = unsafe { arguments(given) };
    let Some(words) = words(at, ((columns - 1) * right + rows) as usize, true) else { return ILLEGAL };
    for (r, c) in (0..columns).flat_map(|c| (0..rows).map(move |r| (r, c))) {
        // SAFETY: `memory` has found so many words.
        unsafe { words.cast::<f64>().add((r + c * right) as usize).write(element(row + r, column + c, n)) };
    }
    0
}

unsafe extern "C" fn compare(_: usize, given: *const *const u8, _: *const u32, _: *const u32) -> i32 {
    // SAFETY: it is registered with eight arguments.
    let [a, right_a, b, right_b, rows, columns, lower, worst] = unsafe { arguments(given) };
    let length = |right: u64| ((columns - 1) * right + rows) as usize;
    let found = (words(a, length(right_a), false), words(b, length(right_b), false), words(worst, 2, true));
    let (Some(a), Some(b), Some(worst)) = found else { return ILLEGAL };
    let bits = |value: f64| value.abs().to_bits().min(f64::INFINITY.to_bits());
    for (r, c) in (0..columns).flat_map(|c| (0..rows).map(move |r| (r, c))) {
        if lower != 0 && r < c {
            continue;
        }
        // SAFETY: `memory` has found so many words in each place.
        unsafe {
            let one = a.cast::<f64>().add((r + c * right_a) as usize).read();
            let other = b.cast::<f64>().add((r + c * right_b) as usize).read();
            *worst = (*worst).max(bits(one - other));
            *worst.add(1) = (*worst.add(1)).max(bits(other));
        }
    }
    0
}
