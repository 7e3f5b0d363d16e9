//! The driver's functions. Each counts itself, fails if a test wants it to, and runs a few commands
//! of streams before it does what it is for.

mod device;
mod event;
mod graph;
mod kernel;
mod memory;
mod stream;

use crate::held::{Held, CURRENT, INSIDE};
use crate::run;
use crate::world::code;

/// Begins a call of a function.
///
/// # Errors
/// What the call must return.
fn begin(function: &'static str) -> Result<Held, i32> {
    let mut world = Held::take();
    if INSIDE.get() {
        world.report(format!("{function} was called by what runs on a stream"));
        return Err(code::NOT_PERMITTED);
    }
    world.pauses.draw(function);
    let gives_back = ["cuStreamDestroy", "cuEventDestroy", "cuMemFree"].iter().any(|name| function.starts_with(name));
    let current = CURRENT.get().checked_sub(1).and_then(|device| world.devices.get(device));
    if gives_back && current.is_some_and(|device| device.lost != 0) {
        world.report(format!("{function} was called for a device that is lost"));
    }
    world.all_calls += 1;
    let all = world.all_calls;
    let calls = world.calls.entry(function).or_default();
    *calls += 1;
    let calls = *calls;
    let fails = world.failing.iter().position(|failing| match failing.function.as_str() {
        "*" => failing.nth == all,
        name => name == function && failing.nth == calls,
    });
    if let Some(at) = fails {
        let failing = world.failing.swap_remove(at);
        if failing.sticky {
            world.lose(CURRENT.get().saturating_sub(1), failing.error);
        }
        return Err(failing.error);
    }
    run::pump(&mut world);
    Ok(world)
}

/// The device of the context that is current on this thread.
///
/// # Errors
/// If there is none, or it is lost.
fn current(world: &Held) -> Result<usize, i32> {
    let device = CURRENT.get().checked_sub(1).ok_or(code::INVALID_CONTEXT)?;
    match world.devices.get(device) {
        Some(there) if there.retained == 0 => Err(code::INVALID_CONTEXT),
        Some(there) if there.lost != 0 => Err(there.lost),
        Some(_) => Ok(device),
        None => Err(code::INVALID_CONTEXT),
    }
}

/// Declares functions of the driver: those with several names are older forms of the same. The
/// bodies are unsafe: they rely on the driver's documentation being kept to.
macro_rules! driver {
    ($(fn [$($name:ident)+]($($argument:ident: $type:ty),* $(,)?) |$world:ident| $body:block)*) => {$(
        driver!(@each [$($name)+] [($($argument: $type),*) $world $body]);
    )*};
    (@each [] $rest:tt) => {};
    (@each [$name:ident $($more:ident)*] [($($argument:ident: $type:ty),*) $world:ident $body:block]) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> i32 {
            #[allow(unused_mut, unused_variables)]
            let act = |mut $world: crate::held::Held| -> Result<(), i32> {
                // SAFETY: the caller keeps to the driver's documentation.
                #[allow(unused_unsafe)]
                unsafe { $body }
                $world.changed();
                Ok(())
            };
            let code = crate::driver::begin(stringify!($name)).and_then(act).err().unwrap_or_default();
            crate::planted::pause();
            code
        }
        driver!(@each [$($more)*] [($($argument: $type),*) $world $body]);
    };
}
use driver;
