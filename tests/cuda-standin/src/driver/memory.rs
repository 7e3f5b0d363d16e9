//! Memory and copies. Addresses mean one thing for as long as a process lives: nothing is reused.

use crate::driver::{current, driver};
use crate::held::Held;
use crate::run;
use crate::world::{code, Command, Memory, DEVICE};
use std::ffi::{c_uint, c_void};

fn allocate(world: &mut Held, bytes: usize, device: bool) -> u64 {
    // Filled with what is no number, so that a read before the first write shows.
    let room = vec![0xA5u8; bytes.max(1).next_multiple_of(256) + 256];
    let real = (Box::leak(room.into_boxed_slice()).as_mut_ptr().expose_provenance() as u64).next_multiple_of(256);
    world.memory.insert(real, Memory { bytes, device, freed: false, history: Default::default() });
    real | if device { DEVICE } else { 0 }
}

fn free(world: &mut Held, at: u64) -> Result<(), i32> {
    match world.memory.get_mut(&(at & !DEVICE)) {
        Some(memory) if !memory.freed => {
            memory.freed = true;
            Ok(())
        }
        _ => {
            world.report("memory was freed that is not there".to_owned());
            Err(code::INVALID_VALUE)
        }
    }
}

/// Whether this is pinned memory of the host.
fn is_pinned(world: &Held, at: u64, bytes: usize) -> bool {
    let place = world.memory.range(..=at).next_back();
    place.is_some_and(|(base, memory)| !memory.device && at + bytes as u64 <= base + memory.bytes as u64)
}

driver! {
    fn [cuMemAlloc_v2 cuMemAlloc](at: *mut u64, bytes: usize) |world| {
        current(&world)?;
        *at = allocate(&mut world, bytes, true);
    }
    fn [cuMemAllocAsync](at: *mut u64, bytes: usize, stream: usize) |world| {
        world.stream(stream)?;
        *at = allocate(&mut world, bytes, true);
    }
    fn [cuMemFree_v2 cuMemFree](at: u64) |world| {
        current(&world)?;
        free(&mut world, at)?;
    }
    fn [cuMemFreeAsync](at: u64, stream: usize) |world| {
        world.push(stream, Command::Free { base: at })?;
    }
    fn [cuMemHostAlloc](at: *mut u64, bytes: usize, _flags: c_uint) |world| {
        current(&world)?;
        *at = allocate(&mut world, bytes, false);
    }
    fn [cuMemFreeHost](at: u64) |world| {
        current(&world)?;
        free(&mut world, at)?;
    }
    fn [cuMemGetInfo_v2 cuMemGetInfo](free: *mut usize, total: *mut usize) |world| {
        current(&world)?;
        (*free, *total) = (1 << 33, 1 << 34);
    }
    fn [cuMemsetD8Async](to: u64, value: u8, bytes: usize, stream: usize) |world| {
        world.push(stream, Command::Set { to, value, bytes })?;
    }
    fn [cuMemcpyHtoDAsync_v2 cuMemcpyHtoDAsync](to: u64, from: *const c_void, bytes: usize, stream: usize) |world| {
        let address = from.expose_provenance() as u64;
        // What is not pinned the driver has copied before it returns.
        let staged = (!is_pinned(&world, address, bytes))
            .then(|| std::slice::from_raw_parts(from.cast::<u8>(), bytes).to_vec());
        world.push(stream, Command::Copy { from: address, to, bytes, staged })?;
    }
    fn [cuMemcpyDtoHAsync_v2 cuMemcpyDtoHAsync](to: *mut c_void, from: u64, bytes: usize, stream: usize) |world| {
        let address = to.expose_provenance() as u64;
        let pinned = is_pinned(&world, address, bytes);
        world.push(stream, Command::Copy { from, to: address, bytes, staged: None })?;
        if !pinned {
            run::until(&mut world, stream, |world| world.is_idle(stream))?;
        }
    }
    fn [cuMemcpyDtoDAsync_v2 cuMemcpyDtoDAsync](to: u64, from: u64, bytes: usize, stream: usize) |world| {
        world.push(stream, Command::Copy { from, to, bytes, staged: None })?;
    }
}
